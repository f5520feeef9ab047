/** What real app-servers wrote, old and new, and what it must come to. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  byCodex,
  call,
  type Fields,
  message,
  output,
  plain,
  reasoning,
  translate,
  userMessage,
} from './events.ts'

interface Row {
  name: string
  items: Fields[]
  ending: Fields
}

const HELLO = 'Hello from the fake provider. This is a plain text answer, streamed word by word.'
const THOUGHTS =
  '**Planning the answer** I look at the question first.\n\n**Checking** The answer is 42.'
const LOST = 'First attempt text that gets lost when'
const CUT = 'This sentence will be cut by a failure'
const DISCONNECTED =
  'stream disconnected before completion: Transport error: network error: error decoding response body'
const MID_STREAM = 'mid-stream model error'

const COMMAND = `echo out-line-1; sleep 0.3; echo err-line >&2; printf 'h\\303\\251llo\\n'`
const PRINTED = 'out-line-1\nerr-line\nhéllo\n'

const finished = (finish_reason: string, word: string, usage?: Fields) => ({
  status: 'complete',
  finish_reason,
  provider_finish_reason: word,
  error: null,
  usage,
})
const failed = (code: string, text: string) => ({
  status: 'error',
  error: { code, message: text },
  usage: undefined,
})
const used = (prompt: number, completion: number, cached: number, reasoning_tokens = 0) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  cached_tokens: cached,
  cache_write_tokens: 0,
  reasoning_tokens,
})
/** Earlier versions do not count what is written to the cache. */
const usedBefore = (...counts: Parameters<typeof used>) => {
  const { cache_write_tokens: _, ...usage } = used(...counts)
  return usage
}

const rows: Row[] = [
  {
    name: 'exec',
    items: [
      userMessage('[[exec]]'),
      message('Let me check the directory.'),
      byCodex(
        call(
          'call_000023dbbce59c',
          'commandExecution',
          JSON.stringify({
            command: `/bin/bash -lc "${COMMAND.replaceAll('\\', '\\\\')}"`,
            cwd: '/workspace/ws',
          }),
        ),
      ),
      byCodex(output('call_000023dbbce59c', PRINTED)),
      message('The command printed two lines.'),
    ],
    ending: finished('stop', 'completed', used(460, 52, 40)),
  },
  {
    name: 'disconnect',
    items: [
      userMessage('[[disconnect]]'),
      { ...message(LOST), cancelled: { reason: 'attempt_reset' } },
      message('Second attempt text, complete this time.'),
    ],
    ending: finished('stop', 'completed', used(111, 8, 20)),
  },
  {
    name: 'gateway-disconnect',
    items: [{ ...message(LOST), error: { code: 'UPSTREAM_TRUNCATED', message: DISCONNECTED } }],
    ending: failed('UPSTREAM_TRUNCATED', DISCONNECTED),
  },
  {
    name: 'gateway-http429',
    items: [],
    ending: failed('HTTP_429', 'exceeded retry limit, last status: 429 Too Many Requests'),
  },
  {
    name: 'gateway-incomplete',
    items: [message('This answer was cut because')],
    ending: finished('length', 'max_output_tokens', used(10, 5, 0)),
  },
  {
    name: 'gateway-no-usage',
    items: [message('No usage object here.')],
    ending: finished('stop', 'completed'),
  },
  {
    name: 'gateway-reasoning',
    items: [reasoning(THOUGHTS), message('The answer is 42.')],
    ending: finished('stop', 'completed', used(150, 64, 20, 48)),
  },
  {
    name: 'gateway-refusal',
    items: [message('')],
    ending: finished('stop', 'completed', used(120, 30, 20)),
  },
  {
    name: 'gateway-tool',
    items: [
      message('I will look up the weather.'),
      call(
        'call_00002774f8e2bc',
        'get_weather',
        '{"city":"Paris","unit":"celsius","note":"emoji 🌦️ and \\"quotes\\""}',
      ),
    ],
    ending: finished('tool_calls', 'interrupted', used(180, 33, 20)),
  },
  {
    name: 'gateway-tools-parallel',
    items: [
      call('call_00002b518c6936', 'get_weather', '{"city":"Paris"}'),
      call('call_00002d3d9bb43c', 'get_time', '{"tz":"Europe/Paris"}'),
    ],
    ending: finished('tool_calls', 'interrupted', used(190, 44, 20)),
  },
  {
    name: 'legacy-v0.50.0-v1-text',
    items: [userMessage('[[text]]'), message(HELLO)],
    ending: finished('stop', 'task_complete', usedBefore(101, 19, 20)),
  },
  {
    name: 'legacy-v0.77.0-v1-exec',
    items: [
      userMessage('[[exec]]'),
      message('Let me check the directory.'),
      byCodex(
        call(
          'call_00003fb2f358b1',
          'commandExecution',
          JSON.stringify({ command: ['bash', '-lc', COMMAND], cwd: '/workspace/ws' }),
        ),
      ),
      byCodex(output('call_00003fb2f358b1', PRINTED)),
      message('The command printed two lines.'),
    ],
    ending: finished('stop', 'task_complete', usedBefore(460, 52, 40)),
  },
  {
    name: 'legacy-v0.107.0-v1-failedmid',
    items: [
      userMessage('[[failedmid]]'),
      { ...message(CUT), cancelled: { reason: 'attempt_reset' } },
      { ...message(CUT), cancelled: { reason: 'attempt_reset' } },
      { ...message(CUT), error: { code: 'server_error', message: MID_STREAM } },
    ],
    ending: failed('server_error', MID_STREAM),
  },
  {
    name: 'legacy-v0.107.0-v2-text',
    items: [userMessage('[[text]]'), message(HELLO)],
    ending: finished('stop', 'completed', usedBefore(101, 19, 20)),
  },
]

