/** Servers of the Responses API: our own, and the same with one fault each. */
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../../../test/case-count.ts'
import { decodeEvents } from '../../../../../conformance/src/endpoint/recording.ts'
import { ResponsesTester } from '../../../../../conformance/src/endpoint/responses-checks.ts'
import {
  judgeResponses,
  type ResponsesRecord,
} from '../../../../../conformance/src/endpoint/responses-judge.ts'
import { RESPONSES_RULES } from '../../../../../conformance/src/endpoint/responses-rules.ts'
import { PATIENCE } from '../support.ts'
import { capableGateway, endpointAt, MODEL } from './capable-gateway.ts'
import { withEvents, withHead, withText } from './edits.ts'
import { NOT_OFFERED, PLANTED_RESPONSES } from './planted-responses.ts'

let once: Promise<ResponsesRecord> | undefined

/** What a gateway answers. It is asked once. */
function recorded(): Promise<ResponsesRecord> {
  once ??= capableGateway().then(({ url }) =>
    new ResponsesTester(endpointAt(url, 'responses'), MODEL).recordAll(),
  )
  return once
}

describe('the Responses API', PATIENCE, () => {
  test('of our gateway passes all checks', async () => {
    const checks = judgeResponses(await recorded())
    expect(checks.filter(({ verdict }) => verdict !== 'ok')).toEqual([])
    const found = Object.fromEntries(checks.map((check) => [check.name, check.found]))
    expect(found['cancel']).toBe('cancelled, also the second time, with one end')
    expect(found['background']).toBe('queued, then completed')
    expect(found['resume live']).toMatch(/^[1-9]\d* events, then \d+$/)
    expect(found['resume']).toMatch(/^after \d{2} numbers$/)
  })

  test.each(PLANTED_RESPONSES)('with $fault fails $fails', async ({ change, fails }) => {
    const record = await recorded()
    const checks = judgeResponses({ ...record, ...change(record) })
    const failed = checks.filter(({ verdict }) => verdict === 'fail')
    expect(failed.map(({ name }) => name)).toEqual(fails)
    for (const { found, expected } of failed) expect([found, expected]).not.toContain('')
  })

  test('has a fault for each of its checks', async () => {
    const record = await recorded()
    const names = judgeResponses(record).map(({ name }) => name)
    const planted = new Set(PLANTED_RESPONSES.flatMap(({ fails }) => fails))
    const measured = ['stream done', 'first token', 'speed', 'pace']
    expect(names.filter((name) => !planted.has(name))).toEqual(measured)
  })

  test.each(NOT_OFFERED)('of $fault skips $skips', async ({ change, skips }) => {
    const record = await recorded()
    const checks = judgeResponses({ ...record, ...change(record) })
    const others = checks.filter(({ verdict }) => verdict !== 'ok')
    expect(others.map(({ name, verdict }) => [name, verdict])).toEqual(
      names(checks)
        .filter((name) => skips.includes(name))
        .map((name) => [name, 'skipped']),
    )
  })

  test.each([
    [
      'no [DONE]',
      (record: ResponsesRecord) => ({
        text: withText(record.text, (sse) => sse.replace('data: [DONE]\n\n', '')),
      }),
      ['stream done'],
    ],
    [
      'no tools',
      (record: ResponsesRecord) => ({ tool: withHead(record.tool, { status: 400 }) }),
      ['tool call'],
    ],
  ])('with %s is warned of', async (_what, change, warned) => {
    const record = await recorded()
    const checks = judgeResponses({ ...record, ...change(record) })
    const others = checks.filter(({ verdict }) => verdict !== 'ok')
    expect(others.map(({ name, verdict }) => [name, verdict])).toEqual(
      warned.map((name) => [name, 'warn']),
    )
  })

  test.each([
    ['comments', (sse: string) => `: alive\n\n${sse.replaceAll('\n\n', '\n\n: alive\n\n')}`],
    [
      'keepalive events that repeat the last number',
      (sse: string) =>
        sse.replace(
          /("sequence_number":3[^0-9].*\n\n)/,
          '$1event: keepalive\ndata: {"type":"keepalive","sequence_number":3}\n\n',
        ),
    ],
    ['CRLF', (sse: string) => sse.replaceAll('\n', '\r\n')],
  ])('may send %s', async (_what, change) => {
    const record = await recorded()
    const text = withText(record.text, change)
    expect(text).not.toEqual(record.text)
    const checks = judgeResponses({ ...record, text })
    expect(checks.filter(({ verdict }) => verdict !== 'ok')).toEqual([])
  })
})

function names(checks: readonly { readonly name: string }[]): string[] {
  return checks.map(({ name }) => name)
}

function brokenBy(bytes: Uint8Array): string[] {
  const head = { about: '', status: 200, contentType: 'text/event-stream' }
  const stream = decodeEvents({ ...head, ending: 'closed', reads: [{ atMs: 0, bytes }] })
  const broken = RESPONSES_RULES.filter(([, , rule]) => rule(stream) !== undefined)
  // The fixtures have only some members.
  return broken.map(([name]) => name).filter((name) => name !== 'response members')
}

/** What OpenAI sends breaks no rule, and what its stream may become on the way does. */
test.each([
  ['text', []],
  ['text-citations', []],
  ['text-two-parts', []],
  ['tool-call', []],
  ['tool-call-whole', []],
  ['tool-calls-parallel', []],
  ['custom-tool-call', []],
  ['reasoning-text', []],
  ['reasoning-summary', []],
  ['refusal', []],
  ['web-search', []],
  ['code-interpreter', []],
  ['incomplete-length', []],
  ['incomplete-in-tool-call', []],
  ['failed', ['stream errors']],
  ['truncated-in-text', ['stream terminal']],
  ['unknown-types', ['stream types', 'stream order']],
])('the fixture %s breaks %j', (name, rules) => {
  expect(brokenBy(readFileSync(`test/fixtures/openai-responses/${name}.sse`))).toEqual(rules)
})

test('no check throws on arbitrary events', async () => {
  const record = await recorded()
  const value = fc.oneof(fc.constantFrom(null, '', 0, 1, {}, [], 'completed'), fc.jsonValue())
  const types = fc.constantFrom(
    'response.created',
    'response.output_item.added',
    'response.output_item.done',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.done',
    'response.function_call_arguments.done',
    'response.completed',
    'keepalive',
    'error',
  )
  const object = fc.record(
    {
      id: value,
      type: value,
      status: value,
      output: value,
      content: value,
      usage: value,
      text: value,
    },
    { requiredKeys: [] },
  )
  const event = fc.record(
    {
      type: types,
      sequence_number: value,
      output_index: fc.oneof(fc.nat(2), value),
      content_index: value,
      item_id: value,
      delta: value,
      part: fc.oneof(value, object),
      item: fc.oneof(value, object),
      response: fc.oneof(value, object),
    },
    { requiredKeys: ['type'] },
  )
  fc.assert(
    fc.property(fc.array(event, { maxLength: 8 }), (events) => {
      const stream = withEvents(record.text, () => events, false)
      const resume = record.resume && { ...record.resume, whole: stream, rest: stream }
      const cancel = record.cancel && { ...record.cancel, replay: stream }
      judgeResponses({ ...record, text: stream, tool: stream, broken: stream, resume, cancel })
    }),
    { numRuns: caseCount(300) },
  )
}, 60_000)
