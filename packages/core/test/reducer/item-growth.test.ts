import { describe, expect, test } from 'vitest'
import {
  BROKEN,
  cancel,
  delta,
  done,
  fail,
  type ItemRow,
  message,
  open,
  responseTo,
  stray,
} from './events.ts'

const metadata = { signature: 'opaque' }
const call = { type: 'function_call', id: 'a', name: 'f', arguments: '{}', call_id: 'c' } as const

const starts: ItemRow[] = [
  {
    name: 'message, bare',
    turn: [open('a')],
    items: [{ type: 'message', id: 'a', content: '', origin: 'agent' }],
  },
  {
    name: 'message with content, origin and metadata',
    turn: [open('a', { initial_content: 'Hi', origin: 'user', provider_metadata: metadata })],
    items: [
      { type: 'message', id: 'a', content: 'Hi', origin: 'user', provider_metadata: metadata },
    ],
  },
  {
    name: 'reasoning',
    turn: [open('a', { item_type: 'reasoning', initial_content: 'Hm' })],
    items: [{ type: 'reasoning', id: 'a', content: 'Hm', origin: 'agent' }],
  },
  {
    name: 'function_call, bare',
    turn: [open('a', { item_type: 'function_call' })],
    items: [{ type: 'function_call', id: 'a', name: '', arguments: '', call_id: '' }],
  },
  {
    name: 'function_call with arguments in initial_content',
    turn: [open('a', { item_type: 'function_call', initial_content: '{', name: 'f' })],
    items: [{ type: 'function_call', id: 'a', name: 'f', arguments: '{', call_id: '' }],
  },
  {
    name: 'function_call whose arguments win over initial_content',
    turn: [
      open('a', {
        item_type: 'function_call',
        initial_content: 'x',
        arguments: '{}',
        name: 'f',
        call_id: 'c',
      }),
    ],
    items: [call],
  },
  {
    name: 'function_call_output, bare',
    turn: [open('a', { item_type: 'function_call_output' })],
    items: [{ type: 'function_call_output', id: 'a', call_id: '', output: '', success: false }],
  },
  {
    name: 'function_call_output with content',
    turn: [open('a', { item_type: 'function_call_output', call_id: 'c', initial_content: 'out' })],
    items: [{ type: 'function_call_output', id: 'a', call_id: 'c', output: 'out', success: false }],
  },
  {
    name: 'error, bare',
    turn: [open('a', { item_type: 'error' })],
    items: [{ type: 'error', id: 'a', code: '', message: '' }],
  },
  {
    name: 'error with code and message',
    turn: [open('a', { item_type: 'error', code: 'E', initial_content: 'no' })],
    items: [{ type: 'error', id: 'a', code: 'E', message: 'no' }],
  },
  {
    name: 'a second one for a known id changes nothing',
    turn: [open('a', { initial_content: 'Hi' }), open('a', { item_type: 'reasoning' })],
    items: [message('a', 'Hi')],
  },
  {
    name: 'one for an item that is done changes nothing',
    turn: [done(message('a', 'Hi')), open('a')],
    items: [message('a', 'Hi')],
  },
]

const deltas: ItemRow[] = [
  {
    name: 'message and reasoning: content, after initial_content',
    turn: [
      open('a', { initial_content: '1' }),
      open('b', { item_type: 'reasoning' }),
      delta('a', '2'),
      delta('b', 'x'),
      delta('a', '3'),
    ],
    items: [message('a', '123'), { type: 'reasoning', id: 'b', content: 'x', origin: 'agent' }],
  },
  {
    name: 'function_call: arguments',
    turn: [open('a', { item_type: 'function_call' }), delta('a', '{'), delta('a', '}')],
    items: [{ type: 'function_call', id: 'a', name: '', arguments: '{}', call_id: '' }],
  },
  {
    name: 'function_call_output: output',
    turn: [open('a', { item_type: 'function_call_output' }), delta('a', 'ok')],
    items: [{ type: 'function_call_output', id: 'a', call_id: '', output: 'ok', success: false }],
  },
  {
    name: 'error: message',
    turn: [open('a', { item_type: 'error' }), delta('a', 'no')],
    items: [{ type: 'error', id: 'a', code: '', message: 'no' }],
  },
  {
    name: 'repeated text is data, not a duplicate',
    turn: [open('a'), delta('a', '1'), delta('a', '1')],
    items: [message('a', '11')],
  },
  {
    name: 'unknown item: one error item for all of its deltas',
    turn: [delta('a', '1'), delta('a', '2'), delta('b', '3')],
    items: [stray('a', 'was not started'), stray('b', 'was not started')],
  },
  {
    name: 'unknown item that starts late: grows from there',
    turn: [delta('a', '1'), open('a'), delta('a', '2')],
    items: [stray('a', 'was not started'), message('a', '2')],
  },
  {
    name: 'unknown item that starts and ends late: the report stays',
    turn: [delta('a', '1'), done(message('a', 'A')), delta('a', '2')],
    items: [stray('a', 'was not started'), message('a', 'A')],
  },
  {
    name: 'item that is done, failed or cancelled: content stays, one error item each',
    turn: [
      done(message('a', 'A')),
      open('b'),
      fail('b'),
      open('c'),
      cancel('c'),
      delta('a', '1'),
      delta('b', '2'),
      delta('c', '3'),
      delta('a', '4'),
    ],
    items: [
      message('a', 'A'),
      { ...message('b', ''), error: BROKEN },
      { ...message('c', ''), cancelled: {} },
      ...['a', 'b', 'c'].map((id) => stray(id, 'has ended')),
    ],
  },
]

describe.each([
  ['item_start', starts],
  ['item_delta', deltas],
])('%s', (_type, rows) => {
  test.each(rows)('$name', ({ turn, items }) => {
    expect(responseTo(turn).output_items).toStrictEqual(items)
  })
})

test('an unknown item type is rejected', () => {
  expect(() => responseTo([open('a', { item_type: 'video' as never })])).toThrow('video')
})
