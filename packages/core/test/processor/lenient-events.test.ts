/** V9: what a source may leave out or spell differently, read the same by processor and reducer. */

import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import {
  ResponseReducer,
  type StreamEvent,
  type StreamOutput,
  StreamProcessor,
} from '../../src/index.ts'
import { streamEventFault } from '../../src/protocol/stream-event-guard.ts'
import { decodeStreamEvent } from '../../src/schemas.ts'
import { delta, event, open, responseDone, start, tokens } from './events.ts'

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

const SAID = [
  {
    what: 'a name that only item_start has',
    before: [open('i', { item_type: 'function_call', name: 'read_file' })],
    final: { call_id: 'c', arguments: '{"a":1}' },
    whole: item('function_call', { name: 'read_file', arguments: '{"a":1}', call_id: 'c' }),
  },
  {
    what: 'arguments and a call_id that only item_start has',
    before: [open('i', { item_type: 'function_call', name: 'f', arguments: '{}', call_id: 'c' })],
    final: {},
    whole: item('function_call', { name: 'f', arguments: '{}', call_id: 'c' }),
  },
  {
    what: 'arguments that only deltas have',
    before: [
      open('i', { item_type: 'function_call', name: 'f' }),
      delta('i', '{"a"'),
      delta('i', ':1}'),
    ],
    final: { call_id: 'c' },
    whole: item('function_call', { name: 'f', arguments: '{"a":1}', call_id: 'c' }),
  },
  {
    what: 'content that only item_start and deltas have',
    before: [open('i', { initial_content: 'Hel' }), delta('i', 'lo')],
    final: {},
    whole: item('message', { content: 'Hello', origin: 'agent' }),
  },
  {
    what: 'reasoning that only deltas have',
    before: [open('i', { item_type: 'reasoning' }), delta('i', 'Hm')],
    final: {},
    whole: item('reasoning', { content: 'Hm' }),
  },
  {
    what: 'an origin that only item_start has',
    before: [open('i', { origin: 'system' })],
    final: { content: 'Hi' },
    whole: item('message', { content: 'Hi', origin: 'system' }),
  },
  {
    what: 'a name and arguments that it states as null',
    before: [open('i', { item_type: 'function_call', name: 'f' }), delta('i', '{"a":1}')],
    final: { type: null, name: null, arguments: null, call_id: 'c' },
    whole: item('function_call', { name: 'f', arguments: '{"a":1}', call_id: 'c' }),
  },
  {
    what: 'content and an origin that it states as null',
    before: [open('i'), delta('i', 'Hi')],
    final: { id: null, content: null, origin: null },
    whole: item('message', { content: 'Hi', origin: 'agent' }),
  },
  {
    what: 'what the final item has itself',
    before: [
      open('i', { item_type: 'function_call', name: 'f', arguments: '{"a', call_id: 'x' }),
      delta('i', '":1}'),
    ],
    final: { name: 'g', arguments: '', call_id: 'c' },
    whole: item('function_call', { name: 'g', arguments: '', call_id: 'c' }),
  },
]

describe('a final_item that lacks what was said before has', () => {
  test.each(SAID)('$what', async ({ before, final, whole }) => {
    const { outputs, errors, response } = await run([
      start(),
      ...before,
      finish('i', final),
      responseDone(),
    ])
    expect(errors).toEqual([])
    expect(response.output_items).toEqual([whole])
    const shown = outputs.findLast((output) => 'itemId' in output)
    if (whole.type !== 'function_call') expect(shown).toMatchObject({ status: 'complete' })
    const { content, origin, name, call_id } = whole as Record<string, unknown>
    const expected = { content, origin, toolName: name, callId: call_id }
    for (const [field, value] of Object.entries(expected)) {
      if (value !== undefined && !(field === 'origin' && whole.type === 'reasoning')) {
        expect(shown).toHaveProperty(field, value)
      }
    }
  })

  test('success unless it says otherwise, and the output that deltas had', async () => {
    const { outputs, errors, response } = await run([
      open('i', { item_type: 'function_call', name: 'f' }),
      finish('i', { call_id: 'c', arguments: '{}' }),
      open('o', { item_type: 'function_call_output', call_id: 'c' }),
      delta('o', 'it '),
      delta('o', 'worked'),
      finish('o', {}),
    ])
    expect(errors).toEqual([])
    const output = { call_id: 'c', output: 'it worked', success: true }
    expect(response.output_items[1]).toEqual({ id: 'o', type: 'function_call_output', ...output })
    expect(outputs.at(-1)).toMatchObject({
      status: 'complete',
      toolOutput: 'it worked',
      success: true,
    })
  })

  test('the origin that the id of a prompt tells', async () => {
    const { outputs, response } = await run([
      open('t-user-prompt'),
      delta('t-user-prompt', 'Hi'),
      finish('t-user-prompt', {}),
    ])
    expect(outputs).toMatchObject([{ status: 'complete', content: 'Hi', origin: 'user' }])
    expect(response.output_items).toMatchObject([{ content: 'Hi', origin: 'user' }])
  })

  test.each([null, undefined])('nothing that is stated as %s', async (unset) => {
    const { outputs, errors, response } = await run([
      start({ agent_id: unset } as never),
      open('i', { item_type: 'function_call', name: 'f', arguments: unset, code: unset } as never),
      finish('i', { call_id: 'c', arguments: '{}', provider_metadata: unset }),
      open('o', { item_type: 'function_call_output', name: unset } as never),
      finish('o', { call_id: 'c', output: 'it worked', success: unset }),
      open('m', { initial_content: unset, origin: unset } as never),
      finish('m', { type: 'message', id: 'm', content: 'Hi', origin: 'agent', name: unset }),
      lenient({
        type: 'response_done',
        response_id: 'r',
        status: 'complete',
        finish_reason: unset,
      }),
    ])
    expect(errors).toEqual([])
    expect(outputs.slice(1)).toMatchObject([
      { status: 'create', toolName: 'f', callId: 'c' },
      { status: 'complete', toolOutput: 'it worked', success: true },
      { status: 'complete', content: 'Hi', origin: 'agent' },
      { type: 'turn_complete' },
    ])
    expect(response.output_items).toEqual([
      item('function_call', { name: 'f', arguments: '{}', call_id: 'c' }),
      { id: 'o', type: 'function_call_output', call_id: 'c', output: 'it worked', success: true },
      { id: 'm', type: 'message', content: 'Hi', origin: 'agent' },
    ])
  })

  test('no name if nothing said one', async () => {
    const call = open('i', { item_type: 'function_call' })
    const done = finish('i', { call_id: 'c', arguments: '{}' })
    await expect(run([call, done])).rejects.toThrow('final_item.name')
  })
})

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
