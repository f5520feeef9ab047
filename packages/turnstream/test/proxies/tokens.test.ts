import { describe, expect, test, vi } from 'vitest'
import { MemoryLog } from '../../src/server.ts'
import { ACME, guardedServer, withKey } from '../server/auth/support.ts'
import type { ServerOptions } from '../server/support.ts'
import { H2Client } from './h2-client.ts'
import { startProxy } from './proxy.ts'
import { PROXIES, type ProxyName } from './recipes.ts'

const TIMEOUT = 30_000

/** Two instances on one log, a turn that waits, and six streams of it, opened with a token of one instance. */
async function openedWithToken(name: ProxyName, options: ServerOptions) {
  const log = new MemoryLog()
  const servers = [
    await guardedServer({ log, ...options }),
    await guardedServer({ log, ...options }),
  ]
  const proxy = await startProxy(name, { upstreams: servers.map(({ url }) => url) })
  const client = await H2Client.open(proxy)
  const submit = { prompt: 'Hi', providerId: 'held', turnId: 'turn' }
  expect((await client.post('/api/v2/submit', submit, withKey(ACME))).status).toBe(202)
  const made = await client.post('/api/v2/stream-tokens', { turnId: 'turn' }, withKey(ACME))
  const { token } = made.json as { token: string }
  const open = async () => {
    const reader = client.ask(`/api/v2/stream/turn?token=${token}`)
    await reader.until(({ status, text }) => status === 401 || text.includes('response_start'))
    return reader
  }
  const readers = []
  for (let each = 0; each < 6; each++) readers.push(await open())
  return { proxy, client, token, readers, open }
}

describe.each(PROXIES)('behind %s', { timeout: TIMEOUT }, (name) => {
  test('a token of one instance opens streams of the other and is not logged', async () => {
    const streamTokenSecret = 'the same secret on all of the instances'
    const { proxy, client, token, readers } = await openedWithToken(name, { streamTokenSecret })
    expect(readers.map(({ status }) => status)).toEqual(Array(6).fill(200))
    client.session.destroy()
    const lines = () => proxy.logged().split('/api/v2/stream/turn').length - 1
    await vi.waitUntil(() => lines() >= 6, { timeout: TIMEOUT, interval: 10 })
    expect(proxy.logged()).not.toContain(token)
    expect(proxy.logged()).not.toContain(ACME)
  })

  test('a token is refused by an instance with another secret', async () => {
    const { readers, open } = await openedWithToken(name, {})
    const statuses = new Set(readers.map(({ status }) => status))
    // Where the proxy chooses by chance, six may all go to the same instance.
    for (let each = 0; each < 60 && statuses.size < 2; each++) statuses.add((await open()).status)
    expect(statuses).toEqual(new Set([200, 401]))
  })

  test('access without a key is refused', async () => {
    const server = await guardedServer()
    const client = await H2Client.open(await startProxy(name, { upstreams: [server.url] }))
    const answer = client.ask('/api/v2/threads')
    await answer.ended()
    expect(answer.status).toBe(401)
    expect(answer.headers['www-authenticate']).toContain('Bearer')
    expect(answer.json).toMatchObject({ error: { code: 'KEY_REQUIRED' } })
  })
})
