import { describe, expect, test } from 'vitest'
import type { ChatDelta, StreamEvent } from '../../../src/index.ts'
import {
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
} from '../../processor/events.ts'
import { deltasOf, encodeAll, fragment, hear, openCall, opened } from './write-support.ts'

const BY_PROVIDER = { provider_metadata: { executed_by: 'provider' } }
const CALL = { item_type: 'function_call' } as const

interface Row {
  name: string
  turn: StreamEvent[]
  deltas: ChatDelta[]
}

const rows: Row[] = [
  {
    name: 'a call starts with empty arguments, then fragments follow',
    turn: [openCall('a', 'c1'), delta('a', '{"x"'), delta('a', ':1}'), call('a', 'c1', '{"x":1}')],
    deltas: [opened(0, 'c1'), fragment(0, '{"x"'), fragment(0, ':1}')],
  },
  {
    name: 'a call is never a prompt, whatever its id',
    turn: [openCall('a-user-prompt:1', 'c1')],
    deltas: [opened(0, 'c1')],
  },
  {
    name: 'repeated fragments are data',
    turn: [openCall('a', 'c1'), delta('a', '1'), delta('a', '1'), call('a', 'c1', '11')],
    deltas: [opened(0, 'c1'), fragment(0, '1'), fragment(0, '1')],
  },
  {
    name: 'arguments in item_start are the first fragment',
    turn: [open('a', { ...CALL, call_id: 'c1', name: 'f', arguments: '{' }), delta('a', '}')],
    deltas: [opened(0, 'c1', 'f'), fragment(0, '{'), fragment(0, '}')],
  },
  {
    name: 'initial content is the first fragment',
    turn: [open('a', { ...CALL, call_id: 'c1', name: 'f', initial_content: '{' })],
    deltas: [opened(0, 'c1', 'f'), fragment(0, '{')],
  },
  {
    name: 'the rest of the final arguments is sent',
    turn: [openCall('a', 'c1'), delta('a', '{"x":'), call('a', 'c1', '{"x":1}')],
    deltas: [opened(0, 'c1'), fragment(0, '{"x":'), fragment(0, '1}')],
  },
  {
    name: 'arguments that arrive only at the end are one fragment',
    turn: [openCall('a', 'c1'), call('a', 'c1', '{"x":1}')],
    deltas: [opened(0, 'c1'), fragment(0, '{"x":1}')],
  },
  {
    name: 'no arguments at all are an empty object',
    turn: [openCall('a', 'c1'), call('a', 'c1', '')],
    deltas: [opened(0, 'c1'), fragment(0, '{}')],
  },
  {
    name: 'an end without arguments keeps the streamed ones',
    turn: [openCall('a', 'c1'), delta('a', '{"x":1}'), call('a', 'c1', '')],
    deltas: [opened(0, 'c1'), fragment(0, '{"x":1}')],
  },
  {
    name: 'a call without a name waits for it with its arguments',
    turn: [
      open('a', { ...CALL, call_id: 'c1' }),
      delta('a', '{"x":'),
      delta('a', '1}'),
      call('a', 'c1', '{"x":1}', 'late'),
    ],
    deltas: [opened(0, 'c1', 'late'), fragment(0, '{"x":1}')],
  },
  {
    name: 'a call without an id waits for it',
    turn: [open('a', { ...CALL, name: 'f' }), delta('a', '{'), call('a', 'c1', '{}', 'f')],
    deltas: [opened(0, 'c1', 'f'), fragment(0, '{'), fragment(0, '}')],
  },
  {
    name: 'a call that never gets an id uses its item id',
    turn: [open('a', CALL), call('a', '', '{}', 'f')],
    deltas: [opened(0, 'a', 'f'), fragment(0, '{}')],
  },
  {
    name: 'the name of the start is used when the end has none',
    turn: [open('a', { ...CALL, name: 'f' }), call('a', 'c1', '{}', '')],
    deltas: [opened(0, 'c1', 'f'), fragment(0, '{}')],
  },
  {
    name: 'the id of the start is used when the end has none',
    turn: [open('a', { ...CALL, call_id: 'c1' }), call('a', '', '{}', 'f')],
    deltas: [opened(0, 'c1', 'f'), fragment(0, '{}')],
  },
  {
    name: "a sent call is completed, even if it turns out to be the provider's",
    turn: [
      openCall('a', 'c1'),
      finish('a', {
        type: 'function_call',
        id: 'a',
        name: 'read_file',
        call_id: 'c1',
        arguments: '{"x":1}',
        ...BY_PROVIDER,
      }),
    ],
    deltas: [opened(0, 'c1'), fragment(0, '{"x":1}')],
  },
  {
    name: 'id and name of a sent call do not change',
    turn: [openCall('a', 'c1'), call('a', 'c2', '{}', 'other')],
    deltas: [opened(0, 'c1'), fragment(0, '{}')],
  },
  {
    name: 'a call that was never started is sent when it is done',
    turn: [call('a', 'c1', '{"x":1}')],
    deltas: [opened(0, 'c1'), fragment(0, '{"x":1}')],
  },
  {
    name: 'a call is finished only once',
    turn: [openCall('a', 'c1'), call('a', 'c1', '{}'), delta('a', '!'), call('a', 'c1', '{}!')],
    deltas: [opened(0, 'c1'), fragment(0, '{}')],
  },
  {
    name: 'calls that overlap keep their indices',
    turn: [
      openCall('a', 'c1'),
      openCall('b', 'c2', 'g'),
      delta('b', '{"b"'),
      delta('a', '{"a"'),
      delta('b', ':2}'),
      delta('a', ':1}'),
      call('b', 'c2', '{"b":2}', 'g'),
      call('a', 'c1', '{"a":1}'),
    ],
    deltas: [
      opened(0, 'c1'),
      opened(1, 'c2', 'g'),
      fragment(1, '{"b"'),
      fragment(0, '{"a"'),
      fragment(1, ':2}'),
      fragment(0, ':1}'),
    ],
  },
  {
    name: 'a call gets its index when it is sent, so that indices have no gap',
    turn: [open('a', CALL), openCall('b', 'c2'), call('a', 'c1', '{}'), call('b', 'c2', '{}')],
    deltas: [opened(0, 'c2'), opened(1, 'c1'), fragment(1, '{}'), fragment(0, '{}')],
  },
  {
    name: 'a call that is still open when the response ends is completed',
    turn: [
      openCall('a', 'c1'),
      open('b', { ...CALL, name: 'g' }),
      delta('b', '[]'),
      responseDone(),
    ],
    deltas: [opened(0, 'c1'), fragment(0, '{}'), opened(1, 'b', 'g'), fragment(1, '[]'), {}],
  },
  {
    name: 'a waiting call is not sent when the response fails',
    turn: [open('a', { ...CALL, name: 'f' }), delta('a', '{'), responseError('BROKEN', 'why')],
    deltas: [],
  },
  {
    name: 'a call that the provider runs is not sent',
    turn: [
      open('a', { ...CALL, call_id: 'c1', name: 'search', ...BY_PROVIDER }),
      delta('a', '{}'),
      call('a', 'c1', '{}', 'search'),
      open('o', { item_type: 'function_call_output', call_id: 'c1' }),
      output('o', 'c1', 'found'),
      done('b', 'Found it'),
      responseDone(),
    ],
    deltas: [{ content: 'Found it' }, {}],
  },
  {
    name: "a waiting call that turns out to be the provider's is not sent",
    turn: [
      open('a', { ...CALL, name: 'search' }),
      finish('a', {
        type: 'function_call',
        id: 'a',
        name: 'search',
        call_id: '',
        arguments: '{}',
        ...BY_PROVIDER,
      }),
      responseDone(),
    ],
    deltas: [{}],
  },
  {
    name: 'a call with an output is not sent',
    turn: [
      open('a', { ...CALL, call_id: 'c1' }),
      open('o', { item_type: 'function_call_output', call_id: 'c1' }),
      call('a', 'c1', '{}'),
      output('p', 'c2', 'found'),
      call('b', 'c2', '{}'),
      responseDone(),
    ],
    deltas: [{}],
  },
  {
    name: 'a call that was cancelled before it was sent is not sent at the end',
    turn: [open('a', { ...CALL, name: 'f' }), delta('a', '{'), cancel('a'), responseDone()],
    deltas: [{}],
  },
  {
    name: 'a call that failed is not completed',
    turn: [openCall('a', 'c1'), fail('a', 'E', 'e'), call('a', 'c1', '{}'), responseDone()],
    deltas: [opened(0, 'c1')],
  },
  {
    name: 'outputs without a call id hide nothing',
    turn: [open('o', { item_type: 'function_call_output', call_id: '' }), call('a', '', '{}')],
    deltas: [opened(0, 'a'), fragment(0, '{}')],
  },
  {
    name: 'a provider call takes no index',
    turn: [open('a', { ...CALL, call_id: 'c1', name: 's', ...BY_PROVIDER }), openCall('b', 'c2')],
    deltas: [opened(0, 'c2')],
  },
  {
    name: 'an item that was opened as text and ends as a call is a call',
    turn: [open('a'), call('a', 'c1', '{}')],
    deltas: [opened(0, 'c1'), fragment(0, '{}')],
  },
]

describe('tool calls', () => {
  test.each(rows)('$name', ({ turn, deltas }) => {
    const frames = encodeAll([start(), ...turn])
    expect(deltasOf(frames).slice(1)).toEqual(deltas)
  })
})

test('calls that were not sent do not affect the finish reason', () => {
  const answered = [open('a', { ...CALL, call_id: 'c1' }), output('o', 'c1', 'found')]
  const turn = [...answered, call('a', 'c1', '{}'), done('b', 'Found it'), responseDone()]
  expect(hear(encodeAll(turn))).toMatchObject({ content: 'Found it', finish: 'stop' })
})
