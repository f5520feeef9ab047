/** The rules over recorded streams: what vendors and our own encoder have sent, wherever it is cut. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../../../test/case-count.ts'
import { root } from '../../../../../../test/repository/sources.ts'
import {
  callsOf,
  measurements,
  parallelFault,
  refusalFault,
  STREAM_RULES,
  TOOL_RULES,
  textFault,
  usageFault,
} from '../../../../../conformance/src/endpoint/chat-rules.ts'
import {
  decodeEvents,
  type StreamRecording,
} from '../../../../../conformance/src/endpoint/recording.ts'

function recordingOf(bytes: Uint8Array, cuts: readonly number[] = []): StreamRecording {
  const places = [0, ...cuts.toSorted((a, b) => a - b), bytes.length]
  return {
    about: 'a test',
    asksUsage: true,
    status: 200,
    contentType: 'text/event-stream',
    reads: places
      .slice(1)
      .map((end, at) => ({ atMs: at * 10, bytes: bytes.subarray(places[at], end) })),
    ending: 'closed',
  }
}

/** The names of the rules that a recording breaks. */
function brokenBy(recording: StreamRecording): string[] {
  const stream = decodeEvents(recording)
  const toolRules = [
    ...TOOL_RULES.map(([name, , rule]) => [name, rule] as const),
    ['parallel calls', parallelFault] as const,
  ]
  const rules = [
    ...STREAM_RULES.map(([name, , rule]) => [name, rule] as const),
    ...(callsOf(stream).length > 0 ? toolRules : []),
  ]
  return rules.filter(([, rule]) => rule(stream) !== undefined).map(([name]) => name)
}

function fixture(name: string): Uint8Array {
  return readFileSync(join(root, 'test/fixtures/openai-chat', `${name}.sse`))
}

/** What servers were seen to send, and which rules that breaks. */
const SEEN: Record<string, string[]> = {
  text: [],
  'tool-call': [],
  'text-then-tool-call': [],
  'parallel-calls-interleaved': [],
  'reasoning-content': [],
  'reasoning-openrouter': [],
  refusal: [],
  length: [],
  'content-filter': [],
  'call-arguments-as-object': ['tool arguments'],
  'call-id-wins-over-index': ['tool index'],
  'call-name-comes-late': ['tool call'],
  'call-without-arguments': ['tool arguments'],
  'calls-share-one-index': ['parallel calls'],
  'calls-without-id': ['tool call'],
  'calls-without-index': ['tool index'],
  'custom-tool': ['tool call', 'tool arguments'],
  'done-without-finish': ['stream finish'],
  'error-first': ['stream errors'],
  'error-in-a-call': ['stream errors'],
  'error-with-empty-choices': ['stream errors'],
  'finish-in-the-middle': ['stream finish'],
  'finish-is-error': ['stream finish'],
  'no-done': ['stream done'],
  'second-choice-is-ignored': ['stream index', 'stream finish'],
  'stop-with-calls': ['tool finish'],
  'truncated-after-role': ['stream finish'],
  'truncated-arguments': ['stream finish'],
  'truncated-text': ['stream finish'],
  'two-responses': ['stream done'],
  'unknown-finish': ['stream finish'],
}

describe('recorded servers', () => {
  test.each(Object.entries(SEEN))('%s breaks %j', (name, rules) => {
    expect(brokenBy(recordingOf(fixture(name)))).toEqual(rules)
  })

  test('break the same rules however the bytes are chunked', () => {
    for (const name of Object.keys(SEEN)) {
      const bytes = fixture(name)
      const expected = brokenBy(recordingOf(bytes))
      const cuts = fc.array(fc.nat(bytes.length), { maxLength: 20 })
      fc.assert(
        fc.property(cuts, (places) => {
          expect(brokenBy(recordingOf(bytes, places))).toEqual(expected)
        }),
        { numRuns: caseCount(20) },
      )
    }
  })
})

test.each(['text', 'reasoning-and-usage', 'tool-calls', 'calls-of-the-server'])(
  'our own encoder breaks no rule: %s',
  (name) => {
    const file = join(root, 'packages/core/test/formats/chat-completions/goldens', `${name}.sse`)
    expect(brokenBy(recordingOf(readFileSync(file)))).toEqual([])
  },
)

