import { describe, expect, test } from 'vitest'
import { KeyRing } from '../../../src/server.ts'
import { ACME, entry, withKey } from '../auth/support.ts'
import { call, finishedTurn, startServer } from '../support.ts'
import { idle, scrape } from './support.ts'

const OPERATOR = 'ts_the-key-of-the-operator'

function keyedServer() {
  const keys = new KeyRing([entry(ACME), entry(OPERATOR, 'default', 'prometheus')])
  return startServer({ keys })
}

describe('W8 with keys, the metrics', () => {
  test('are available to a key of the tenant default, for all tenants', async () => {
    const server = await keyedServer()
    await call(server, 'POST /api/v2/submit', { body: { prompt: 'Hi' }, headers: withKey(ACME) })
    await idle(server)
    const samples = await scrape(server, withKey(OPERATOR))
    const labels = 'tenant="acme",provider="plain",model="m",direction="output"'
    expect(samples.get(`turnstream_tokens_total{${labels}}`)).toBe(4)
  })

  test('look like an unknown path to other tenants', async () => {
    const server = await keyedServer()
    const headers = withKey(ACME)
    const told = await call(server, 'GET /metrics', { headers })
    const toldOfNothing = await call(server, 'GET /nothing', { headers })
    expect([told.status, told.json.error.code]).toEqual([404, 'ROUTE_UNKNOWN'])
    expect(told.json.error.message.replace('/metrics', '/nothing')).toBe(
      toldOfNothing.json.error.message,
    )
    expect((await fetch(`${server.url}/metrics`, { method: 'HEAD', headers })).status).toBe(404)
  })

  test.each([
    ['no key', {}, 'KEY_REQUIRED'],
    ['a wrong one', withKey('ts_wrong'), 'KEY_INVALID'],
  ])('with %s are 401', async (_name, headers, code) => {
    const { status, json } = await call(await keyedServer(), 'GET /metrics', { headers })
    expect([status, json.error.code]).toEqual([401, code])
  })

  test('do not accept a stream token', async () => {
    const server = await keyedServer()
    const headers = withKey(OPERATOR)
    await call(server, 'POST /api/v2/threads', { headers, body: { threadId: 'a' } })
    const body = { threadId: 'a' }
    const { json } = await call(server, 'POST /api/v2/stream-tokens', { headers, body })
    expect((await call(server, `GET /metrics?token=${json.token}`)).status).toBe(401)
  })

  test('are available although they are disabled for clients without keys', async () => {
    const keys = new KeyRing([entry(OPERATOR, 'default')])
    const server = await startServer({ keys, openMetrics: false })
    expect((await call(server, 'GET /metrics', { headers: withKey(OPERATOR) })).status).toBe(200)
  })
})

describe('without keys, the metrics', () => {
  test('are public, also for HEAD', async () => {
    const server = await startServer()
    await finishedTurn(server)
    expect((await call(server, 'GET /metrics')).status).toBe(200)
    const head = await fetch(`${server.url}/metrics`, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
  })

  test('W8 can be disabled', async () => {
    const { status, json } = await call(await startServer({ openMetrics: false }), 'GET /metrics')
    expect([status, json.error.code]).toEqual([404, 'ROUTE_UNKNOWN'])
  })
})
