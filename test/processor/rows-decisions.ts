/** A row, or more, for every decision about the processor that can be seen in what it shows. */
import {
  aborted,
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
  responseError,
  start,
  THREAD_ID,
  TURN_ID,
  thought,
  tokens,
  usage,
} from './events.ts'
import type { Row } from './scenario.ts'

const x = (length: number) => 'x'.repeat(length)
const started = { type: 'turn_started' }
const complete = { type: 'turn_complete', status: 'complete' }
const byTime = { batchGradient: [] }

export const thresholdRows: Row[] = [
  {
    name: 'P1 tokens are counted over the whole content and rounded up',
    // Counted delta by delta these would be 14 tokens; together they are 11.
    script: [open('m'), ...Array.from({ length: 13 }, () => delta('m', 'abc')), delta('m', 'de')],
    shows: [{ status: 'create', content: `${'abc'.repeat(13)}de` }],
  },
  {
    name: 'P1 initial content counts',
    script: [open('m', { initial_content: x(40) }), delta('m', 'y')],
    shows: [{ status: 'create', content: `${x(40)}y` }],
  },
  {
    name: 'P1 the estimate can be replaced',
    options: { estimateTokens: (length) => length },
    script: [open('m'), delta('m', x(10)), delta('m', 'y')],
    shows: [{ status: 'create', content: `${x(10)}y` }],
  },
  {
    name: 'P2 forty characters at threshold 10 are silent',
    script: [open('m'), delta('m', x(40))],
    shows: [],
  },
  {
    name: 'P2 forty-one characters emit',
    script: [open('m'), delta('m', x(41))],
    shows: [{ status: 'create', content: x(41) }],
  },
  {
    name: 'P3 after an emission the index stands before the next threshold not exceeded',
    options: { batchGradient: [10, 10, 20] },
    // 80 characters are exactly 20 tokens: past 10, at 20, so the next threshold is 20.
    script: [open('m'), delta('m', x(80)), delta('m', 'y')],
    shows: [{ content: x(80) }, { content: `${x(80)}y` }],
  },
  {
    name: 'P3 a timer emission below the threshold leaves the index alone',
    script: [open('m'), delta('m', x(40)), { wait: 1000 }, delta('m', 'y')],
    shows: [
      { status: 'create', content: x(40) },
      { status: 'update', content: `${x(40)}y` },
    ],
  },
  {
    name: 'P3 a flush below the threshold leaves the index alone',
    script: [open('m'), delta('m', x(40)), 'flush', delta('m', 'y')],
    shows: [{ status: 'create' }, { status: 'update', content: `${x(40)}y` }],
  },
  {
    name: 'P4 past its end the gradient repeats its last step',
    options: { batchGradient: [10, 20] },
    script: [open('m'), ...[41, 80, 80, 80].map((length) => delta('m', x(length)))],
    shows: [41, 121, 201, 281].map((length) => ({ content: x(length) })),
  },
  {
    name: 'P4 an empty gradient shows by time and completion only',
    options: byTime,
    script: [open('m'), delta('m', x(100_000)), { wait: 1000 }, delta('m', 'y'), done('m', 'z')],
    shows: [
      { status: 'create', content: x(100_000) },
      { status: 'complete', content: 'z' },
    ],
  },
  {
    name: 'P5 a start never emits, however much content it brings',
    script: [open('m', { initial_content: x(1000) })],
    shows: [],
  },
  {
    name: 'P5 the first emission by timer is create, the next update',
    script: [open('m'), delta('m', 'a'), { wait: 1000 }, delta('m', 'b'), { wait: 1000 }],
    shows: [
      { status: 'create', content: 'a' },
      { status: 'update', content: 'ab' },
    ],
  },
  {
    name: 'P5 the first emission by flush is create',
    script: [open('m'), delta('m', 'a'), 'flush', 'flush'],
    shows: [{ status: 'create', content: 'a' }],
  },
  {
    name: 'P5 short content that fails is one error',
    script: [open('m'), delta('m', 'a'), fail('m', 'E', 'why')],
    shows: [{ status: 'error', content: 'a' }],
  },
]