test('no rule throws on arbitrary bytes', () => {
  const json = fc.json({ maxDepth: 4 })
  const event = fc.oneof(json, fc.string(), fc.constant('[DONE]'))
  fc.assert(
    fc.property(fc.array(event, { maxLength: 8 }), (events) => {
      const text = events.map((data) => `data: ${data}\n\n`).join('')
      const stream = decodeEvents(recordingOf(Buffer.from(text)))
      brokenBy(stream)
      textFault(stream)
      usageFault(stream)
      measurements(stream)
    }),
    { numRuns: caseCount(300) },
  )
})

test('no rule throws on arbitrary chunks of the right shape', () => {
  const value = fc.oneof(fc.constantFrom(null, '', 'stop', 'a', 0, 1, {}, []), fc.jsonValue())
  const fragment = fc.record(
    {
      index: value,
      id: value,
      type: value,
      function: fc.oneof(value, fc.record({ name: value, arguments: value })),
    },
    { requiredKeys: [] },
  )
  const delta = fc.record(
    {
      role: value,
      content: value,
      tool_calls: fc.oneof(value, fc.array(fragment, { maxLength: 3 })),
    },
    { requiredKeys: [] },
  )
  const choice = fc.record(
    { index: value, delta: fc.oneof(value, delta), finish_reason: value },
    { requiredKeys: [] },
  )
  const chunk = fc.record(
    {
      id: value,
      object: value,
      choices: fc.oneof(value, fc.array(choice, { maxLength: 2 })),
      usage: value,
      error: value,
    },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 6 }), (chunks) => {
      const text = chunks.map((each) => `data: ${JSON.stringify(each)}\n\n`).join('')
      const stream = decodeEvents(recordingOf(Buffer.from(`${text}data: [DONE]\n\n`)))
      brokenBy(stream)
      textFault(stream)
      usageFault(stream)
      measurements(stream)
    }),
    { numRuns: caseCount(300) },
  )
})

test('a stream that ends inside an event breaks the framing rule', () => {
  const text = readFileSync(
    join(root, 'packages/core/test/formats/chat-completions/goldens/text.sse'),
    'utf8',
  )
  expect(brokenBy(recordingOf(Buffer.from(text.trimEnd())))).toEqual(['stream framing'])
})

test('named events break the framing rule', () => {
  const text = readFileSync(
    join(root, 'packages/core/test/formats/chat-completions/goldens/text.sse'),
    'utf8',
  )
  const named = text.replaceAll('data: {', 'event: chunk\ndata: {')
  expect(brokenBy(recordingOf(Buffer.from(named)))).toEqual(['stream framing'])
})

describe('an error response', () => {
  const error = JSON.stringify({ error: { message: 'no' } })

  test.each([
    [404, error, true],
    [400, error, true],
    [401, error, false],
    [200, error, false],
    [404, '{"error":"no"}', false],
    [404, '{"error":{"message":""}}', false],
    [404, 'Not Found', false],
    [404, '', false],
  ])('%i %s: %s', (status, body, isFine) => {
    expect(refusalFault({ status, body }, [404, 400]) === undefined).toBe(isFine)
  })
})

test('time to first token and speed are computed from arrival times', () => {
  const chunk = (delta: object) =>
    `data: {"choices":[{"index":0,"delta":${JSON.stringify(delta)}}]}\n\n`
  const reads = [
    [5, chunk({ role: 'assistant', content: '' })],
    [120, chunk({ content: 'a' })],
    [620, chunk({ content: 'b' })],
    [630, 'data: {"choices":[],"usage":{"completion_tokens":10}}\n\n'],
  ] as const
  const stream = decodeEvents({
    ...recordingOf(new Uint8Array()),
    reads: reads.map(([atMs, text]) => ({ atMs, bytes: Buffer.from(text) })),
  })
  expect(measurements(stream).map(({ name, found }) => [name, found])).toEqual([
    ['first token', 'after 120 ms'],
    ['speed', '20.0 tokens per second'],
    ['pace', '4 chunks in 4 reads'],
  ])
})
