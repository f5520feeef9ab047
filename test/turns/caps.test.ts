import { describe, expect, test } from 'vitest'
import type { TurnCaps } from '../../src/turns/turn-caps.ts'
import { resolveCaps } from '../../src/turns/turn-caps.ts'
import { answer, call, delta, done, end, open, usage, used } from './payloads.ts'
import { newRig, outputsOf, type Round, storyOf } from './rig.ts'

const TOOLS = [
  { name: 'add', parameters: {}, execute: () => 'added' },
  { name: 'flood', parameters: {}, execute: () => 'x'.repeat(20) },
]

interface Row {
  name: string
  caps: Partial<TurnCaps>
  rounds: Round[]
  story: string[]
}

const rows: Row[] = [
  {
    name: 'as much text as is allowed is allowed',
    caps: { maxTextChars: 10 },
    rounds: [[open('a'), delta('a', '12345'), delta('a', '67890'), done('a', '1234567890'), end()]],
    story: ['open r:1 message', 'r:1 + 12345', 'r:1 + 67890', 'done r:1 1234567890', 'end stop ?'],
  },
  {
    name: 'one character more is not, and is not written',
    caps: { maxTextChars: 10 },
    rounds: [
      [used(usage(1, 2)), open('a'), delta('a', '1234567890'), open('b'), delta('b', '!'), end()],
    ],
    story: [
      'usage 3',
      'open r:1 message',
      'r:1 + 1234567890',
      'open r:2 message',
      'error r:1 TURN_TEXT_LIMIT',
      'error r:2 TURN_TEXT_LIMIT',
      'end TURN_TEXT_LIMIT',
    ],
  },
  {
    name: 'text counts that an item begins with',
    caps: { maxTextChars: 3 },
    rounds: [[open('a', { initial_content: '1234' }), end()]],
    story: ['end TURN_TEXT_LIMIT'],
  },
  {
    name: 'text counts that comes only at the end of an item',
    caps: { maxTextChars: 3 },
    rounds: [[open('a'), delta('a', '12'), done('a', '1234'), end()]],
    story: ['open r:1 message', 'r:1 + 12', 'error r:1 TURN_TEXT_LIMIT', 'end TURN_TEXT_LIMIT'],
  },
  {
    name: 'the arguments of calls and the answers of tools count as text',
    caps: { maxTextChars: 21 },
    rounds: [[...call('1', 'flood'), end()], [end()]],
    story: [
      'open r:1 function_call',
      'r:1 + {}',
      'done r:1 flood({})',
      'error r:1 TURN_TEXT_LIMIT',
      'end TURN_TEXT_LIMIT',
    ],
  },
  {
    name: 'as many items as are allowed are allowed',
    caps: { maxItems: 2 },
    rounds: [[...answer('a', 'x'), ...answer('b', 'y'), end()]],
    story: [
      'open r:1 message',
      'r:1 + x',
      'done r:1 x',
      'open r:2 message',
      'r:2 + y',
      'done r:2 y',
      'end stop ?',
    ],
  },
  {
    name: 'one item more is not',
    caps: { maxItems: 1 },
    rounds: [[open('a'), open('b'), end()]],
    story: ['open r:1 message', 'error r:1 TURN_ITEM_LIMIT', 'end TURN_ITEM_LIMIT'],
  },
  {
    name: 'items count that nobody started',
    caps: { maxItems: 1 },
    rounds: [[done('a', 'x'), done('b', 'x'), end()]],
    story: ['done r:1 x', 'end TURN_ITEM_LIMIT'],
  },
  {
    name: 'answers of tools count as items',
    caps: { maxItems: 1 },
    rounds: [[...call('1', 'add'), end()], [end()]],
    story: [
      'open r:1 function_call',
      'r:1 + {}',
      'done r:1 add({})',
      'error r:1 TURN_ITEM_LIMIT',
      'end TURN_ITEM_LIMIT',
    ],
  },
  {
    name: 'as many rounds as are allowed are allowed',
    caps: { maxRounds: 2 },
    rounds: [[...call('1', 'add'), end()], [end()]],
    story: [
      'open r:1 function_call',
      'r:1 + {}',
      'done r:1 add({})',
      'open r:2 function_call_output',
      'done r:2 call-1 = added',
      'end stop ?',
    ],
  },
  {
    name: 'tools are not run for a round that is not allowed',
    caps: { maxRounds: 1 },
    rounds: [[...call('1', 'add'), end({ usage: usage(1, 1) })], [end()]],
    story: [
      'open r:1 function_call',
      'r:1 + {}',
      'done r:1 add({})',
      'usage 2',
      'error r:1 TURN_ROUND_LIMIT',
      'end TURN_ROUND_LIMIT',
    ],
  },
]

