/** A turn holds its request until it ends: large ones count against the memory of their key. */
import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { fakeClock } from '../../../../conformance/src/index.ts'
import type { GatewayEnv } from '../../../src/server/context.ts'
import { KeyLimits } from '../../../src/server/limits/key-limits.ts'
import { Reattachment } from '../../../src/server/reattachment.ts'
import { boundedBody } from '../../../src/server/request-body.ts'
import { ACME, guardedServer, OTHER, withKey } from '../auth/support.ts'
import { ask } from '../reattach-support.ts'
import { sealed, type TestServer } from '../support.ts'
import { UNLIMITED } from '../unlimited.ts'

const KB = 1024
const LIMIT = 500 * KB

const DOORS = {
  chat: (content: string) => ({
    path: '/v1/chat/completions',
    body: { model: 'held/m', stream: true, messages: [{ role: 'user', content }] },
  }),
  responses: (content: string) => ({
    path: '/v1/responses',
    body: { model: 'held/m', stream: true, input: content },
  }),
  messages: (content: string) => ({
    path: '/v1/messages',
    body: { model: 'held/m', max_tokens: 9, stream: true, messages: [{ role: 'user', content }] },
  }),
  submit: (prompt: string) => ({ path: '/api/v2/submit', body: { model: 'held/m', prompt } }),
}

function startGuarded(): Promise<TestServer> {
  return guardedServer({ limits: { ...UNLIMITED, maxUnsentBytes: LIMIT } })
}

describe.each(Object.entries(DOORS))('%s', (_name, request) => {
  let sent = 0

  /** Sends a request of this many kilobytes, each with another text. */
  async function send(server: TestServer, kilobytes: number, key = ACME) {
    sent += 1
    const text = `${sent} `.padEnd(kilobytes * KB, 'x')
    return ask(server, { ...request(text), headers: withKey(key) })
  }

  async function start(server: TestServer, kilobytes: number, key?: string) {
    const next = server.held.nextCall()
    const wire = await send(server, kilobytes, key)
    const call = await next
    call.say('Hi')
    await wire.until('\r\n\r\n')
    expect(wire.status).toBeLessThan(300)
    return call
  }

  test('is refused while running turns hold too much, until one of them ends', async () => {
    const server = await startGuarded()
    const call = await start(server, 300)
    const refused = await send(server, 300)
    await refused.until('\r\n\r\n')
    expect([refused.status, refused.header('retry-after')]).toEqual([429, '5'])
    await start(server, 60)
    await start(server, 300, OTHER)
    call.finish()
    await sealed(server.log.ofTenant?.('acme') ?? server.log, call.runId)
    await eventually(async () => {
      void server.held.nextCall().then((next) => next.say('Hi'))
      const wire = await send(server, 300)
      await wire.until('\r\n\r\n')
      expect(wire.status).toBeLessThan(300)
    })
    expect(server.errors).toEqual([])
  })

  test('does not hinder the readers of its key', async () => {
    const server = await startGuarded()
    const { runId } = await start(server, 700)
    const wire = await ask(server, { ...request('small'), headers: withKey(ACME) })
    const path = `${server.url}/api/v2/runs/${runId}`
    expect((await fetch(path, { headers: withKey(ACME) })).status).toBe(200)
    wire.close()
  })
})

test('an invalid request is held no longer than it takes to refuse it', async () => {
  const server = await startGuarded()
  for (let count = 0; count < 3; count++) {
    const body = JSON.stringify({ messages: 5, padding: 'x'.repeat(300 * KB) })
    const wire = await ask(server, { body, headers: withKey(ACME) })
    await wire.until('\r\n\r\n')
    expect(wire.status).toBe(400)
  }
})

test('the text of a request is not kept while its answer is streamed', async () => {
  const clock = fakeClock()
  const limits = new KeyLimits(UNLIMITED, clock)
  const metrics = { reattached: () => {} }
  const reattachment = new Reattachment({ keepMs: 0, clock, metrics, onError: () => {} })
  const bounds = { maxBodyBytes: KB, maxVendorBodyBytes: KB }
  let kept: object = {}
  const app = new Hono<GatewayEnv>()
    .use(async (c, next) => {
      c.set('caller', { tenant: 'acme', key: 'web' })
      await next()
    })
    .use(boundedBody(bounds, limits, reattachment))
    .post('/api/v2/submit', async (c) => {
      expect(await c.req.json()).toEqual({ prompt: 'Hi' })
      kept = c.req
      return c.body(new ReadableStream())
    })
  const headers = { 'content-type': 'application/json' }
  await app.request('/api/v2/submit', { method: 'POST', headers, body: '{"prompt":"Hi"}' })
  expect(kept).toMatchObject({ bodyCache: {} })
  expect(kept).not.toHaveProperty('bodyCache.text')
})
