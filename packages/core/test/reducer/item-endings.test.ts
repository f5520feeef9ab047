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
} from './events.ts'

const metadata = { signature: 'opaque' }
const call = { type: 'function_call', id: 'a', name: 'f', arguments: '{}', call_id: 'c' } as const
const approved = {
  type: 'approval_response',
  id: 'a',
  approval_id: 'x',
  call_id: 'c',
  approved: true,
  answered_at: 1,
} as const
const failed = { type: 'error', id: 'a', ...BROKEN } as const

const endings: ItemRow[] = [
  {
    name: 'the final text is authoritative, even when shorter, and keeps its place',
    turn: [open('a'), open('b'), delta('a', 'a long draft'), done(message('a', 'short'))],
    items: [message('a', 'short'), message('b', '')],
  },
  {
    name: 'unknown item: appended',
    turn: [open('a'), done(call, 'b')],
    items: [message('a', ''), call],
  },
  {
    name: 'V8 the answer to an approval is an item of its own',
    turn: [
      done({ ...call, approval: { id: 'x', status: 'requested' } }),
      done({ ...approved, id: 'b' }),
    ],
    items: [
      { ...call, approval: { id: 'x', status: 'requested' } },
      { ...approved, id: 'b' },
    ],
  },
  {
    name: 'final_item is kept unchanged, including unknown fields and another id',
    turn: [open('a'), done({ ...message('vendor-id', 'Hi'), refusal: true } as never, 'a')],
    items: [{ ...message('vendor-id', 'Hi'), refusal: true } as never],
  },
  {
    name: 'metadata of the start is kept when the end has none',
    turn: [open('a', { provider_metadata: metadata }), done(message('a', 'Hi'))],
    items: [{ ...message('a', 'Hi'), provider_metadata: metadata }],
  },
  {
    name: 'metadata of the end wins',
    turn: [
      open('a', { provider_metadata: metadata }),
      done({ ...message('a', 'Hi'), provider_metadata: { signature: 'final' } }),
    ],
    items: [{ ...message('a', 'Hi'), provider_metadata: { signature: 'final' } }],
  },
  {
    name: 'a second item_done changes nothing',
    turn: [open('a'), done(message('a', '1')), done(message('a', '2'))],
    items: [message('a', '1')],
  },
  {
    name: 'final_item cancelled on a started item is item_cancelled',
    turn: [open('a'), delta('a', 'Hi'), done({ type: 'cancelled', id: 'a', reason: 'stop' })],
    items: [{ ...message('a', 'Hi'), cancelled: { reason: 'stop' } }],
  },
  {
    name: 'final_item cancelled of an unknown item is appended',
    turn: [done({ type: 'cancelled', id: 'a' }), fail('a')],
    items: [{ type: 'cancelled', id: 'a' }],
  },
  {
    name: 'final_item error on a started message is item_error, details and metadata kept',
    turn: [
      open('a'),
      delta('a', 'Hi'),
      done({ ...failed, details: [1], provider_metadata: metadata }),
    ],
    items: [
      {
        ...message('a', 'Hi'),
        provider_metadata: metadata,
        error: { ...BROKEN, details: [1] } as typeof BROKEN,
      },
    ],
  },
  {
    name: 'final_item error on a started error replaces it',
    turn: [open('a', { item_type: 'error' }), delta('a', 'partial'), done(failed)],
    items: [failed],
  },
]

const failures: ItemRow[] = [
  {
    name: 'item_error keeps item, place and content',
    turn: [open('a'), open('b'), delta('a', 'Hi'), fail('a')],
    items: [{ ...message('a', 'Hi'), error: BROKEN }, message('b', '')],
  },
  {
    name: 'item_cancelled keeps item, place and content',
    turn: [open('a'), open('b'), delta('a', 'Hi'), cancel('a', 'attempt_reset')],
    items: [{ ...message('a', 'Hi'), cancelled: { reason: 'attempt_reset' } }, message('b', '')],
  },
  {
    name: 'item_error of an unknown item is an error item',
    turn: [fail('a')],
    items: [failed],
  },
  {
    name: 'item_error of an unknown item keeps the details',
    turn: [
      {
        type: 'item_error',
        item_id: 'a',
        error: { ...BROKEN, details: { at: 1 } } as typeof BROKEN,
      },
    ],
    items: [{ ...failed, details: { at: 1 } }],
  },
  {
    name: 'item_cancelled of an unknown item is a cancelled item',
    turn: [cancel('a'), cancel('b', 'stop')],
    items: [
      { type: 'cancelled', id: 'a' },
      { type: 'cancelled', id: 'b', reason: 'stop' },
    ],
  },
  {
    name: 'item_done after either is ignored',
    turn: [
      open('a'),
      fail('a'),
      done(message('a', 'late')),
      open('b'),
      cancel('b'),
      done(message('b', 'late')),
    ],
    items: [
      { ...message('a', ''), error: BROKEN },
      { ...message('b', ''), cancelled: {} },
    ],
  },
  {
    name: 'the first of them decides',
    turn: [
      open('a'),
      fail('a'),
      cancel('a'),
      fail('a', { code: 'OTHER', message: '' }),
      open('b'),
      cancel('b'),
      fail('b'),
    ],
    items: [
      { ...message('a', ''), error: BROKEN },
      { ...message('b', ''), cancelled: {} },
    ],
  },
  {
    name: 'a call that is done may still fail',
    turn: [done(call), fail('a')],
    items: [{ ...call, error: BROKEN }],
  },
]

describe.each([
  ['item_done', endings],
  ['item_error and item_cancelled', failures],
])('%s', (_type, rows) => {
  test.each(rows)('$name', ({ turn, items }) => {
    expect(responseTo(turn).output_items).toStrictEqual(items)
  })
})
