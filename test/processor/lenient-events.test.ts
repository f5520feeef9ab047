/** V9: what a source may leave out or spell differently, read the same by processor and reducer. */

import { describe, expect, test } from 'vitest'
import { StreamProcessor } from '../../src/processor/stream-processor.ts'
import { decodeStreamEvent, type StreamEvent } from '../../src/protocol/stream-event.ts'
import { streamEventFault } from '../../src/protocol/stream-event-guard.ts'
import type { StreamOutput } from '../../src/protocol/stream-output.ts'
import { ResponseReducer } from '../../src/reducer/reduce.ts'
import { fakeClock } from '../../src/testing/fake-clock.ts'
import { event, open, responseDone, start, tokens } from './events.ts'

/** An event that the types do not allow. */
function lenient(payload: { type: string; [field: string]: unknown }): StreamEvent {
  return event(payload as never)
}

function finish(item_id: string, final_item: object): StreamEvent {
  return lenient({ type: 'item_done', item_id, final_item })
}

async function run(events: readonly StreamEvent[]) {
  const outputs: StreamOutput[] = []
  const errors: string[] = []
  const processor = new StreamProcessor({
    turnId: 't',
    threadId: 'th',
    clock: fakeClock(),
    onError: ({ code }) => errors.push(code),
    onEmit: (_message, output) => {
      outputs.push(output)
    },
  })
  const reducer = new ResponseReducer()
  for (const each of events) {
    await processor.processEvent(each)
    reducer.apply(each)
  }
  return { outputs, errors, response: reducer.response }
}

const item = (type: string, fields: object) => ({ id: 'i', type, ...fields })

const FINAL_ITEMS = [
  {
    what: 'a message with its content only',
    started: open('i'),
    final: { content: 'Hi' },
    output: { type: 'message', status: 'complete', content: 'Hi', origin: 'agent' },
    whole: item('message', { content: 'Hi', origin: 'agent' }),
  },
  {
    what: 'reasoning without a type',
    started: open('i', { item_type: 'reasoning' }),
    final: { content: 'Hm' },
    output: { type: 'thinking', status: 'complete', content: 'Hm' },
    whole: item('reasoning', { content: 'Hm' }),
  },
  {
    what: 'a call without type and id',
    started: open('i', { item_type: 'function_call' }),
    final: { name: 'f', arguments: '{}', call_id: 'c' },
    output: { type: 'tool_call', status: 'create', callId: 'c' },
    whole: item('function_call', { name: 'f', arguments: '{}', call_id: 'c' }),
  },
  {
    what: 'an error without type and id',
    started: open('i', { item_type: 'error' }),
    final: { code: 'E', message: 'why' },
    output: { type: 'message', status: 'error', errorCode: 'E' },
    whole: item('error', { code: 'E', message: 'why' }),
  },
  {
    what: 'a message that was never started',
    started: undefined,
    final: { content: 'Hi' },
    output: { type: 'message', status: 'complete', content: 'Hi', origin: 'agent' },
    whole: item('message', { content: 'Hi', origin: 'agent' }),
  },
  {
    what: 'an origin that is given',
    started: open('i'),
    final: { content: 'Hi', origin: 'system' },
    output: { type: 'message', origin: 'system' },
    whole: item('message', { content: 'Hi', origin: 'system' }),
  },
]

describe('V9 final_item', () => {
  test.each(FINAL_ITEMS)('$what', async ({ started, final, output, whole }) => {
    const done = finish('i', final)
    const events = [start(), ...(started ? [started] : []), done, responseDone()]
    const { outputs, errors, response } = await run(events)
    expect(outputs[1]).toMatchObject({ itemId: 'i', ...output })
    expect(response.output_items).toEqual([whole])
    expect(errors).toEqual([])
    expect(streamEventFault(done)).toBeUndefined()
    expect(decodeStreamEvent(done)).toMatchObject({ ok: true, known: true })
  })

  test('an output without a type completes its call', async () => {
    const { outputs } = await run([
      open('i', { item_type: 'function_call' }),
      finish('i', { name: 'f', arguments: '{}', call_id: 'c' }),
      open('o', { item_type: 'function_call_output' }),
      finish('o', { call_id: 'c', output: 'x', success: true }),
    ])
    expect(outputs.at(-1)).toMatchObject({ itemId: 'i', status: 'complete', toolOutput: 'x' })
  })

  test('an item that lacks more than that is malformed', async () => {
    await expect(run([open('i'), finish('i', {})])).rejects.toThrow('final_item.content')
    await expect(run([finish('i', {})])).rejects.toThrow('final_item.type')
    await expect(run([finish('i', { content: 'a', id: '' })])).rejects.toThrow('final_item.id')
  })
})

const MALFORMED = [
  null,
  'many',
  [],
  {},
  { prompt_tokens: 1 },
  { ...tokens(1, 2), prompt_tokens: -1 },
  { ...tokens(1, 2), total_tokens: Number.NaN },
  { ...tokens(1, 2), cached_tokens: '1' },
  { ...tokens(1, 2), estimated: 'yes' },
]
const ENDS = [
  { type: 'response_done', response_id: 'r', status: 'complete', ends: 'turn_complete' },
  {
    type: 'response_error',
    response_id: 'r',
    error: { code: 'E', message: '' },
    ends: 'turn_error',
  },
  { type: 'turn_aborted_by_user', turn_id: 't', ends: 'turn_complete' },
]
const cases = ENDS.flatMap((end) => MALFORMED.map((usage) => ({ ...end, usage })))

describe('V9 usage', () => {
  test.each(cases)('$type with $usage ends the turn', async ({ ends, ...payload }) => {
    const { outputs, errors, response } = await run([start(), lenient(payload)])
    expect(outputs.at(-1)?.type).toBe(ends)
    expect(outputs.at(-1)).not.toHaveProperty('usage')
    expect(errors).toEqual(['EVENT_INVALID'])
    expect(response.status).not.toBe('in_progress')
    expect(response).not.toHaveProperty('usage')
  })

  test('a malformed usage_update keeps the earlier figures and is reported once', async () => {
    const update = (usage: unknown) => lenient({ type: 'usage_update', response_id: 'r', usage })
    const events = [start(), update(tokens(1, 2)), update('x'), update('y'), responseDone()]
    const { outputs, errors, response } = await run(events)
    expect(outputs.at(-1)).toMatchObject({ usage: { promptTokens: 1, totalTokens: 3 } })
    expect(response.usage).toEqual(tokens(1, 2))
    expect(errors).toEqual(['EVENT_INVALID'])
  })

  test.each([
    ...ENDS.filter(({ type }) => type === 'response_done'),
    { type: 'usage_update', response_id: 'r' },
  ])('$type with prompt, completion and total', async (payload) => {
    const usage = { prompt: 10, completion: 3, total: 13, cached_tokens: 2 }
    const said = lenient({ ...payload, usage })
    const { outputs, errors, response } = await run([start(), said, responseDone()])
    const figures = { promptTokens: 10, completionTokens: 3, totalTokens: 13 }
    expect(outputs.at(-1)).toMatchObject({ usage: figures })
    expect(response.usage).toEqual({ ...tokens(10, 3), cached_tokens: 2 })
    expect(errors).toEqual([])
    expect(decodeStreamEvent(said)).toMatchObject({
      ok: true,
      value: { payload: { usage: tokens(10, 3) } },
    })
  })
})