describe('the caps of a turn', () => {
  test.each(rows)('$name', async ({ caps, rounds, story }) => {
    const rig = newRig({ caps, rounds, tools: TOOLS })
    await rig.submit()
    await rig.settled()
    expect(await storyOf(rig.log)).toEqual(story)
    expect(rig.provider.calls.at(-1)?.signal.aborted).toBe(true)
  })

  test('stop a provider that goes on and on', async () => {
    const rig = newRig({ caps: { maxTextChars: 100 }, rounds: [({ say }) => say(open('a'))] })
    await rig.submit()
    const { say, signal } = await rig.provider.called(1)
    while (!signal.aborted) {
      say(delta('a', 'word '))
      await rig.clock.advance(1)
    }
    await rig.settled()
    const story = await storyOf(rig.log)
    expect(story.filter((each) => each.startsWith('r:1 +'))).toHaveLength(20)
    expect(story.slice(-2)).toEqual(['error r:1 TURN_TEXT_LIMIT', 'end TURN_TEXT_LIMIT'])
  })

  test('stop a turn that takes too long, in the middle of a tool', async () => {
    const tools = [
      { name: 'wait', parameters: {}, execute: () => new Promise(() => {}), timeoutMs: 1e9 },
    ]
    const rig = newRig({
      caps: { maxDurationMs: 5000 },
      rounds: [[...call('1', 'wait'), end()]],
      tools,
    })
    await rig.submit()
    await rig.clock.advance(4999)
    expect(rig.runner.running).toBe(1)
    await rig.clock.advance(1)
    await rig.settled()
    expect((await storyOf(rig.log)).slice(-2)).toEqual([
      'error r:1 TURN_TIME_LIMIT',
      'end TURN_TIME_LIMIT',
    ])
    const outputs = await outputsOf(rig.log)
    expect(outputs.slice(-2)).toMatchObject([
      { type: 'tool_call', status: 'error', errorCode: 'TURN_TIME_LIMIT' },
      { type: 'turn_error', error: { code: 'TURN_TIME_LIMIT' } },
    ])
  })

  test('stop a provider that is silent', async () => {
    const rig = newRig({ caps: { maxDurationMs: 5000 } })
    await rig.submit()
    await rig.clock.advance(5000)
    await rig.settled()
    expect(await storyOf(rig.log)).toEqual(['end TURN_TIME_LIMIT'])
    expect(rig.clock.pending()).toBe(0)
  })

  test('let a turn end that has as many open items as are allowed', async () => {
    const opened = Array.from({ length: 2000 }, (_, index) => [
      open(`${index}`),
      delta(`${index}`, 'x'),
    ])
    const rig = newRig({ rounds: [[...opened.flat(), open('one more'), end()]] })
    await rig.submit()
    await rig.settled()
    const story = await storyOf(rig.log)
    expect(story.at(-1)).toBe('end TURN_ITEM_LIMIT')
    expect(story.filter((each) => each.startsWith('error'))).toHaveLength(2000)
    expect(await rig.log.getTurn('r')).toMatchObject({ sealed: true })
    expect(rig.errors).toEqual([])
  })

  test('let a turn end that leaves as many calls to the client as a processor can hardly hold', async () => {
    const calls = Array.from({ length: 1500 }, (_, index) => call(`${index}`, 'ask'))
    const rig = newRig({ rounds: [[...calls.flat(), end('tool_calls')]] })
    await rig.submit()
    await rig.settled()
    expect(rig.errors).toEqual([])
    expect((await storyOf(rig.log)).at(-1)).toBe('end tool_calls ?')
    expect(await rig.log.getTurn('r')).toMatchObject({ sealed: true })
  })

  test('are what the documents say unless given', () => {
    expect(resolveCaps()).toEqual({
      maxTextChars: 10_000_000,
      maxItems: 2000,
      maxDurationMs: 1_800_000,
      maxRounds: 32,
    })
  })

  test.each([{ maxItems: 0 }, { maxRounds: Number.NaN }, { maxTextChars: -1 }])(
    'are refused where no turn could run: %j',
    (caps) => {
      expect(() => newRig({ caps })).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
    },
  )
})
