import { describe, expect, test } from 'vitest'
import { isStreamEvent } from '../../../core/src/index.ts'
import { eventIdsOf } from '../../../core/src/protocol/ids.ts'
import { answer, BEGIN, call, delta, done, end, line, open, usage, used } from './payloads.ts'
import { eventsOf, newRig, outputsOf, payloadsOf, type Round, readLog, storyOf } from './rig.ts'

const TOOLS = [{ name: 'add', parameters: {}, execute: () => 'added' }]

describe('D1 the log of a turn', () => {
  test('has one start, the prompt, the items of the round, its usage and one end', async () => {
    const rounds = [[BEGIN, ...answer('a', 'Hello'), end({ usage: usage(3, 4) })]]
    const { log, submit, settled } = newRig({ rounds })
    await submit()
    await settled()
    expect(await payloadsOf(log)).toEqual([
      {
        type: 'response_start',
        response_id: 'r',
        turn_id: 'r',
        thread_id: 'id-1',
        model_id: 'small',
        provider_id: 'puppet',
        created_at: 1_000_000,
      },
      { type: 'item_start', item_id: 'r-user-prompt', item_type: 'message', origin: 'user' },
      {
        type: 'item_done',
        item_id: 'r-user-prompt',
        final_item: { type: 'message', id: 'r-user-prompt', content: 'Hi', origin: 'user' },
      },
      { type: 'item_start', item_id: 'r:1', item_type: 'message' },
      { type: 'item_delta', item_id: 'r:1', delta_content: 'Hello' },
      {
        type: 'item_done',
        item_id: 'r:1',
        final_item: { type: 'message', id: 'r:1', content: 'Hello', origin: 'agent' },
      },
      { type: 'usage_update', response_id: 'r', usage: usage(3, 4) },
      {
        type: 'response_done',
        response_id: 'r',
        status: 'complete',
        finish_reason: 'stop',
        usage: usage(3, 4),
      },
    ])
  })

  test('has all input items', async () => {
    const rig = newRig({ rounds: [[end()]] })
    const input = [
      { type: 'message', origin: 'system', content: 'Be brief' },
      { type: 'function_call_output', call_id: 'c-1', output: '42', success: true },
      { type: 'message', origin: 'user', content: 'And now?' },
      { type: 'function_call_output', call_id: 'c-2', output: 'no', success: false },
    ] as const
    await rig.submit({ input }, { acceptsAnyOutput: true })
    await rig.settled()
    expect((await payloadsOf(rig.log)).map(line)).toEqual([
      'begin r puppet/small',
      'open r-user-prompt message',
      'done r-user-prompt Be brief',
      'open r-input-2 function_call_output',
      'done r-input-2 c-1 = 42',
      'open r-user-prompt-2 message',
      'done r-user-prompt-2 And now?',
      'open r-input-4 function_call_output',
      'done r-input-4 c-2 ! no',
      'end stop ?',
    ])
    expect(rig.errors).toEqual([])
  })

  test('has the run id in its events and in the ids of its items when both are given', async () => {
    const rig = newRig({ rounds: [[...answer('a', 'x'), end()]] })
    await rig.submit({ turnId: 't', runId: 'r' })
    await rig.settled()
    const events = await eventsOf(rig.log, 't')
    expect(new Set(events.map(({ run_id }) => run_id))).toEqual(new Set(['r']))
    expect(events[0]?.payload).toMatchObject({ response_id: 'r', turn_id: 't' })
    expect(events.map(({ payload }) => line(payload))).toContain('done r:1 x')
  })

  test('gives every event an id derived from its position, an integer time and the trace', async () => {
    const rig = newRig({ rounds: [[...answer('a', 'x'), end()]] })
    const traceContext = { traceparent: '00-1-2-01', tracestate: 'a=b' }
    await rig.clock.advance(0.75)
    await rig.submit({ traceContext })
    await rig.settled()
    const events = await eventsOf(rig.log)
    const nextId = eventIdsOf('r')
    expect(events.map(({ event_id }) => event_id)).toEqual(events.map(() => nextId()))
    for (const event of events) {
      expect(event).toMatchObject({ timestamp: 1_000_000, trace_context: traceContext })
      expect(isStreamEvent(event)).toBe(true)
    }
  })

  test('is the JSON of its events, character for character', async () => {
    const rig = newRig({ rounds: [[...answer('a', 'quote " and \u2028 and 😀'), end()]] })
    await rig.submit({ traceContext: { traceparent: 'a "quote"' } })
    await rig.settled()
    const texts = await readLog(rig.log, 'r', 'events')
    expect(texts.map((text) => JSON.stringify(JSON.parse(text)))).toEqual(texts)
  })

  test('keeps fields that this version does not know', async () => {
    const piece = { ...delta('a', 'x'), logprob: -1 }
    const rig = newRig({
      rounds: [[open('a', { lang: 'de' } as object), piece, done('a', 'x'), end()]],
    })
    await rig.submit()
    await rig.settled()
    const payloads = await payloadsOf(rig.log)
    expect(payloads).toContainEqual({ ...piece, item_id: 'r:1' })
    expect(payloads).toContainEqual({ ...open('r:1'), lang: 'de' })
  })

  test('hands the processor what is durable, and seals both logs', async () => {
    const rig = newRig({ rounds: [[...answer('a', 'Hello'), end({ usage: usage(3, 4) })]] })
    await rig.submit()
    await rig.settled()
    const outputs = await outputsOf(rig.log)
    expect(outputs.map(({ type }) => type)).toEqual([
      'turn_started',
      'message',
      'message',
      'turn_complete',
    ])
    expect(await rig.log.getTurn('r')).toMatchObject({
      status: 'complete',
      sealed: true,
      finishReason: 'stop',
      usage: usage(3, 4),
    })
  })
})