function read(name: string): Fields[] {
  const lines = readFileSync(`test/fixtures/codex/${name}.jsonl`, 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line) as Fields)
}

/** The messages of the server, without what the recorder wraps them in. */
const bare = (lines: Fields[]) =>
  lines.filter(({ dir }) => dir === 's2c').map(({ msg }) => msg as Fields)

describe.each(rows)('$name', ({ name, items, ending }) => {
  test('has the recorded items and outcome', () => {
    const [response, ...others] = responsesOf(translate(read(name)))
    expect(others).toEqual([])
    expect(response?.output_items.map(plain)).toEqual(items)
    const { status, finish_reason, provider_finish_reason, error, usage } = response ?? {}
    expect({ status, finish_reason, provider_finish_reason, error, usage }).toMatchObject(ending)
  })

  test('streams every model text once', () => {
    const payloads = translate(read(name))
    const messages = items.filter(({ type, origin }) => type === 'message' && origin === 'agent')
    const streamed = payloads.flatMap((payload) => {
      if (payload.type !== 'item_start' || payload.item_type !== 'message') return []
      if (payload.origin === 'user') return []
      const deltas = payloads.filter((each) => each.type === 'item_delta')
      const own = deltas.filter(({ item_id }) => item_id === payload.item_id)
      return [own.map(({ delta_content }) => delta_content).join('')]
    })
    expect(streamed).toEqual(messages.map(({ content }) => content))
  })

  test("is the same without the recorder's wrapper", () => {
    expect(translate(bare(read(name)))).toEqual(translate(read(name)))
  })

  test('contains no unknown messages', () => {
    const told: string[] = []
    translate(read(name), { onUnknown: (type) => told.push(type) })
    expect(told).toEqual([])
  })
})

test('the model is the one the thread was opened with', () => {
  expect(responsesOf(translate(read('exec')))[0]?.model_id).toBe('gpt-5.5')
  expect(responsesOf(translate(read('gateway-tool')))[0]?.model_id).toBe('proxy-model')
  expect(responsesOf(translate(read('legacy-v0.50.0-v1-text')))[0]?.model_id).toBe('gpt-5')
})

test('encrypted reasoning is kept with the reasoning', () => {
  const [response] = responsesOf(translate(read('gateway-reasoning')))
  expect(response?.output_items[0]?.provider_metadata).toEqual({
    codex: { id: 'rs_000006b8239b3d', encrypted_content: 'ZmFrZQ==' },
  })
})
