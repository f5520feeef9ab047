import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  added,
  argumentsDelta,
  call,
  done,
  type Fields,
  finished,
  itemsOf,
  note,
  text,
  translate,
  wireCall,
} from './notifications.ts'

const message = (content: string) => ({ type: 'message', origin: 'agent', content })
const wireMessage = (id: string, ...texts: string[]) => ({
  type: 'message',
  id,
  content: texts.map((each) => ({ type: 'output_text', text: each })),
})

interface Row {
  name: string
  events: unknown[]
  items: Fields[]
}

const rows: Row[] = [
  {
    name: 'text without any name is one message',
    events: [text('Hel'), text('lo'), finished],
    items: [message('Hello')],
  },
  {
    name: 'text that is named at its end is not there twice',
    events: [text('Hi'), done(wireMessage('m', 'Hi!'), { output_index: 0 }), finished],
    items: [message('Hi!')],
  },
  {
    name: 'text that is named at its beginning needs no name later',
    events: [added(wireMessage('m')), text('Hi'), done(wireMessage('m', 'Hi')), finished],
    items: [message('Hi')],
  },
  {
    name: 'a message is the same by its index and by its id',
    events: [
      added(wireMessage('m'), { output_index: 0 }),
      text('H', { item_id: 'm' }),
      text('i', { output_index: 0, item_id: 'made-up' }),
      done(wireMessage('m', 'Hi')),
      finished,
    ],
    items: [message('Hi')],
  },
  {
    name: 'text with an id keeps it when its item also has an index',
    events: [
      text('Hi', { item_id: 'm' }),
      done(wireMessage('m', 'Hi'), { output_index: 0 }),
      finished,
    ],
    items: [message('Hi')],
  },
  {
    name: 'a place that is used again is another message',
    events: [
      added(wireMessage('a'), { output_index: 0 }),
      done(wireMessage('a', 'A'), { output_index: 0 }),
      added(wireMessage('b'), { output_index: 0 }),
      done(wireMessage('b', 'B'), { output_index: 0 }),
      finished,
    ],
    items: [message('A'), message('B')],
  },
  {
    name: 'what comes late for a message that is done is dropped',
    events: [
      text('Hi', { output_index: 0 }),
      done(wireMessage('m', 'Hi'), { output_index: 0 }),
      text('!', { item_id: 'm' }),
      done(wireMessage('m', 'Hi!')),
      finished,
    ],
    items: [message('Hi')],
  },
  {
    name: 'text without a name after a message is another one',
    events: [text('One'), done({ type: 'message' }), text('Two'), finished],
    items: [message('One'), message('Two')],
  },
  {
    name: 'reasoning is not text',
    events: [
      note('reasoning_summary_text.delta', { summary_index: 0, delta: 'Hm.' }),
      text('4'),
      note('reasoning_summary_text.delta', { summary_index: 1, delta: 'Ah.' }),
      text('2'),
      finished,
    ],
    items: [{ ...message('Hm.\n\nAh.'), type: 'reasoning' }, message('42')],
  },
  {
    name: 'text after a call is kept',
    events: [text('One '), ...call('c', '{}'), text('two'), finished],
    items: [
      message('One two'),
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
    ],
  },
  {
    name: 'the whole text of a part adds what its deltas did not say',
    events: [text('He'), note('output_text.done', { text: 'Hey' }), finished],
    items: [message('Hey')],
  },
  {
    name: 'items that are neither text nor call are ignored',
    events: [added({ type: 'web_search_call', id: 'ws' }), text('Hi'), added({}), finished],
    items: [message('Hi')],
  },
  {
    name: 'an end that holds the whole output is enough',
    events: [note('completed', { response: { output: [wireMessage('m', 'Hi'), wireCall('c')] } })],
    items: [message('Hi'), { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }],
  },
  {
    name: 'an end that repeats the output adds nothing',
    events: [
      text('Hi'),
      done({ type: 'message' }),
      note('completed', { response: { output: [wireMessage('m', 'Hi')] } }),
    ],
    items: [message('Hi')],
  },
]

describe('items', () => {
  test.each(rows)('$name', ({ events, items }) => {
    expect(itemsOf(events)).toEqual(items)
  })

  test('interleaved calls do not mix', () => {
    const events = [
      added(wireCall('c')),
      added(wireCall('d')),
      argumentsDelta('{"c":', { call_id: 'c' }),
      argumentsDelta('{"d":', { call_id: 'd' }),
      argumentsDelta('1', { call_id: 'd' }),
      argumentsDelta('1', { call_id: 'd' }),
      argumentsDelta('2}', { call_id: 'c' }),
      argumentsDelta('}', { call_id: 'd' }),
      done(wireCall('d')),
      done(wireCall('c')),
    ]
    expect(itemsOf(events)).toMatchObject([
      { call_id: 'c', arguments: '{"c":2}' },
      { call_id: 'd', arguments: '{"d":11}' },
    ])
  })

  test('only the call with oversized arguments fails', () => {
    const events = [...call('c', '{"a":"', 'xxxxx"}'), ...call('d', '{}'), finished]
    const [response] = responsesOf(translate(events, { maxArgumentChars: 10 }))
    expect(response).toMatchObject({
      finish_reason: 'tool_calls',
      output_items: [
        { call_id: 'c', error: { code: 'TOOL_ARGUMENTS_TOO_LARGE' } },
        { call_id: 'd', arguments: '{}' },
      ],
    })
  })

  test('unknown types are reported once each', () => {
    const unknown: string[] = []
    const odd = [note('new'), { type: 'turn_started' }, note('new')]
    const events = [...odd, text('Hi'), ...odd, finished, ...odd]
    const payloads = translate(events, { onUnknown: (type) => unknown.push(type) })
    expect(unknown).toEqual(['response.new', 'turn_started'])
    expect(payloads.at(-1)).toMatchObject({ type: 'response_done' })
  })
})
