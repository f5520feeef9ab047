/** P12, P13, P16 and P17: the end of a turn, time, and sinks that fail. */
import {
  aborted,
  call,
  cancel,
  delta,
  done,
  fail,
  finish,
  open,
  output,
  responseDone,
  responseError,
  start,
  THREAD_ID,
  TURN_ID,
  tokens,
  usage,
} from './events.ts'
import type { Row } from './scenario.ts'

const x = (length: number) => 'x'.repeat(length)
const started = { type: 'turn_started' }
const complete = { type: 'turn_complete', status: 'complete' }

export const turnRows: Row[] = [
  {
    name: 'P12 response_done first emits a tail of one character',
    script: [start(), open('m'), delta('m', x(41)), delta('m', 'y'), responseDone()],
    shows: [
      started,
      { status: 'create', content: x(41) },
      { status: 'update', content: `${x(41)}y` },
      complete,
    ],
  },
  {
    name: 'P12 response_error first emits pending text',
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
    name: 'V5 an end has finish reason, usage and times',
    script: [
      { ...start(), timestamp: 1000 },
      {
        ...responseDone({
          usage: {
            ...tokens(5, 6),
            cached_tokens: 1,
            cache_write_tokens: 2,
            reasoning_tokens: 3,
            estimated: true,
          },
          finish_reason: 'tool_calls',
        }),
        timestamp: 4000,
      },
    ],
    shows: [
      started,
      {
        ...complete,
        finishReason: 'tool_calls',
        usage: {
          promptTokens: 5,
          completionTokens: 6,
          totalTokens: 11,
          cachedTokens: 1,
          cacheWriteTokens: 2,
          reasoningTokens: 3,
          estimated: true,
        },
        startedAt: 1000,
        endedAt: 4000,
      },
    ],
  },
  {
    name: 'V5 an error has usage and times',
    script: [
      { ...start(), timestamp: 1000 },
      usage(3, 4),
      { ...responseError('E', 'why'), timestamp: 4000 },
    ],
    shows: [
      started,
      {
        type: 'turn_error',
        finishReason: 'error',
        usage: { totalTokens: 7 },
        startedAt: 1000,
        endedAt: 4000,
      },
    ],
  },
  {
    name: 'V5 an abort is cancelled',
    script: [aborted('stop')],
    shows: [{ type: 'turn_complete', status: 'aborted', finishReason: 'cancelled' }],
  },
  {
    name: 'V5 the last text of a response cut by the token limit has finishReason length',
    script: [
      open('m'),
      done('m', 'whole'),
      open('n'),
      delta('n', x(41)),
      done('n', x(50)),
      responseDone({ finish_reason: 'length' }),
    ],
    shows: [
      { itemId: 'm', status: 'complete' },
      { itemId: 'n', status: 'create' },
      { itemId: 'n', status: 'complete', content: x(50) },
      { itemId: 'n', status: 'complete', content: x(50), finishReason: 'length' },
      { ...complete, finishReason: 'length' },
    ],
  },
  {
    name: 'V5 an undelivered text is sent once, with finishReason length',
    script: [
      open('m'),
      { sink: 'fails' },
      done('m', 'half'),
      { sink: 'accepts' },
      responseDone({ finish_reason: 'length' }),
    ],
    shows: [{ itemId: 'm', status: 'complete', finishReason: 'length' }, complete],
  },
  {
    name: 'V5 a text before a call and the prompt never have finishReason length',
    script: [
      done('r-user-prompt', 'Hi', 'user'),
      open('m'),
      done('m', 'whole'),
      call('c', 'x', '{}'),
      responseDone({ finish_reason: 'length' }),
    ],
    shows: [
      { itemId: 'r-user-prompt', status: 'complete' },
      { itemId: 'm', status: 'complete' },
      { itemId: 'c', status: 'create' },
      complete,
    ],
  },
  {
    name: 'V5 the prompt has no finishReason when there is no answer',
    script: [done('r-user-prompt', 'Hi', 'user'), responseDone({ finish_reason: 'length' })],
    shows: [{ itemId: 'r-user-prompt', status: 'complete' }, complete],
  },
  {
    name: 'V5 the calls that the client has to answer are listed',
    script: [
      call('a', 'x', '{}', 'ask'),
      call('b', 'y', '{}', 'look'),
      output('o', 'y', 'seen'),
      call('c', 'z', '{}', 'fail'),
      fail('c', 'E', 'why'),
      responseDone({ finish_reason: 'tool_calls' }),
    ],
    shows: [
      { itemId: 'a', status: 'create' },
      { itemId: 'b', status: 'create' },
      { itemId: 'b', status: 'complete' },
      { itemId: 'c', status: 'create' },
      { itemId: 'c', status: 'error' },
      { ...complete, pendingCalls: [{ callId: 'x', itemId: 'a', toolName: 'ask' }] },
    ],
  },
  {
    name: 'V5 a turn that failed lists the calls that the client may still answer',
    script: [call('a', 'x', '{}', 'ask'), responseError('E', 'why')],
    shows: [
      { itemId: 'a', status: 'create' },
      { type: 'turn_error', pendingCalls: [{ callId: 'x', itemId: 'a', toolName: 'ask' }] },
    ],
  },
  {
    name: 'V5 a call that its provider runs is not listed',
    script: [
      call('b', 'y', '{}', 'ask'),
      finish('a', {
        type: 'function_call',
        id: 'a',
        name: 'web_search',
        arguments: '{}',
        call_id: 'x',
        provider_metadata: { executed_by: 'provider' },
      }),
      responseDone(),
    ],
    shows: [
      { itemId: 'b', status: 'create' },
      { itemId: 'a', status: 'create' },
      { ...complete, pendingCalls: [{ itemId: 'b' }] },
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
    name: 'P13 the oldest pending delta waits no longer than maxLatencyMs',
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
    name: 'P13 the timer never repeats emitted content',
    script: [open('m'), delta('m', x(41)), { wait: 60_000 }, delta('m', ''), { wait: 60_000 }],
    shows: [{ status: 'create' }],
  },
  {
    name: 'P13 the timer emits initial content too',
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
    name: 'P13 failed content is flushed at the end',
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
    name: 'P13 a failed complete is sent again before the end',
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
    name: 'P13 a cancelled item whose create failed is not emitted',
    script: [open('m'), { sink: 'fails' }, delta('m', x(41)), { sink: 'accepts' }, cancel('m')],
    shows: [],
  },
  {
    name: 'P13 a failed turn_started is retried before the next emission',
    script: [{ sink: 'fails' }, start(), { sink: 'accepts' }, open('m'), delta('m', x(41))],
    shows: [started, { status: 'create' }],
  },
  {
    name: 'P13 nothing overtakes a turn_started that keeps failing',
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
    name: 'P13 flush retries a failed terminal after pending text',
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
    name: 'P13 flush retries a failed turn_started',
    script: [{ sink: 'fails' }, start(), { sink: 'accepts' }, 'flush', 'flush'],
    shows: [started],
  },
  {
    name: 'P16 destroy emits create or update, and nothing of held items',
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
