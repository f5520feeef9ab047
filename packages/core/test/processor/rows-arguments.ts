/** V7: tool arguments while they stream. */
import { aborted, call, cancel, delta, fail, open, output, responseDone } from './events.ts'
import type { Row } from './scenario.ts'

const x = (count: number) => 'x'.repeat(count)

const options = { showToolArguments: true }
const named = { item_type: 'function_call', name: 'read_file', call_id: 'x' } as const
const shown = { type: 'tool_call', itemId: 'c', toolName: 'read_file', callId: 'x', content: '' }
const complete = { type: 'turn_complete', status: 'complete' }

const TEXT = JSON.stringify({ path: x(80) })

export const argumentRows: readonly Row[] = [
  {
    name: 'V7 a call is created at its name, grows by the gradient, and gets its arguments at the end',
    options,
    script: [
      open('c', named),
      delta('c', TEXT.slice(0, 40)),
      delta('c', TEXT.slice(40, 41)),
      delta('c', TEXT.slice(41, 81)),
      delta('c', TEXT.slice(81)),
      call('c', 'x', TEXT),
      output('o', 'x', 'read'),
      responseDone(),
    ],
    shows: [
      { ...shown, status: 'create', toolArguments: {}, toolArgumentsText: '' },
      { ...shown, status: 'update', toolArguments: {}, toolArgumentsText: TEXT.slice(0, 41) },
      { ...shown, status: 'update', toolArguments: {}, toolArgumentsText: TEXT.slice(0, 81) },
      { ...shown, status: 'update', toolArguments: { path: x(80) } },
      { ...shown, status: 'complete', toolArguments: { path: x(80) }, toolOutput: 'read' },
      complete,
    ],
  },
  {
    name: 'V7 arguments are also emitted by the timer, and not after their end',
    options,
    script: [
      open('c', named),
      delta('c', '{"a"'),
      { wait: 1000 },
      delta('c', ':1}'),
      call('c', 'x', '{"a":1}'),
      { wait: 9000 },
      responseDone(),
    ],
    shows: [
      { ...shown, status: 'create' },
      { ...shown, status: 'update', toolArgumentsText: '{"a"' },
      { ...shown, status: 'update', toolArguments: { a: 1 } },
      complete,
    ],
  },
  {
    name: 'V7 arguments that cannot be parsed are emitted once more, as text',
    options,
    script: [open('c', named), delta('c', '{"a'), call('c', 'x', '{"a'), 'flush', responseDone()],
    shows: [
      { ...shown, status: 'create' },
      { ...shown, status: 'update', toolArguments: {}, content: '{"a' },
      complete,
    ],
  },
  {
    name: 'V7 a call without a name is held until its end',
    options,
    script: [
      open('c', { item_type: 'function_call' }),
      delta('c', x(100)),
      call('c', 'x', '{}'),
      responseDone(),
    ],
    shows: [{ ...shown, status: 'create', toolArguments: {} }, complete],
  },
  {
    name: 'V7 a call that fails while it streams is an error with its text',
    options,
    script: [open('c', named), delta('c', '{"a'), fail('c', 'E', 'why'), responseDone()],
    shows: [
      { ...shown, status: 'create' },
      { ...shown, status: 'error', errorCode: 'E', content: '{"a' },
      complete,
    ],
  },
  {
    name: 'V7 a call that is cancelled after it was emitted is settled',
    options,
    script: [open('c', named), cancel('c'), aborted('stop')],
    shows: [
      { ...shown, status: 'create' },
      { ...shown, status: 'error', errorCode: 'ITEM_CANCELLED' },
      { type: 'turn_complete', status: 'aborted' },
    ],
  },
  {
    name: 'V7 a call whose create was lost is created at its end',
    options,
    script: [
      { sink: 'fails' },
      open('c', named),
      delta('c', x(50)),
      { sink: 'accepts' },
      call('c', 'x', '{}'),
      responseDone(),
    ],
    shows: [{ ...shown, status: 'create', toolArguments: {} }, complete],
  },
  {
    name: 'V7 by default a call is held until its end',
    script: [open('c', named), delta('c', x(100)), call('c', 'x', '{}'), responseDone()],
    shows: [{ ...shown, status: 'create', toolArguments: {} }, complete],
  },
]
