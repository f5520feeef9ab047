import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ChatCompletionsEncoder, type StreamEvent } from '../../../src/index.ts'
import { jsonLine } from '../../../src/protocol/json.ts'
import {
  aborted,
  call,
  delta,
  done,
  open,
  output,
  responseDone,
  responseError,
  start,
  thought,
  tokens,
} from '../../processor/events.ts'
import { HEAD, openCall, sseOf } from './write-support.ts'

const prompt = [open('p-user-prompt', { origin: 'user' }), done('p-user-prompt', 'Hi', 'user')]

const goldens: Record<string, { turn: StreamEvent[]; includeUsage?: boolean }> = {
  text: {
    turn: [
      start(),
      ...prompt,
      open('a'),
      delta('a', 'Hello,\n'),
      delta('a', '"wörld" 👋'),
      done('a', 'Hello,\n"wörld" 👋!'),
      responseDone(),
    ],
  },
  'reasoning-and-usage': {
    turn: [
      start(),
      open('r', { item_type: 'reasoning' }),
      delta('r', 'Hm.'),
      thought('r', 'Hm.'),
      open('a'),
      delta('a', 'Yes'),
      done('a', 'Yes'),
      responseDone({ usage: { ...tokens(12, 7), cached_tokens: 4, reasoning_tokens: 3 } }),
    ],
    includeUsage: true,
  },
  'tool-calls': {
    turn: [
      start(),
      open('a'),
      delta('a', 'Let me look.'),
      done('a', 'Let me look.'),
      openCall('b', 'call_1'),
      delta('b', '{"path":'),
      openCall('c', 'call_2', 'list_files'),
      delta('b', '"a.txt"}'),
      call('b', 'call_1', '{"path":"a.txt"}'),
      call('c', 'call_2', '', 'list_files'),
      done('d', 'This comes too late.'),
      responseDone({ finish_reason: 'tool_calls' }),
    ],
  },
  'calls-of-the-server': {
    turn: [
      start(),
      open('b', {
        item_type: 'function_call',
        name: 'search',
        call_id: 'call_1',
        provider_metadata: { executed_by: 'provider' },
      }),
      delta('b', '{"q":"x"}'),
      call('b', 'call_1', '{"q":"x"}', 'search'),
      output('o', 'call_1', 'found'),
      done('a', 'Found it.'),
      responseDone(),
    ],
  },
  error: {
    turn: [
      start(),
      open('a'),
      delta('a', 'Hel'),
      responseError('UPSTREAM_TRUNCATED', 'The provider stream ended early'),
      responseDone(),
    ],
    includeUsage: true,
  },
  aborted: { turn: [start(), open('a'), delta('a', 'Hel'), aborted('enough')] },
}

test.each(Object.entries(goldens))(
  '%s matches the golden byte for byte',
  (name, { turn, includeUsage }) => {
    const file = new URL(`goldens/${name}.sse`, import.meta.url)
    const actual = sseOf(turn, { includeUsage: includeUsage === true })
    if (process.env['UPDATE_GOLDEN'] !== undefined) writeFileSync(file, actual)
    expect(actual).toBe(readFileSync(file, 'utf8'))
  },
)

test.each(Object.entries(goldens))('%s as JSON lines has the same chunks', (name, golden) => {
  const options = { ...HEAD, includeUsage: golden.includeUsage === true }
  const encoder = new ChatCompletionsEncoder(options)
  const lines = golden.turn
    .flatMap((event) => encoder.encode(event))
    .map(jsonLine)
    .join('')
  const sse = readFileSync(new URL(`goldens/${name}.sse`, import.meta.url), 'utf8')
  const texts = sse.split('\n\n').map((frame) => frame.slice('data: '.length))
  expect(lines).toBe(
    texts
      .slice(0, -2)
      .map((text) => `${text}\n`)
      .join(''),
  )
})
