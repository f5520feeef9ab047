import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import type { RequestFacts, TurnFacts, TurnOutcome } from '../../../src/server.ts'
import { sendRaw } from '../raw-http.ts'
import { UnreadableLog } from '../streams/faulty-logs.ts'
import { call, finishedTurn, startServer } from '../support.ts'
import { parseExposition } from './exposition.ts'
import { idle, scrape } from './support.ts'

test('onRequest and onTurn are notified of requests and turns', async () => {
  const requests: RequestFacts[] = []
  const turns: [TurnFacts, TurnOutcome | undefined][] = []
  const server = await startServer({
    onRequest: (request) => requests.push(request),
    onTurn: (turn, outcome) => turns.push([turn, outcome]),
  })
  const { turnId, threadId, runId } = await finishedTurn(server)
  await idle(server)
  await call(server, `GET /api/v2/runs/${runId}`)
  await call(server, `GET /xapi/turns/${turnId}`)
  await call(server, 'GET /api/v2/runs/no-such-run')
  const known = requests.filter(({ route }) => route !== '/openapi.json')
  expect(known.map(({ route, status, code, turnId: of }) => [route, status, code, of])).toEqual([
    ['/api/v2/submit', 202, undefined, turnId],
    ['/api/v2/runs/:runId', 200, undefined, turnId],
    ['/xapi/turns/:turnId', 200, undefined, turnId],
    ['/api/v2/runs/:runId', 404, 'TURN_UNKNOWN', undefined],
  ])
  const facts = { turnId, threadId, tenant: 'default', provider: 'plain', model: 'm' }
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
  expect(turns).toEqual([
    [facts, undefined],
    [facts, { status: 'completed', durationMs: expect.any(Number), usage }],
  ])
})

test('a listener that throws affects neither responses nor turns nor counts', async () => {
  const fail = (): never => {
    throw new Error('the listener is broken')
  }
  const server = await startServer({ onRequest: fail, onTurn: fail })
  const { turnId } = await finishedTurn(server)
  await idle(server)
  expect((await server.log.getTurn(turnId))?.status).toBe('complete')
  const samples = await scrape(server)
  expect(samples.get('turnstream_turns_ended_total{status="completed",code=""}')).toBe(1)
  expect(server.errors).toEqual([])
})

test('onError may throw: responses keep their codes, and streams are cut', async () => {
  const fail = (): never => {
    throw new Error('the listener is broken')
  }
  const server = await startServer({ log: new UnreadableLog(), onError: fail })
  const { json } = await call(server, 'POST /api/v2/submit', { body: { prompt: 'Hi' } })
  const read = await call(server, `GET /api/v2/runs/${json.runId}`)
  expect([read.status, read.json.error.code]).toEqual([503, 'STORE_UNAVAILABLE'])
  const stream = await fetch(`${server.url}/xapi/turns/${json.turnId}/stream`)
  await expect(stream.text()).rejects.toThrow('terminated')
})

test.each([
  ['REQUEST_INVALID', 'no HTTP\r\n\r\n'],
  ['HEADERS_TOO_LARGE', `GET /healthz HTTP/1.1\r\nhost: a\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`],
  ['URL_TOO_LONG', `GET /${'y'.repeat(9000)} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`],
])('%s is counted even when no route is reached', async (code, bytes) => {
  const server = await startServer()
  expect((await sendRaw(server.url, bytes)).body).toContain(code)
  const samples = await scrape(server)
  expect(samples.get(`turnstream_http_refusals_total{code="${code}"}`)).toBe(1)
})

test('a refused connection is counted', async () => {
  const server = await startServer({ port: { maxConnections: 1 } })
  const { hostname, port } = new URL(server.url)
  const first = connect(Number(port), hostname)
  onTestFinished(() => {
    first.destroy()
  })
  await once(first, 'connect')
  expect((await sendRaw(server.url)).status).toBe(503)
  // Not through the port, which is full.
  const text = await (await server.gateway.app.request('/metrics')).text()
  const { samples } = parseExposition(text)
  const series = 'turnstream_http_refusals_total{code="CONNECTIONS_LIMITED"}'
  expect(samples.get(series)).toBeGreaterThan(0)
})

test('the event loop is measured only between the first scrape and the close', async () => {
  const server = await startServer()
  await scrape(server)
  await server.close()
  // The app can still be asked where it is not behind a port.
  const text = await (await server.gateway.app.request('/metrics')).text()
  expect(text).toContain('turnstream_event_loop_delay_seconds{statistic="max"}')
})
