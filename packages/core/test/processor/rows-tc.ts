/** The seventeen cases that define the processor. */
import {
  call,
  delta,
  done,
  fail,
  open,
  output,
  responseDone,
  responseError,
  start,
  THREAD_ID,
  TURN_ID,
  thought,
  tokens,
} from './events.ts'
import type { Row } from './scenario.ts'

const ids = { turnId: TURN_ID, threadId: THREAD_ID }
const started = { type: 'turn_started', ...ids }
const complete = { type: 'turn_complete', ...ids, status: 'complete' }

const readFile = {
  type: 'tool_call',
  itemId: 'fc',
  content: '',
  toolName: 'read_file',
  toolArguments: { path: '/tmp/test.txt', encoding: 'utf-8' },
  callId: 'call-1',
}

export const tcRows: Row[] = [
  {
    name: 'TC-01 a short message is one complete',
    script: [
      start(),
      open('msg-01'),
      delta('msg-01', 'Hello there!'),
      done('msg-01', 'Hello there!'),
      responseDone({ usage: tokens(10, 3) }),
    ],
    shows: [
      { ...started, modelId: 'claude-sonnet-4-20250514', providerId: 'anthropic' },
      { type: 'message', ...ids, itemId: 'msg-01', status: 'complete', content: 'Hello there!' },
      { ...complete, usage: { promptTokens: 10, completionTokens: 3, totalTokens: 13 } },
    ],
  },
  {
    name: 'TC-02 crossing thresholds creates, then updates',
    options: { batchGradient: [10, 10, 20] },
    script: [
      start(),
      open('m'),
      delta('m', 'a'.repeat(44)),
      delta('m', 'b'.repeat(40)),
      delta('m', 'c'.repeat(44)),
      done('m', 'a'.repeat(44) + 'b'.repeat(40) + 'c'.repeat(44)),
      responseDone(),
    ],
    shows: [
      started,
      { status: 'create', content: 'a'.repeat(44) },
      { status: 'update', content: 'a'.repeat(44) + 'b'.repeat(40) },
      { status: 'complete', content: 'a'.repeat(44) + 'b'.repeat(40) + 'c'.repeat(44) },
      complete,
    ],
  },
  {
    name: 'TC-03 a user message is held until it is complete',
    script: [
      start(),
      open('run-1-user-prompt'),
      delta('run-1-user-prompt', 'What is the weather? '.repeat(10)),
      done('run-1-user-prompt', 'What is the weather?', 'user'),
      open('m'),
      delta('m', 'x'.repeat(41)),
      done('m', 'x'.repeat(41)),
      responseDone(),
    ],
    shows: [
      started,
      { type: 'message', status: 'complete', content: 'What is the weather?', origin: 'user' },
      { type: 'message', status: 'create', origin: 'agent' },
      { type: 'message', status: 'complete', origin: 'agent' },
      complete,
    ],
  },
  {
    name: 'TC-04 reasoning becomes thinking',
    options: { batchGradient: [8, 8] },
    script: [
      start(),
      open('r', { item_type: 'reasoning' }),
      delta('r', 'Let me think about this problem. '),
      delta('r', 'I should consider multiple factors here.'),
      thought('r', 'Let me think about this problem. I should consider multiple factors here.'),
      responseDone(),
    ],
    shows: [
      { ...started, providerId: 'anthropic' },
      { type: 'thinking', status: 'create', providerId: 'anthropic' },
      {
        type: 'thinking',
        status: 'update',
        content: 'Let me think about this problem. I should consider multiple factors here.',
        providerId: 'anthropic',
      },
      { type: 'thinking', status: 'complete', providerId: 'anthropic' },
      complete,
    ],
  },
  {
    name: 'TC-05 a call and its output are one tool call',
    script: [
      start(),
      open('fc', { item_type: 'function_call', name: 'read_file' }),
      call('fc', 'call-1', '{"path":"/tmp/test.txt","encoding":"utf-8"}'),
      open('fco', { item_type: 'function_call_output' }),
      output('fco', 'call-1', '{"content":"Hello from file!","bytes":17}'),
      open('m'),
      delta('m', 'The file contains: Hello from file! And that is all of it.'),
      done('m', 'The file contains: Hello from file! And that is all of it.'),
      responseDone(),
    ],
    shows: [
      started,
      { ...readFile, status: 'create' },
      {
        ...readFile,
        status: 'complete',
        toolOutput: { content: 'Hello from file!', bytes: 17 },
        success: true,
      },
      { type: 'message', status: 'create' },
      { type: 'message', status: 'complete' },
      complete,
    ],
  },
  {
    name: 'TC-06 tool calls one after another',
    script: [
      start(),
      call('fc-1', 'call-1', '{"path":"/tmp/input.txt"}'),
      output('fco-1', 'call-1', '{"content":"input data"}'),
      call('fc-2', 'call-2', '{"path":"/tmp/output.txt"}', 'write_file'),
      output('fco-2', 'call-2', '{"bytesWritten":9}'),
      responseDone(),
    ],
    shows: [
      started,
      { itemId: 'fc-1', status: 'create', toolName: 'read_file' },
      { itemId: 'fc-1', status: 'complete', toolOutput: { content: 'input data' } },
      { itemId: 'fc-2', status: 'create', toolName: 'write_file' },
      { itemId: 'fc-2', status: 'complete', toolOutput: { bytesWritten: 9 } },
      complete,
    ],
  },
  {
    name: 'TC-07 an error is a status of the same item',
    script: [
      start(),
      open('m'),
      delta('m', 'I was starting to respond but then I was cut off.'),
      fail('m', 'CONTENT_FILTER', 'Response blocked by content filter'),
      responseDone({ status: 'error' }),
    ],
    shows: [
      started,
      { itemId: 'm', status: 'create' },
      {
        type: 'message',
        itemId: 'm',
        status: 'error',
        content: 'I was starting to respond but then I was cut off.',
        errorCode: 'CONTENT_FILTER',
        errorMessage: 'Response blocked by content filter',
      },
      { type: 'turn_complete', status: 'error' },
    ],
  },
  {
    name: 'TC-08 an error of the turn is turn_error',
    script: [start(), responseError('PROVIDER_ERROR', 'Provider returned 500 error')],
    shows: [
      started,
      {
        type: 'turn_error',
        ...ids,
        error: { code: 'PROVIDER_ERROR', message: 'Provider returned 500 error' },
      },
    ],
  },
  {
    name: 'TC-09 the timer emits pending text when the stream stalls',
    options: { batchTimeoutMs: 50 },
    script: [
      start(),
      open('m'),
      delta('m', 'Hello'),
      { wait: 50 },
      delta('m', ', world'),
      { wait: 50 },
      done('m', 'Hello, world!'),
      responseDone(),
    ],
    shows: [
      started,
      { status: 'create', content: 'Hello' },
      { status: 'update', content: 'Hello, world' },
      { status: 'complete', content: 'Hello, world!' },
      complete,
    ],
  },
  {
    name: 'TC-10 a long answer follows the default gradient',
    script: [
      start(),
      open('m'),
      ...Array.from({ length: 500 }, () => delta('m', 'word')),
      done('m', 'word'.repeat(500)),
      responseDone(),
    ],
    shows: [
      started,
      ...[11, 21, 31, 41, 61, 81, 101, 121, 171, 221, 271, 321, 421].map((count, index) => ({
        status: index === 0 ? 'create' : 'update',
        content: 'word'.repeat(count),
      })),
      { status: 'complete', content: 'word'.repeat(500) },
      complete,
    ],
  },
  {
    name: 'TC-11 an item without content is still complete',
    script: [start(), open('m'), done('m', ''), responseDone()],
    shows: [started, { type: 'message', status: 'complete', content: '' }, complete],
  },
  {
    name: 'TC-12 destroy emits pending text once',
    script: [start(), open('m'), delta('m', 'buffered content'), 'destroy', { wait: 10_000 }],
    shows: [started, { status: 'create', content: 'buffered content' }],
  },
  {
    name: 'TC-12 destroy emits nothing twice',
    script: [start(), open('m'), delta('m', 'x'.repeat(48)), 'destroy', 'destroy'],
    shows: [started, { status: 'create', content: 'x'.repeat(48) }],
  },
  {
    name: 'TC-13 a failed emission is sent again',
    script: [{ sink: 'fails' }, start(), { sink: 'accepts' }, open('m'), done('m', 'Hi')],
    shows: [started, { status: 'complete', content: 'Hi' }],
  },
  {
    name: 'TC-14 a sink that always fails loses nothing of the state',
    script: [{ sink: 'fails' }, start(), open('m'), delta('m', 'Hi'), 'flush', done('m', 'Hi!')],
    shows: [],
  },
  {
    name: 'TC-15 exactly at the threshold stays silent',
    script: [start(), open('m'), delta('m', 'x'.repeat(40)), done('m', 'x'.repeat(40))],
    shows: [started, { status: 'complete', content: 'x'.repeat(40) }],
  },
  {
    name: 'TC-16 one token past the threshold creates',
    script: [
      start(),
      open('m'),
      delta('m', 'x'.repeat(40)),
      delta('m', 'yyyy'),
      done('m', `${'x'.repeat(40)}yyyy`),
    ],
    shows: [
      started,
      { status: 'create', content: `${'x'.repeat(40)}yyyy` },
      { status: 'complete' },
    ],
  },
  {
    name: 'TC-17 one delta over several thresholds emits once',
    options: { batchGradient: [10, 10, 20] },
    script: [
      start(),
      open('m'),
      delta('m', 'x'.repeat(100)),
      delta('m', 'y'.repeat(60)),
      delta('m', 'z'),
      done('m', 'done'),
    ],
    shows: [
      started,
      { status: 'create', content: 'x'.repeat(100) },
      { status: 'update', content: `${'x'.repeat(100)}${'y'.repeat(60)}z` },
      { status: 'complete', content: 'done' },
    ],
  },
]
