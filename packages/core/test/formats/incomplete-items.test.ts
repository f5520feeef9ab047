/** Encoders fill what a `final_item` lacks from its start and its deltas, as processor and reducer do. */

import { describe, expect, test } from 'vitest'
import {
  ChatCompletionsEncoder,
  MessagesEncoder,
  ResponsesEncoder,
  type StreamEvent,
  toChatCompletion,
} from '../../src/index.ts'
import { delta, event, open, responseDone, start } from '../processor/events.ts'

function finish(item_id: string, final_item: object): StreamEvent {
  return event({ type: 'item_done', item_id, final_item } as never)
}

const text = [open('m', { initial_content: 'Hel' }), delta('m', 'lo')]
const thought = [open('r', { item_type: 'reasoning' }), delta('r', 'Hm')]
const call = [open('c', { item_type: 'function_call', name: 'read_file' }), delta('c', '{"a":1}')]

const WHOLE = [
  finish('r', { type: 'reasoning', id: 'r', content: 'Hm', origin: 'agent' }),
  finish('m', { type: 'message', id: 'm', content: 'Hello', origin: 'agent' }),
  finish('c', {
    type: 'function_call',
    id: 'c',
    name: 'read_file',
    call_id: 'call-1',
    arguments: '{"a":1}',
  }),
]

const LEFT_OUT: [what: string, ends: StreamEvent[]][] = [
  ['everything but the call id', ['r', 'm', 'c'].map((id) => finish(id, { call_id: 'call-1' }))],
  [
    'what only the start has',
    [
      finish('r', { content: 'Hm' }),
      finish('m', { content: 'Hello' }),
      finish('c', { call_id: 'call-1', arguments: '{"a":1}' }),
    ],
  ],
  [
    'nothing but states it as null',
    [
      finish('r', { id: null, type: null, content: null }),
      finish('m', { content: null, origin: null }),
      finish('c', { call_id: 'call-1', name: null, arguments: null }),
    ],
  ],
]

function turn([r, m, c]: readonly StreamEvent[]): StreamEvent[] {
  const items = [...thought, r, ...text, m, ...call, c].filter((each) => each !== undefined)
  return [start(), ...items, responseDone()]
}

const head = { turnId: 't', createdAt: 0, model: 'm' }
const ENCODERS: Record<string, (events: readonly StreamEvent[]) => unknown> = {
  'Chat Completions': (events) => {
    const encoder = new ChatCompletionsEncoder({ id: 'x', created: 0, model: 'm' })
    return events.flatMap((each) => encoder.encode(each))
  },
  'a completion': (events) => toChatCompletion(events, { id: 'x', created: 0, model: 'm' }),
  Responses: (events) => {
    const encoder = new ResponsesEncoder(head)
    return events.flatMap((each) => encoder.encode(each))
  },
  Messages: (events) => {
    const encoder = new MessagesEncoder(head)
    return events.flatMap((each) => encoder.encode(each))
  },
}

describe.each(Object.entries(ENCODERS))('%s', (_name, encodeAll) => {
  /** The end of a Response has its time. */
  const encode = (events: readonly StreamEvent[]) =>
    encodeAll(events.map((each) => ({ ...each, timestamp: 0 })))

  test.each(LEFT_OUT)('has the same answer when items leave out %s', (_what, ends) => {
    const whole = encode(turn(WHOLE))
    expect(JSON.stringify(whole)).toContain('read_file')
    expect(encode(turn(ends))).toEqual(whole)
  })

  test('has an empty text where nothing said one', () => {
    const bare = [start(), open('m'), finish('m', {}), responseDone()]
    const stated = [start(), open('m'), finish('m', { content: '' }), responseDone()]
    expect(encode(bare)).toEqual(encode(stated))
  })

  test('reads both spellings of usage', () => {
    const ended = (usage: object) =>
      encode([start(), ...text, responseDone({ usage: usage as never })])
    expect(ended({ prompt: 3, completion: 4, total: 7 })).toEqual(
      ended({ prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }),
    )
  })
})
