import { describe, expect, test } from 'vitest'
import type { ChatDelta, StreamEvent } from '../../../src/index.ts'
import {
  cancel,
  delta,
  done,
  fail,
  finish,
  open,
  responseDone,
  responseError,
  start,
  thought,
} from '../../processor/events.ts'
import { deltasOf, encodeAll } from './write-support.ts'

const ROLE: ChatDelta = { role: 'assistant', content: '' }
const REFUSAL = { provider_metadata: { openai: { refusal: true } } }

interface TextRow {
  name: string
  turn: StreamEvent[]
  deltas: ChatDelta[]
  reasoning?: 'omit'
}

const textRows: TextRow[] = [
  {
    name: 'each delta is a chunk, an empty one is none',
    turn: [open('a'), delta('a', 'Hel'), delta('a', ''), delta('a', 'lo'), done('a', 'Hello')],
    deltas: [{ content: 'Hel' }, { content: 'lo' }],
  },
  {
    name: 'the initial content is text like any other',
    turn: [open('a', { initial_content: 'He' }), delta('a', 'llo'), done('a', 'Hello')],
    deltas: [{ content: 'He' }, { content: 'llo' }],
  },
  {
    name: 'what the final text has more than was streamed is sent',
    turn: [open('a'), delta('a', 'Hel'), done('a', 'Hello')],
    deltas: [{ content: 'Hel' }, { content: 'lo' }],
  },
  {
    name: 'a final text that contradicts what was sent adds nothing',
    turn: [open('a'), delta('a', 'Hel'), done('a', 'Good morning')],
    deltas: [{ content: 'Hel' }],
  },
  {
    name: 'a final text that is shorter than what was sent adds nothing',
    turn: [open('a'), delta('a', 'Hello'), done('a', 'Hel')],
    deltas: [{ content: 'Hello' }],
  },
  {
    name: 'an item that was never started is sent when it is done',
    turn: [done('a', 'Hello')],
    deltas: [{ content: 'Hello' }],
  },
  {
    name: 'an item is finished only once',
    turn: [open('a'), done('a', 'Hello'), done('a', 'Hello again'), open('a'), delta('a', '!')],
    deltas: [{ content: 'Hello' }],
  },
  {
    name: 'an item is started only once',
    turn: [open('a'), delta('a', 'Hi'), open('a', { initial_content: 'Hi' }), done('a', 'Hi!')],
    deltas: [{ content: 'Hi' }, { content: '!' }],
  },
  {
    name: 'a delta for an unknown item is no text',
    turn: [delta('a', 'lost')],
    deltas: [],
  },
  {
    name: 'the text of a later item waits until the earlier one ends',
    turn: [
      open('a'),
      delta('a', 'Hel'),
      open('b'),
      delta('b', 'world'),
      delta('a', 'lo'),
      done('b', 'world!'),
      done('a', 'Hello '),
    ],
    deltas: [{ content: 'Hel' }, { content: 'lo' }, { content: ' ' }, { content: 'world!' }],
  },
  {
    name: 'a text takes its place with its first character',
    turn: [open('a'), open('b'), delta('b', 'Hello '), done('a', 'world'), done('b', 'Hello ')],
    deltas: [{ content: 'Hello ' }, { content: 'world' }],
  },
  {
    name: 'a later item that is still open goes on by itself when the earlier one ends',
    turn: [open('a'), delta('a', 'A'), open('b'), delta('b', '1'), done('a', 'A'), delta('b', '2')],
    deltas: [{ content: 'A' }, { content: '1' }, { content: '2' }],
  },
  {
    name: 'what waits is sent when the response ends',
    turn: [open('a'), delta('a', 'A'), open('b'), delta('b', 'B'), responseDone()],
    deltas: [{ content: 'A' }, { content: 'B' }, {}],
  },
  {
    name: 'what waits is sent before the error',
    turn: [open('a'), open('b'), delta('b', 'B'), responseError('BROKEN', 'why')],
    deltas: [{ content: 'B' }],
  },
  {
    name: 'an item that fails keeps its text and lets the next one go on',
    turn: [open('a'), open('b'), delta('b', 'B'), fail('b', 'E', 'e'), fail('a', 'E', 'e')],
    deltas: [{ content: 'B' }],
  },
  {
    name: 'what comes of an item after it failed is not sent',
    turn: [open('a'), delta('a', 'A'), fail('a', 'E', 'e'), delta('a', 'B'), done('a', 'AB')],
    deltas: [{ content: 'A' }],
  },
  {
    name: 'a final item of type error is a failure',
    turn: [
      open('a'),
      delta('a', 'A'),
      open('b'),
      delta('b', 'B'),
      finish('a', { type: 'error', id: 'a', code: 'E', message: 'e' }),
    ],
    deltas: [{ content: 'A' }, { content: 'B' }],
  },
  {
    name: 'an item that was cancelled while it waited is not sent',
    turn: [open('a'), delta('a', 'A'), open('b'), delta('b', 'B'), cancel('b'), done('a', 'A')],
    deltas: [{ content: 'A' }],
  },
  {
    name: 'a final item of type cancelled is a cancellation',
    turn: [
      open('a'),
      delta('a', 'A'),
      open('b'),
      delta('b', 'B'),
      finish('b', { type: 'cancelled', id: 'b' }),
      done('a', 'A'),
    ],
    deltas: [{ content: 'A' }],
  },
  {
    name: 'what was sent of a cancelled item stays, and nothing is added to it',
    turn: [open('a'), delta('a', 'A'), cancel('a'), delta('a', 'A'), done('a', 'AAA')],
    deltas: [{ content: 'A' }],
  },
  {
    name: 'words of the user are not echoed',
    turn: [open('a', { origin: 'user' }), delta('a', 'Hi'), done('a', 'Hi', 'user')],
    deltas: [],
  },
  {
    name: 'words of the system are not echoed',
    turn: [
      open('a', { origin: 'system' }),
      delta('a', 'Be brief'),
      done('a', 'Be brief', 'system'),
    ],
    deltas: [],
  },
  {
    name: 'a prompt whose origin is not said is not echoed',
    turn: [
      open('run-user-prompt'),
      delta('run-user-prompt', 'Hi'),
      done('run-user-prompt', 'Hi', 'user'),
    ],
    deltas: [],
  },
  {
    name: 'what only looked like a prompt is sent when it is done',
    turn: [open('no-user-prompt'), delta('no-user-prompt', 'H'), done('no-user-prompt', 'Hi')],
    deltas: [{ content: 'Hi' }],
  },
  {
    name: 'what looks like a prompt but says that it is not is sent at once',
    turn: [open('no-user-prompt', { origin: 'agent' }), delta('no-user-prompt', 'H')],
    deltas: [{ content: 'H' }],
  },
  {
    name: 'words that turn out to be of the user are not completed',
    turn: [open('a'), delta('a', 'H'), done('a', 'Hi', 'user')],
    deltas: [{ content: 'H' }],
  },
  {
    name: 'a user message that was never started is not echoed',
    turn: [done('a', 'Hi', 'user')],
    deltas: [],
  },
  {
    name: 'reasoning has its own field',
    turn: [
      open('r', { item_type: 'reasoning' }),
      delta('r', 'Hm'),
      thought('r', 'Hmm'),
      open('a'),
      done('a', 'Yes'),
    ],
    deltas: [{ reasoning_content: 'Hm' }, { reasoning_content: 'm' }, { content: 'Yes' }],
  },
  {
    name: 'reasoning does not wait for text, nor text for reasoning',
    turn: [
      open('a'),
      open('r', { item_type: 'reasoning' }),
      delta('r', 'Hm'),
      delta('a', 'Yes'),
      delta('r', 'm'),
    ],
    deltas: [{ reasoning_content: 'Hm' }, { content: 'Yes' }, { reasoning_content: 'm' }],
  },
  {
    name: 'reasoning without a text is nothing',
    turn: [open('r', { item_type: 'reasoning' }), thought('r', '')],
    deltas: [],
  },
  {
    name: 'reasoning of the user is not echoed',
    turn: [open('r', { item_type: 'reasoning', origin: 'user' }), delta('r', 'Hm')],
    deltas: [],
  },
  {
    name: 'reasoning can be left out',
    turn: [
      open('r', { item_type: 'reasoning' }),
      delta('r', 'Hm'),
      thought('r', 'Hmm'),
      thought('s', 'Aha'),
      done('a', 'Yes'),
    ],
    deltas: [{ content: 'Yes' }],
    reasoning: 'omit',
  },
  {
    name: 'a refusal has a field of its own',
    turn: [open('a', REFUSAL), delta('a', 'I will '), done('a', 'I will not')],
    deltas: [{ refusal: 'I will ' }, { refusal: 'not' }],
  },
  {
    name: 'a refusal that was never started also has it',
    turn: [finish('a', { type: 'message', id: 'a', content: 'No', origin: 'agent', ...REFUSAL })],
    deltas: [{ refusal: 'No' }],
  },
  {
    name: 'error items and outputs are not text',
    turn: [
      open('e', { item_type: 'error', initial_content: 'oh' }),
      delta('e', ' no'),
      finish('e', { type: 'error', id: 'e', code: 'E', message: 'oh no' }),
      open('o', { item_type: 'function_call_output', call_id: 'c' }),
      delta('o', 'found'),
    ],
    deltas: [],
  },
]

describe('text', () => {
  test.each(textRows)('$name', ({ turn, deltas, reasoning }) => {
    const frames = encodeAll([start(), ...turn], reasoning === undefined ? {} : { reasoning })
    expect(deltasOf(frames)).toEqual([ROLE, ...deltas])
  })
})
