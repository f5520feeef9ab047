/** Servers of the Messages API: our own, and the same with one fault each. */
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../../../test/case-count.ts'
import {
  judgeMessages,
  type MessagesRecord,
  messagesTester,
  recordMessages,
} from '../../../../../conformance/src/endpoint/messages-checks.ts'
import {
  MESSAGES_RULES,
  messagesModelsFault,
} from '../../../../../conformance/src/endpoint/messages-rules.ts'
import { decodeEvents } from '../../../../../conformance/src/endpoint/recording.ts'
import { PATIENCE } from '../support.ts'
import { capableGateway, endpointAt, MODEL } from './capable-gateway.ts'
import { withEvents, withHead, withStatus, withText } from './edits.ts'
import { PLANTED_MESSAGES } from './planted-messages.ts'

let once: Promise<MessagesRecord> | undefined

/** What a gateway answers. It is asked once. */
function recorded(): Promise<MessagesRecord> {
  once ??= capableGateway().then(({ url }) =>
    recordMessages(messagesTester(endpointAt(url, 'messages'), MODEL)),
  )
  return once
}

describe('the Messages API', PATIENCE, () => {
  test('of our gateway passes all checks', async () => {
    const checks = judgeMessages(await recorded())
    expect(checks.filter(({ verdict }) => verdict !== 'ok')).toEqual([])
  })

  test.each(PLANTED_MESSAGES)('with $fault fails $fails', async ({ change, fails }) => {
    const record = await recorded()
    const checks = judgeMessages({ ...record, ...change(record) })
    const failed = checks.filter(({ verdict }) => verdict === 'fail')
    expect(failed.map(({ name }) => name)).toEqual(fails)
    for (const { found, expected } of failed) expect([found, expected]).not.toContain('')
  })

  test('has a fault for each of its checks', async () => {
    const names = judgeMessages(await recorded()).map(({ name }) => name)
    const planted = new Set(PLANTED_MESSAGES.flatMap(({ fails }) => fails))
    const measured = ['tool call', 'first token', 'speed', 'pace']
    expect(names.filter((name) => !planted.has(name))).toEqual(measured)
  })

  test('need not count tokens, join, or break off, and is warned of a model without tools', async () => {
    const record = await recorded()
    const { joined, count, tool } = record
    const checks = judgeMessages({
      ...record,
      tool: withHead(tool, { status: 400 }),
      count: withStatus(count, 404),
      joined: joined && { ...joined, message: withStatus(joined.message, 404) },
      broken: undefined,
    })
    const others = checks.filter(({ verdict }) => verdict !== 'ok')
    expect(others.map(({ name, verdict }) => [name, verdict])).toEqual([
      ['tool call', 'warn'],
      ['count tokens', 'skipped'],
      ['join', 'skipped'],
      ['truncation', 'skipped'],
    ])
  })

  test('may send comments and pings', async () => {
    const record = await recorded()
    const beats = '\n\n: alive\n\nevent: ping\ndata: {"type":"ping"}\n\n'
    const text = withText(record.text, (sse) => `: alive\n\n${sse.replaceAll('\n\n', beats)}`)
    const checks = judgeMessages({ ...record, text })
    expect(checks.filter(({ verdict }) => verdict !== 'ok')).toEqual([])
  })
})

describe('a list of models', () => {
  const model = { type: 'model', id: 'a', display_name: 'A', created_at: '2026-01-01T00:00:00Z' }
  const list = { data: [model], has_more: false, first_id: 'a', last_id: 'a' }

  test.each([
    [list, true],
    [{ data: [], has_more: false, first_id: null, last_id: null }, true],
    [{ ...list, data: [{ ...model, type: undefined }] }, false],
    [{ ...list, first_id: null }, false],
    [{ object: 'list', data: [{ id: 'a', object: 'model' }] }, false],
    [{}, false],
  ])('%j: %s', (body, isFine) => {
    const fault = messagesModelsFault({ status: 200, body: JSON.stringify(body) })
    expect(fault === undefined).toBe(isFine)
  })
})

function brokenBy(bytes: Uint8Array): string[] {
  const head = { about: '', status: 200, contentType: 'text/event-stream' }
  const stream = decodeEvents({ ...head, ending: 'closed', reads: [{ atMs: 0, bytes }] })
  return MESSAGES_RULES.filter(([, , rule]) => rule(stream) !== undefined).map(([name]) => name)
}

/** What Anthropic sends breaks no rule, and what its stream may become on the way does. */
test.each([
  ['text', []],
  ['thinking', []],
  ['tool-call', []],
  ['tool-calls-parallel', []],
  ['tool-call-max-tokens', []],
  ['server-tools', []],
  ['pause-turn', []],
  ['refusal', []],
  ['tool-calls-end-turn', ['stop reason']],
  ['error-overloaded', ['stream errors']],
  ['truncated-in-text', ['stream end']],
  ['malformed-index', ['stream blocks']],
])('the fixture %s breaks %j', (name, rules) => {
  expect(brokenBy(readFileSync(`test/fixtures/anthropic-messages/${name}.sse`))).toEqual(rules)
})

test('no check throws on arbitrary events', PATIENCE, async () => {
  const record = await recorded()
  const value = fc.oneof(fc.constantFrom(null, '', 0, 1, {}, [], 'tool_use'), fc.jsonValue())
  const types = fc.constantFrom(
    'message_start',
    'content_block_start',
    'content_block_delta',
    'content_block_stop',
    'message_delta',
    'message_stop',
    'ping',
    'error',
  )
  const object = fc.record(
    { id: value, type: value, input: value, text: value, stop_reason: value, partial_json: value },
    { requiredKeys: [] },
  )
  const part = fc.oneof(value, object)
  const event = fc.record(
    { type: types, index: value, delta: part, content_block: part, message: part, usage: value },
    { requiredKeys: ['type'] },
  )
  fc.assert(
    fc.property(fc.array(event, { maxLength: 8 }), (events) => {
      const stream = withEvents(record.text, () => events, false)
      const joined = record.joined && { ...record.joined, stream }
      judgeMessages({ ...record, text: stream, tool: stream, broken: stream, joined })
    }),
    { numRuns: caseCount(300) },
  )
})
