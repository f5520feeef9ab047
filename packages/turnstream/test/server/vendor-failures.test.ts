/** What a turn says when its provider fails, which is a real server that a test tells what to do. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { createOpenaiChatProvider, type TimeLimits } from '../../src/index.ts'
import { STOP, TEXT } from '../providers/http-support.ts'
import { sse, startVendor, type Answer as VendorAnswer } from '../providers/vendor-server.ts'
import { call, sealed, startServer } from './support.ts'

async function runWith(answer: VendorAnswer, timeLimits: Partial<TimeLimits> = {}) {
  const vendor = await startVendor(answer)
  onTestFinished(() => vendor.close())
  const provider = createOpenaiChatProvider({
    id: 'vendor',
    apiKey: 'sk-secret',
    baseUrl: vendor.url,
    maxRetries: 0,
    timeLimits,
  })
  const server = await startServer({ more: [provider] })
  const body = { prompt: 'Hi', model: 'vendor/gpt', turnId: 'turn' }
  const submitted = await call(server, 'POST /api/v2/submit', { body })
  await sealed(server.log, 'turn')
  const run = await call(server, 'GET /api/v2/runs/turn')
  const turn = await call(server, 'GET /xapi/turns/turn')
  return { server, vendor, submitted, run: run.json, turn: turn.json }
}

const status =
  (code: number): VendorAnswer =>
  (response) => {
    response.writeHead(code, { 'content-type': 'application/json' })
    response.end('{"error":{"message":"no"}}')
  }

const page: VendorAnswer = (response) => {
  response.writeHead(200, { 'content-type': 'text/html' })
  response.end('<html>')
}

const open: VendorAnswer = (response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(`data: ${TEXT}\n\n`)
}

const silent: VendorAnswer = () => {}
const broken: VendorAnswer = (response) => void response.destroy()

interface Row {
  answer: VendorAnswer
  code: string
  /** What was said before it failed. */
  text?: string
  limits?: Partial<TimeLimits>
}

const FAILURES: Record<string, Row> = {
  '401': { answer: status(401), code: 'HTTP_401' },
  '403': { answer: status(403), code: 'HTTP_403' },
  '404': { answer: status(404), code: 'HTTP_404' },
  '429': { answer: status(429), code: 'HTTP_429' },
  '500': { answer: status(500), code: 'HTTP_500' },
  '529': { answer: status(529), code: 'HTTP_529' },
  'a page of HTML': { answer: page, code: 'UPSTREAM_MALFORMED' },
  'nothing at all': { answer: silent, code: 'UPSTREAM_TIMEOUT', limits: { firstEventMs: 50 } },
  'silence after an event': {
    answer: open,
    code: 'UPSTREAM_TIMEOUT',
    text: 'Hello',
    limits: { betweenEventsMs: 100 },
  },
  'an end without an end': { answer: sse(TEXT), code: 'UPSTREAM_TRUNCATED', text: 'Hello' },
  'a socket that breaks': { answer: broken, code: 'UPSTREAM_UNREACHABLE' },
  noise: { answer: sse(TEXT, 'noise'), code: 'UPSTREAM_MALFORMED', text: 'Hello' },
}

describe('a provider that answers with', () => {
  test.each(Object.entries(FAILURES))('%s', async (_name, row) => {
    const { answer, code, text = '', limits } = row
    const { server, submitted, run, turn } = await runWith(answer, limits)
    // A turn that is durable was accepted, whatever becomes of it.
    expect(submitted.status).toBe(202)
    expect(run).toMatchObject({ status: 'error', error: { code } })
    const content = run.output_items.at(-1)
    expect(content.origin === 'agent' ? content.content : '').toBe(text)
    expect(turn.sealed).toBe(true)
    expect(turn.outputs.at(-1)).toMatchObject({ type: 'turn_error', error: run.error })
    expect(JSON.stringify([run, turn])).not.toContain('sk-secret')
    const thread = await call(server, `GET /api/v2/threads/${run.thread_id}`)
    expect(thread.json.turns).toMatchObject([{ status: 'error', sealed: true, error: run.error }])
  })

  test('a correct stream is complete', async () => {
    const { run, vendor } = await runWith(sse(TEXT, STOP))
    expect(run).toMatchObject({ status: 'complete', finish_reason: 'stop', error: null })
    expect(run.output_items.at(-1).content).toBe('Hello')
    expect(JSON.parse(vendor.bodies[0] ?? '')).toMatchObject({ model: 'gpt' })
  })
})
