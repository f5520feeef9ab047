/** P6 to P11 and P20 to P23: what becomes of an item. */
import {
  call,
  cancel,
  delta,
  done,
  event,
  fail,
  finish,
  open,
  output,
  responseDone,
  thought,
} from './events.ts'
import type { Row } from './scenario.ts'

const x = (length: number) => 'x'.repeat(length)
const complete = { type: 'turn_complete', status: 'complete' }

const DEEP = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`

function asked(id: string, call_id: string) {
  return { type: 'function_call', id, name: 'f', arguments: '{}', call_id } as const
}

function response(id: string, approval_id: string) {
  const type = 'approval_response'
  return { type, id, approval_id, call_id: 'c', approved: true, answered_at: 5 } as const
}

export const itemRows: Row[] = [
  {
    name: 'P6 an item with origin user is held',
    script: [
      open('m', { origin: 'user' }),
      delta('m', x(500)),
      { wait: 9000 },
      done('m', 'q', 'user'),
    ],
    shows: [{ status: 'complete', content: 'q', origin: 'user' }],
  },
  {
    name: 'P6 the origin is that of the final item',
    script: [open('a-user-prompt'), done('a-user-prompt', 'rules', 'system')],
    shows: [{ status: 'complete', origin: 'system' }],
  },
  {
    name: 'P7 a call is held until it is complete',
    script: [
      open('fc', { item_type: 'function_call', name: 'f' }),
      delta('fc', x(500)),
      { wait: 9000 },
      call('fc', 'c', '{"a":1}', 'g'),
    ],
    shows: [{ status: 'create', toolName: 'g', toolArguments: { a: 1 }, content: '' }],
  },
  ...['{"a":', '[1]', '"text"', 'null', '7'].map((text) => ({
    name: `P7 arguments ${text} are no object: kept as content`,
    script: [call('fc', 'c', text)],
    shows: [{ status: 'create', toolArguments: {}, content: text }],
  })),
  {
    name: 'P7 arguments nested too deeply to serialise are kept as content',
    script: [call('fc', 'c', DEEP)],
    shows: [{ status: 'create', toolArguments: {}, content: DEEP }],
  },
  {
    name: 'P7 no arguments at all are an empty object',
    script: [call('fc', 'c', '')],
    shows: [{ status: 'create', toolArguments: {}, content: '' }],
  },
  {
    name: 'P8 the start and the deltas of an output are ignored',
    script: [
      call('fc', 'c', '{}'),
      open('fco', { item_type: 'function_call_output' }),
      delta('fco', x(100)),
      output('fco', 'c', 'plain text', false),
    ],
    shows: [
      { itemId: 'fc', status: 'create' },
      { itemId: 'fc', status: 'complete', toolOutput: 'plain text', success: false },
    ],
  },
  {
    name: 'P8 an output that came before its call waits for it',
    script: [
      output('fco', 'c', '{"ok":1}'),
      open('fc', { item_type: 'function_call' }),
      call('fc', 'c', '{}'),
    ],
    shows: [
      { itemId: 'fc', status: 'create' },
      { itemId: 'fc', status: 'complete', toolOutput: { ok: 1 } },
    ],
  },
  {
    name: 'P8 a second output for the same call is an orphan',
    script: [call('fc', 'c', '{}'), output('o1', 'c', 'a'), output('o2', 'c', 'b'), responseDone()],
    shows: [{ status: 'create' }, { status: 'complete', toolOutput: 'a' }, complete],
    reports: ['TOOL_OUTPUT_ORPHANED'],
  },
  {
    name: 'P8 parallel calls are distinguished by their call_id',
    script: [
      call('f1', 'c1', '{}'),
      call('f2', 'c2', '{}'),
      output('o2', 'c2', 'two'),
      output('o1', 'c1', 'one'),
    ],
    shows: [
      { itemId: 'f1', status: 'create' },
      { itemId: 'f2', status: 'create' },
      { itemId: 'f2', status: 'complete', toolOutput: 'two' },
      { itemId: 'f1', status: 'complete', toolOutput: 'one' },
    ],
  },
  {
    name: 'V8 the answer to an approval is an update of its call, which keeps it',
    script: [
      finish('f1', { ...asked('f1', 'c'), approval: { id: 'a1', status: 'requested' } }),
      finish('f2', { ...asked('f2', 'c'), approval: { id: 'a2', status: 'requested' } }),
      finish('v2', { ...response('v2', 'a2'), approved: false, reason: 'no', answered_by: 'ops' }),
      finish('v1', response('v1', 'a1')),
      output('o1', 'c', 'one'),
      fail('f2', 'E', 'why'),
    ],
    shows: [
      { itemId: 'f1', status: 'create', approval: { id: 'a1', status: 'requested' } },
      { itemId: 'f2', status: 'create', approval: { id: 'a2', status: 'requested' } },
      {
        itemId: 'f2',
        status: 'update',
        approval: { id: 'a2', status: 'declined', reason: 'no', answeredBy: 'ops', answeredAt: 5 },
      },
      { itemId: 'f1', status: 'update', approval: { id: 'a1', status: 'approved', answeredAt: 5 } },
      { itemId: 'f1', status: 'complete', toolOutput: 'one', approval: { status: 'approved' } },
      { itemId: 'f2', status: 'error', approval: { status: 'declined' } },
    ],
  },
  {
    name: 'V8 a request for a call of the provider is an update of it, once',
    script: [
      call('f1', 'c', '{}'),
      finish('q1', { type: 'approval_request', id: 'q1', approval_id: 'a1', call_id: 'c' }),
      finish('q2', { type: 'approval_request', id: 'q2', approval_id: 'a2', call_id: 'c' }),
      finish('q3', { type: 'approval_request', id: 'q3', approval_id: 'a3', call_id: 'other' }),
      finish('v1', response('v1', 'a1')),
      output('o1', 'c', 'one'),
    ],
    shows: [
      { itemId: 'f1', status: 'create' },
      { itemId: 'f1', status: 'update', approval: { id: 'a1', status: 'requested' } },
      { itemId: 'f1', status: 'update', approval: { id: 'a1', status: 'approved' } },
      { itemId: 'f1', status: 'complete', toolOutput: 'one', approval: { status: 'approved' } },
    ],
  },
  {
    name: 'V8 the answer to an unknown approval is ignored',
    script: [call('f1', 'c', '{}'), finish('v1', response('v1', 'a1'))],
    shows: [{ itemId: 'f1', status: 'create' }],
  },
  {
    name: 'P9 the final text is authoritative, even when shorter',
    script: [open('m'), delta('m', x(100)), done('m', 'short')],
    shows: [
      { status: 'create', content: x(100) },
      { status: 'complete', content: 'short' },
    ],
  },
  {
    name: 'P9 an item without a start still gets its one complete',
    script: [done('m', 'text'), thought('r', 'hm'), done('m', 'again')],
    shows: [
      { type: 'message', status: 'complete', content: 'text' },
      { type: 'thinking', status: 'complete', content: 'hm' },
    ],
    reports: ['ITEM_UNKNOWN'],
  },
  {
    name: 'P10 an error on an open call emits its raw arguments',
    script: [
      open('fc', { item_type: 'function_call', name: 'f', call_id: 'c', arguments: '{"a' }),
      delta('fc', '":'),
      fail('fc', 'UPSTREAM_TRUNCATED', 'cut'),
    ],
    shows: [
      {
        type: 'tool_call',
        status: 'error',
        content: '{"a":',
        toolName: 'f',
        callId: 'c',
        toolArguments: {},
        errorCode: 'UPSTREAM_TRUNCATED',
      },
    ],
  },
  {
    name: 'P10 an error on a registered call is the tool call with the error',
    script: [
      call('fc', 'c', '{"a":1}'),
      fail('fc', 'E', 'why'),
      output('o', 'c', 'late'),
      responseDone(),
    ],
    shows: [
      { status: 'create' },
      { type: 'tool_call', status: 'error', toolArguments: { a: 1 }, errorCode: 'E' },
      complete,
    ],
    reports: ['TOOL_OUTPUT_ORPHANED'],
  },
  {
    name: 'P10 an error on an unknown item emits nothing',
    script: [fail('ghost', 'E', 'why'), fail('ghost', 'E', 'why')],
    shows: [],
    reports: ['ITEM_UNKNOWN'],
  },
  {
    name: 'P11 a cancelled item that was never emitted emits nothing',
    script: [open('m'), delta('m', 'a'), cancel('m'), { wait: 9000 }, responseDone()],
    shows: [complete],
  },
  {
    name: 'P11 a cancelled item that was emitted ends as an error',
    script: [open('m'), delta('m', x(41)), delta('m', 'y'), cancel('m', 'attempt_reset')],
    shows: [
      { status: 'create' },
      {
        status: 'error',
        content: `${x(41)}y`,
        errorCode: 'ITEM_CANCELLED',
        errorMessage: 'attempt_reset',
      },
    ],
  },
  {
    name: 'P11 a cancelled call that was emitted ends as an error',
    script: [call('fc', 'c', '{}'), cancel('fc')],
    shows: [
      { status: 'create' },
      { type: 'tool_call', status: 'error', errorCode: 'ITEM_CANCELLED' },
    ],
  },
  {
    name: 'P20 held items emit nothing until they are done',
    script: [
      open('fc', { item_type: 'function_call' }),
      delta('fc', '{"a":1}'),
      open('u-user-prompt'),
      delta('u-user-prompt', 'hi'),
      'flush',
      responseDone(),
    ],
    shows: [complete],
  },
  {
    name: 'P21 an error item is a system message with the error',
    script: [
      open('e', { item_type: 'error' }),
      delta('e', 'ignored'),
      finish('e', { type: 'error', id: 'e', code: 'OVERLOADED', message: 'try later' }),
    ],
    shows: [
      {
        type: 'message',
        itemId: 'e',
        origin: 'system',
        status: 'error',
        content: '',
        errorCode: 'OVERLOADED',
        errorMessage: 'try later',
      },
    ],
  },
  {
    name: 'P21 a final item of type error keeps the content of an open item',
    script: [
      open('m'),
      delta('m', x(41)),
      finish('m', { type: 'error', id: 'm', code: 'E', message: 'why' }),
    ],
    shows: [{ status: 'create' }, { status: 'error', content: x(41), errorCode: 'E' }],
  },
  {
    name: 'P21 a final item of type cancelled is a cancelled item',
    script: [
      open('a'),
      open('b'),
      delta('b', x(41)),
      finish('a', { type: 'cancelled', id: 'a' }),
      finish('b', { type: 'cancelled', id: 'b', reason: 'stop' }),
    ],
    shows: [
      { itemId: 'b', status: 'create' },
      { itemId: 'b', errorCode: 'ITEM_CANCELLED' },
    ],
  },
  {
    name: 'P22 before response_start the provider is empty and the origin is agent',
    script: [
      open('r', { item_type: 'reasoning' }),
      delta('r', x(41)),
      open('m'),
      delta('m', x(41)),
    ],
    shows: [
      { type: 'thinking', providerId: '' },
      { type: 'message', origin: 'agent' },
    ],
  },
  {
    name: 'P22 a delta for an unknown item is ignored and reported once',
    script: [delta('ghost', 'a'), delta('ghost', 'b'), delta('other', 'c')],
    shows: [],
    reports: ['ITEM_UNKNOWN', 'ITEM_UNKNOWN'],
  },
  ...['[1,2]', '"text"', '3', 'null', 'not json'].map((text) => ({
    name: `P22 the output ${text} is no object: it stays the text it was`,
    script: [call('fc', 'c', '{}'), output('o', 'c', text)],
    shows: [{ status: 'create' }, { status: 'complete', toolOutput: text }],
  })),
  {
    name: 'P23 a second start and an unknown type are reported once',
    script: [
      open('m'),
      open('m'),
      open('m'),
      { ...event({ type: 'heartbeat' }), type: 'novelty', payload: { type: 'novelty' } } as never,
      { ...event({ type: 'heartbeat' }), type: 'novelty', payload: { type: 'novelty' } } as never,
      event({ type: 'heartbeat' }),
    ],
    shows: [],
    reports: ['STREAM_SEQUENCE_ERROR', 'EVENT_TYPE_UNKNOWN'],
  },
]