const sequences: { name: string; rounds: Round[]; story: string[] }[] = [
  {
    name: 'numbers items across rounds, although the vendor starts over',
    rounds: [
      [...answer('1', 'Let me see'), ...call('2', 'add'), end('tool_calls')],
      [...answer('1', 'Done'), end()],
    ],
    story: [
      'open r:1 message',
      'r:1 + Let me see',
      'done r:1 Let me see',
      'open r:2 function_call',
      'r:2 + {}',
      'done r:2 add({})',
      'open r:3 function_call_output',
      'done r:3 call-2 = added',
      'open r:4 message',
      'r:4 + Done',
      'done r:4 Done',
      'end stop ?',
    ],
  },
  {
    name: 'reports usage so far after each round and the sum at the end',
    rounds: [
      [...call('1', 'add'), end({ finish_reason: 'tool_calls', usage: usage(1, 2) })],
      [end({ usage: usage(10, 20) })],
    ],
    story: [
      'open r:1 function_call',
      'r:1 + {}',
      'done r:1 add({})',
      'usage 3',
      'open r:2 function_call_output',
      'done r:2 call-1 = added',
      'usage 33',
      'end stop 33',
    ],
  },
  {
    name: 'replaces figures within a round and adds them over rounds',
    rounds: [
      [used(usage(1, 1)), ...call('1', 'add'), used(usage(1, 5)), end('tool_calls')],
      [used(usage(2, 0)), end({ usage: usage(2, 7) })],
    ],
    story: [
      'usage 2',
      'open r:1 function_call',
      'r:1 + {}',
      'done r:1 add({})',
      'usage 6',
      'open r:2 function_call_output',
      'done r:2 call-1 = added',
      'usage 8',
      'usage 15',
      'end stop 15',
    ],
  },
  {
    name: 'never stores a heartbeat',
    rounds: [[BEGIN, { type: 'heartbeat' }, ...answer('a', 'x'), { type: 'heartbeat' }, end()]],
    story: ['open r:1 message', 'r:1 + x', 'done r:1 x', 'end stop ?'],
  },
  {
    name: 'gives an item that restarts after its end a new number',
    rounds: [[...answer('a', 'x'), ...answer('a', 'y'), end()]],
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
    name: 'does not confuse items across rounds when the vendor reuses an id',
    rounds: [
      [...call('1', 'add'), end()],
      [done('1', 'Done'), end()],
    ],
    story: [
      'open r:1 function_call',
      'r:1 + {}',
      'done r:1 add({})',
      'open r:2 function_call_output',
      'done r:2 call-1 = added',
      'done r:3 Done',
      'end stop ?',
    ],
  },
  {
    name: 'keeps the finish reason of a short response',
    rounds: [[...answer('a', 'x'), end('content_filter')]],
    story: ['open r:1 message', 'r:1 + x', 'done r:1 x', 'end content_filter ?'],
  },
]

describe('D1 a turn', () => {
  test.each(sequences)('$name', async ({ rounds, story }) => {
    const rig = newRig({ rounds, tools: TOOLS })
    await rig.submit()
    await rig.settled()
    expect(await storyOf(rig.log)).toEqual(story)
    expect(rig.errors).toEqual([])
  })

  test('requests the chosen model with the settings of the request', async () => {
    const rig = newRig({ rounds: [[end()]] })
    await rig.submit({ model: 'puppet/large', settings: { temperature: 0.5, stop: ['.'] } })
    await rig.settled()
    expect(rig.provider.calls[0]?.request).toEqual({
      model: 'large',
      temperature: 0.5,
      stop: ['.'],
      input: [{ type: 'message', id: 'r-user-prompt', content: 'Hi', origin: 'user' }],
    })
  })

  test('passes on more deltas than may be in flight, in order', async () => {
    const pieces = Array.from({ length: 3000 }, (_, index) => `${index} `)
    const deltas = pieces.map((piece) => delta('a', piece))
    const rounds = [[open('a'), ...deltas, done('a', pieces.join('')), end()]]
    const { log, submit, settled } = newRig({ rounds })
    await submit()
    await settled()
    const story = await storyOf(log)
    expect(story.slice(1, -2)).toEqual(pieces.map((piece) => `r:1 + ${piece}`))
    expect((await outputsOf(log)).at(-2)).toMatchObject({ content: pieces.join('') })
  })
})
