import { describe, expect, test } from 'vitest'
import { payloads } from '../../../conformance/src/index.ts'
import { MAX_ARGUMENT_CHARS } from '../../../core/src/formats/translation.ts'
import type { StreamEventPayload } from '../../../core/src/index.ts'
import { resolveCaps, type TurnCaps } from '../../src/turns/turn-items.ts'
import { answer, call, delta, done, end, open, usage, used } from './payloads.ts'
import { newRig, outputsOf, puppet, type Round, readLog, storyOf } from './rig.ts'
import { checkSettled } from './whole-turn.ts'

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
    name: 'text up to the cap is allowed',
    caps: { maxTurnChars: 10 },
    rounds: [[open('a'), delta('a', '12345'), delta('a', '67890'), done('a', '1234567890'), end()]],
    story: ['open r:1 message', 'r:1 + 12345', 'r:1 + 67890', 'done r:1 1234567890', 'end stop ?'],
  },
  {
    name: 'one more character is refused and not stored',
    caps: { maxTurnChars: 10 + JSON.stringify(usage(1, 2)).length },
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
    name: 'initial content counts',
    caps: { maxTurnChars: 3 },
    rounds: [[open('a', { initial_content: '1234' }), end()]],
    story: ['end TURN_TEXT_LIMIT'],
  },
  {
    name: 'text that arrives only at the end of an item counts',
    caps: { maxTurnChars: 3 },
    rounds: [[open('a'), delta('a', '12'), done('a', '1234'), end()]],
    story: ['open r:1 message', 'r:1 + 12', 'error r:1 TURN_TEXT_LIMIT', 'end TURN_TEXT_LIMIT'],
  },
  {
    name: 'arguments and tool outputs count as text',
    // The name and the id of the call count at its start and at its end.
    caps: { maxTurnChars: 21 + 2 * '"name":"flood","call_id":"call-1"'.length },
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
    name: 'items up to the cap are allowed',
    caps: { maxTurnItems: 2 },
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
    name: 'one more item is refused',
    caps: { maxTurnItems: 1 },
    rounds: [[open('a'), open('b'), end()]],
    story: ['open r:1 message', 'error r:1 TURN_ITEM_LIMIT', 'end TURN_ITEM_LIMIT'],
  },
  {
    name: 'items without a start count',
    caps: { maxTurnItems: 1 },
    rounds: [[done('a', 'x'), done('b', 'x'), end()]],
    story: ['done r:1 x', 'end TURN_ITEM_LIMIT'],
  },
  {
    name: 'tool outputs count as items',
    caps: { maxTurnItems: 1 },
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
    name: 'rounds of tool calls up to the cap run, and the model answers',
    caps: { maxTurnRounds: 1 },
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
    name: 'tools do not run for a round beyond the cap',
    caps: { maxTurnRounds: 1 },
    rounds: [
      [...call('1', 'add'), end()],
      [...call('2', 'add'), end({ usage: usage(1, 1) })],
      [end()],
    ],
    story: [
      'open r:1 function_call',
      'r:1 + {}',
      'done r:1 add({})',
      'open r:2 function_call_output',
      'done r:2 call-1 = added',
      'open r:3 function_call',
      'r:3 + {}',
      'done r:3 add({})',
      'usage 2',
      'error r:3 TURN_ROUND_LIMIT',
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

  const big = { blob: 'x'.repeat(1000) }
  const failure = { code: 'X', message: 'x'.repeat(1000) }
  const output = { type: 'function_call_output', id: 'o', call_id: 'y'.repeat(1000) } as const
  test.each<[string, Round]>([
    ['metadata at the start', [open('a', { provider_metadata: big }), end()]],
    ['metadata at the end', [...call('a', 'ask', { provider_metadata: big }), end()]],
    ['the name of a call', [...call('a', 'x'.repeat(1000)), end()]],
    ['a call id', [...call('a', 'ask', { call_id: 'x'.repeat(1000) }), end()]],
    ['an unknown field of a delta', [open('a'), { ...delta('a', 'x'), ...big }, end()]],
    ['an unknown field of an item', [open('a'), { ...done('a', 'x'), ...big }, end()]],
    [
      'the error of an item',
      [open('a'), { type: 'item_error', item_id: 'a', error: failure }, end()],
    ],
    [
      'an output',
      [
        { type: 'item_done', item_id: 'o', final_item: { ...output, output: '', success: true } },
        end(),
      ],
    ],
    ['usage', [used({ ...usage(1, 1), ...big }), end()]],
    [
      'many updates of the usage',
      [...Array.from({ length: 20 }, (_, n) => used(usage(1, n))), end()],
    ],
  ])('V13 count %s, drop it and end the turn', async (_what, round) => {
    const rig = newRig({ caps: { maxTurnChars: 500 }, rounds: [round] })
    await rig.submit()
    await rig.settled()
    const events = await readLog(rig.log, 'r', 'events')
    expect(events.join('').length).toBeLessThan(10_000)
    expect((await storyOf(rig.log)).at(-1)).toBe('end TURN_TEXT_LIMIT')
    expect(await rig.log.getTurn('r')).toMatchObject({ sealed: true })
    checkSettled(events)
  })

  test.each<[string, StreamEventPayload, string]>([
    ['an unknown field', { ...end(), ...{ blob: 'x'.repeat(70_000_000) } }, 'end stop ?'],
    ['a value that is not JSON', { ...end(), ...{ blob: 1n } }, 'end stop ?'],
    [
      'its usage',
      end({ usage: { ...usage(1, 1), ...{ blob: 'x'.repeat(70_000_000) } } }),
      'end stop 2',
    ],
    [
      'its error',
      {
        type: 'response_error',
        response_id: 'v',
        error: { ...failure, ...{ blob: 'x'.repeat(70_000_000) } },
      },
      'end X',
    ],
  ])('V13 a turn ends although its end is too large by %s', async (_what, last, story) => {
    const rig = newRig({ rounds: [[...answer('a', 'x'), open('b'), last]] })
    await rig.submit()
    await rig.settled()
    expect((await storyOf(rig.log)).at(-1)).toBe(story)
    expect(rig.errors).toEqual(['UPSTREAM_MALFORMED'])
    const events = await readLog(rig.log, 'r', 'events')
    expect(events.join('').length).toBeLessThan(100_000)
    checkSettled(events)
  })

  const large = '{"a":"12345678"}'
  const start = { item_type: 'function_call', name: 'ask', call_id: 'c' } as const
  const final_item = payloads.functionCall('a', { name: 'ask', call_id: 'c', arguments: large })
  const whole = { type: 'item_done', item_id: 'a', final_item } as const
  test.each<[string, StreamEventPayload[], string[]]>([
    [
      'in deltas',
      [open('a', start), delta('a', large.slice(0, 9)), delta('a', large)],
      ['open r:1 function_call', `r:1 + ${large.slice(0, 9)}`],
    ],
    ['at the start', [open('a', { ...start, initial_content: large })], []],
    ['at the end', [whole], []],
    ['at the start and the end', [open('a', start), whole, whole], ['open r:1 function_call']],
  ])(
    'end a call with too large arguments, whatever the provider: %s',
    async (_how, said, story) => {
      const rig = newRig({ processor: { maxArgumentChars: 15 }, rounds: [[...said, end()]] })
      await rig.submit()
      await rig.settled()
      const ended = ['error r:1 TOOL_ARGUMENTS_TOO_LARGE', 'end stop ?']
      expect(await storyOf(rig.log)).toEqual([...story, ...ended])
      checkSettled(await readLog(rig.log, 'r', 'events'))
    },
  )

  test('end a call with ten times the arguments that are allowed by default', async () => {
    const args = JSON.stringify('x'.repeat(MAX_ARGUMENT_CHARS / 10))
    const deltas = Array.from({ length: 99 }, () => delta('a', args))
    const rig = newRig({ rounds: [[open('a', start), ...deltas, end()]] })
    await rig.submit()
    await rig.settled()
    const events = await readLog(rig.log, 'r', 'events')
    expect(events.join('').length).toBeLessThan(MAX_ARGUMENT_CHARS * 1.1)
    expect((await storyOf(rig.log)).slice(-2)).toEqual([
      'error r:1 TOOL_ARGUMENTS_TOO_LARGE',
      'end stop ?',
    ])
  })

  test('allow the arguments that a provider allows', async () => {
    const args = JSON.stringify('x'.repeat(MAX_ARGUMENT_CHARS))
    const said = [...call('a', 'ask', { arguments: args }), end()]
    const provider = { ...puppet([said]), maxArgumentChars: 2 * MAX_ARGUMENT_CHARS }
    const rig = newRig({ provider })
    await rig.submit()
    await rig.settled()
    expect((await storyOf(rig.log)).at(-1)).toBe('end tool_calls ?')
  })

  test('V13 empty deltas are not stored', async () => {
    const rig = newRig({
      rounds: [[open('a'), delta('a', ''), delta('a', 'x'), done('a', 'x'), end()]],
    })
    await rig.submit()
    await rig.settled()
    expect(await storyOf(rig.log)).toHaveLength(4)
  })

  test('stop an endless provider', async () => {
    const rig = newRig({ caps: { maxTurnChars: 100 }, rounds: [({ say }) => say(open('a'))] })
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
      caps: { maxTurnTimeMs: 5000 },
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
    const rig = newRig({ caps: { maxTurnTimeMs: 5000 } })
    await rig.submit()
    await rig.clock.advance(5000)
    await rig.settled()
    expect(await storyOf(rig.log)).toEqual(['end TURN_TIME_LIMIT'])
    expect(rig.clock.pending()).toBe(0)
  })

  test('let a turn end with the maximum number of open items', async () => {
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

  test('let a turn end that leaves very many calls to the client', async () => {
    const calls = Array.from({ length: 1500 }, (_, index) => call(`${index}`, 'ask'))
    const rig = newRig({ rounds: [[...calls.flat(), end('tool_calls')]] })
    await rig.submit()
    await rig.settled()
    expect(rig.errors).toEqual([])
    expect((await storyOf(rig.log)).at(-1)).toBe('end tool_calls ?')
    expect(await rig.log.getTurn('r')).toMatchObject({ sealed: true })
  })

  test('have the documented defaults', () => {
    expect(resolveCaps()).toEqual({
      maxTurnChars: 10_000_000,
      maxTurnItems: 2000,
      maxTurnTimeMs: 1_800_000,
      maxTurnRounds: 32,
      maxParallelTools: 8,
      maxApprovalTimeMs: 600_000,
      maxHistoryBytes: 33_554_432,
      maxHistoryTokens: 2_000_000,
    })
  })

  test.each([{ maxTurnItems: 0 }, { maxTurnRounds: Number.NaN }, { maxTurnChars: -1 }])(
    'are rejected when no turn could run: %j',
    (caps) => {
      expect(() => newRig({ caps })).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
    },
  )
})
