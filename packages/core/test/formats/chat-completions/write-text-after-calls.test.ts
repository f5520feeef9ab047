import { expect, test } from 'vitest'
import type { ChatDelta, StreamEvent } from '../../../src/index.ts'
import { call, delta, done, open, start, thought } from '../../processor/events.ts'
import { deltasOf, encodeAll, fragment, openCall, opened } from './write-support.ts'

interface Row {
  name: string
  turn: StreamEvent[]
  deltas: ChatDelta[]
  keepTextAfterToolCalls?: boolean
}

const CALL = { item_type: 'function_call' } as const

const rows: Row[] = [
  {
    name: 'T8 no text is sent after a call',
    turn: [
      open('a'),
      delta('a', 'Let me '),
      openCall('b', 'c1'),
      delta('a', 'see'),
      done('a', 'Let me see.'),
      call('b', 'c1', '{}'),
      open('c'),
      delta('c', 'Wait'),
      done('c', 'Wait!'),
      done('d', 'Well.'),
    ],
    deltas: [{ content: 'Let me ' }, opened(0, 'c1'), fragment(0, '{}')],
  },
  {
    name: 'T8 text from before the call is sent before it, even if it had to wait',
    turn: [open('a'), delta('a', 'A'), open('b'), delta('b', 'B'), openCall('c', 'c1')],
    deltas: [{ content: 'A' }, { content: 'B' }, opened(0, 'c1')],
  },
  {
    name: 'T8 text continues while the call is not visible',
    turn: [open('a'), open('b', CALL), delta('a', 'A'), call('b', 'c1', '{}'), delta('a', 'B')],
    deltas: [{ content: 'A' }, opened(0, 'c1'), fragment(0, '{}')],
  },
  {
    name: 'T8 text can be kept',
    turn: [
      open('a'),
      delta('a', 'Let me '),
      openCall('b', 'c1'),
      done('a', 'Let me see.'),
      done('c', 'Well.'),
    ],
    deltas: [{ content: 'Let me ' }, opened(0, 'c1'), { content: 'see.' }, { content: 'Well.' }],
    keepTextAfterToolCalls: true,
  },
  {
    name: 'T8 a refusal is text',
    turn: [
      open('a', { provider_metadata: { openai: { refusal: true } } }),
      delta('a', 'I will '),
      openCall('b', 'c1'),
      delta('a', 'not'),
    ],
    deltas: [{ refusal: 'I will ' }, opened(0, 'c1')],
  },
  {
    name: 'T8 reasoning is not text',
    turn: [openCall('a', 'c1'), thought('r', 'Hm')],
    deltas: [opened(0, 'c1'), { reasoning_content: 'Hm' }],
  },
]

test.each(rows)('$name', ({ turn, deltas, keepTextAfterToolCalls = false }) => {
  const frames = encodeAll([start(), ...turn], { keepTextAfterToolCalls })
  expect(deltasOf(frames).slice(1)).toEqual(deltas)
})