export const itemRows: Row[] = [
  {
    name: 'P6 an item that says it is of the user is held',
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
    name: 'P7 a call is held until it is whole',
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
    name: 'P8 a call is forgotten after its output: a second one is an orphan',
    script: [call('fc', 'c', '{}'), output('o1', 'c', 'a'), output('o2', 'c', 'b'), responseDone()],
    shows: [{ status: 'create' }, { status: 'complete', toolOutput: 'a' }, complete],
    reports: ['TOOL_OUTPUT_ORPHANED'],
  },
  {
    name: 'P8 parallel calls are told apart by their call_id',
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
    name: 'P9 the final text is authoritative, also when shorter',
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
    name: 'P10 an error on a call that is still open shows its raw arguments',
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
    name: 'P10 an error on an unknown item shows nothing',
    script: [fail('ghost', 'E', 'why'), fail('ghost', 'E', 'why')],
    shows: [],
    reports: ['ITEM_UNKNOWN'],
  },
  {
    name: 'P11 a cancelled item that was never shown vanishes',
    script: [open('m'), delta('m', 'a'), cancel('m'), { wait: 9000 }, responseDone()],
    shows: [complete],
  },
  {
    name: 'P11 a cancelled item that was shown is settled as an error',
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
    name: 'P11 a cancelled call that was shown is settled as an error',
    script: [call('fc', 'c', '{}'), cancel('fc')],
    shows: [
      { status: 'create' },
      { type: 'tool_call', status: 'error', errorCode: 'ITEM_CANCELLED' },
    ],
  },
  {
    name: 'P20 held items have no record until they are done',
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
    name: 'P21 a final item of type error keeps what an open item has shown',
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

export const turnRows: Row[] = [
  {
    name: 'P12 response_done shows a tail of one character first',
    script: [start(), open('m'), delta('m', x(41)), delta('m', 'y'), responseDone()],
    shows: [
      started,
      { status: 'create', content: x(41) },
      { status: 'update', content: `${x(41)}y` },
      complete,
    ],
  },
  {
    name: 'P12 response_error shows what is unshown first',
    script: [open('m'), delta('m', 'a'), responseError('E', 'why')],
    shows: [
      { status: 'create', content: 'a' },
      { type: 'turn_error', error: { code: 'E', message: 'why' } },
    ],
  },
  {
    name: 'P12 an abort is a turn_complete with status aborted',
    script: [start(), open('m'), delta('m', 'a'), usage(3, 4), aborted('stop'), done('m', 'b')],
    shows: [
      started,
      { status: 'create', content: 'a' },
      { type: 'turn_complete', status: 'aborted', usage: { totalTokens: 7 } },
    ],
  },
  {
    name: 'P12 nothing follows a terminal event',
    script: [
      start(),
      open('m'),
      responseDone(),
      responseError('E', 'why'),
      aborted('stop'),
      responseDone(),
      delta('m', x(100)),
      done('m', 'late'),
      'flush',
      { wait: 9000 },
      'destroy',
    ],
    shows: [started, complete],
  },
  {
    name: 'P12 the usage of the end wins over earlier ones',
    script: [usage(1, 1), responseDone({ usage: tokens(5, 6) })],
    shows: [
      { type: 'turn_complete', usage: { promptTokens: 5, completionTokens: 6, totalTokens: 11 } },
    ],
  },
  {
    name: 'P13 the timer counts from the last delta',
    script: [
      open('m'),
      delta('m', 'a'),
      { wait: 999 },
      delta('m', 'b'),
      { wait: 999 },
      delta('m', 'c'),
    ],
    shows: [],
  },
  {
    name: 'P13 the oldest unshown delta waits no longer than maxLatencyMs',
    script: [
      open('m'),
      ...Array.from({ length: 8 }, () => [delta('m', 'a'), { wait: 500 }]).flat(),
    ],
    shows: [{ status: 'create', content: 'aaaaaa' }],
  },
  {
    name: 'P13 each item has its own deadline',
    script: [
      open('m'),
      open('n'),
      delta('m', 'a'),
      { wait: 600 },
      delta('n', 'b'),
      { wait: 400 },
      delta('m', 'c'),
      { wait: 600 },
    ],
    shows: [
      { itemId: 'm', content: 'a' },
      { itemId: 'n', content: 'b' },
    ],
  },
  {
    name: 'P13 the timer never repeats what was shown',
    script: [open('m'), delta('m', x(41)), { wait: 60_000 }, delta('m', ''), { wait: 60_000 }],
    shows: [{ status: 'create' }],
  },
  {
    name: 'P13 the timer shows initial content too',
    script: [open('m', { initial_content: 'a' }), { wait: 1000 }],
    shows: [{ status: 'create', content: 'a' }],
  },
  {
    name: 'P13 after a failure the next emission carries everything, still as create',
    script: [
      start(),
      open('m'),
      { sink: 'fails' },
      delta('m', x(41)),
      { sink: 'accepts' },
      delta('m', x(40)),
      done('m', 'final'),
    ],
    shows: [
      started,
      { status: 'create', content: x(81) },
      { status: 'complete', content: 'final' },
    ],
  },
  {
    name: 'P13 what was given up is flushed at the end',
    script: [
      start(),
      open('m'),
      { sink: 'fails' },
      delta('m', x(41)),
      { wait: 60_000 },
      { sink: 'accepts' },
      responseDone(),
    ],
    shows: [started, { status: 'create', content: x(41) }, complete],
  },
  {
    name: 'P13 a complete that was given up is sent again before the end',
    script: [
      start(),
      open('m'),
      { sink: 'fails' },
      done('m', 'final'),
      { sink: 'accepts' },
      responseDone(),
    ],
    shows: [started, { status: 'complete', content: 'final' }, complete],
  },
  {
    name: 'P13 a lost create of a call is not sent after its complete',
    script: [
      { sink: 'fails' },
      call('fc', 'c', '{}'),
      { sink: 'accepts' },
      output('o', 'c', 'a'),
      'flush',
    ],
    shows: [{ status: 'complete', toolOutput: 'a' }],
  },
  {
    name: 'P13 a cancelled item whose create was lost is not shown',
    script: [open('m'), { sink: 'fails' }, delta('m', x(41)), { sink: 'accepts' }, cancel('m')],
    shows: [],
  },
  {
    name: 'P13 a lost turn_started comes before the next emission',
    script: [{ sink: 'fails' }, start(), { sink: 'accepts' }, open('m'), delta('m', x(41))],
    shows: [started, { status: 'create' }],
  },
  {
    name: 'P13 nothing overtakes a turn_started that is still lost',
    script: [
      { sink: 'fails' },
      start(),
      open('m'),
      done('m', 'a'),
      { sink: 'accepts' },
      responseDone(),
    ],
    shows: [started, { status: 'complete', content: 'a' }, complete],
  },
  {
    name: 'P13 flush tries an unsent terminal again, after what is unshown',
    script: [
      start(),
      open('m'),
      delta('m', 'a'),
      { sink: 'fails' },
      responseDone(),
      'flush',
      { sink: 'accepts' },
      'flush',
      'flush',
    ],
    shows: [started, { status: 'create', content: 'a' }, complete],
  },
  {
    name: 'P13 flush tries a lost turn_started again',
    script: [{ sink: 'fails' }, start(), { sink: 'accepts' }, 'flush', 'flush'],
    shows: [started],
  },
  {
    name: 'P16 destroy shows create or update, and nothing of held items',
    script: [
      open('m'),
      delta('m', x(41)),
      delta('m', 'y'),
      open('n'),
      delta('n', 'z'),
      open('u-user-prompt'),
      delta('u-user-prompt', 'held'),
      'destroy',
    ],
    shows: [
      { itemId: 'm', status: 'create' },
      { itemId: 'm', status: 'update', content: `${x(41)}y` },
      { itemId: 'n', status: 'create', content: 'z' },
    ],
  },
  {
    name: 'P17 the ids are those of the options',
    script: [
      start({ turn_id: 'other', thread_id: 'other' }),
      responseDone({ response_id: 'other' }),
    ],
    shows: [
      { turnId: TURN_ID, threadId: THREAD_ID },
      { turnId: TURN_ID, threadId: THREAD_ID },
    ],
  },
  {
    name: 'P17 only the first response_start opens the turn',
    script: [start(), start({ model_id: 'other' })],
    shows: [{ type: 'turn_started', modelId: 'claude-sonnet-4-20250514' }],
  },
]
