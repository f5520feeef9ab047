import { describe, expect, test, vi } from 'vitest'
import { startServer } from '../server/support.ts'
import { H2Client } from './h2-client.ts'
import { type Proxy, startProxy } from './proxy.ts'
import { PROXIES, type ProxyName, replaceAll } from './recipes.ts'
import { breakOff, holdOpen, startUpstream } from './upstream.ts'

const TIMEOUT = 30_000
const SECRET = 'planted-secret'
const HEADERS = { authorization: `Bearer ${SECRET}`, 'x-api-key': SECRET, cookie: SECRET }

/** How a request can come to its end; each leaves other words in a log. */
const ENDS = {
  answered: async (proxy: Proxy) => {
    const client = await H2Client.open(proxy)
    await client.ask(`/api/v2/runs/answered?token=${SECRET}`, { headers: HEADERS }).ended()
  },
  refused: async (proxy: Proxy) => {
    const client = await H2Client.open(proxy)
    await client.ask(`/refused?token=${SECRET}`, { headers: HEADERS }).ended()
  },
  left: async (proxy: Proxy) => {
    const client = await H2Client.open(proxy)
    const reader = client.ask(`/api/v2/stream/left?token=${SECRET}`, { headers: HEADERS })
    await reader.until(({ text }) => text !== '')
    reader.reset()
  },
} satisfies Record<string, (proxy: Proxy) => Promise<void>>

/** Waits for the line of a request, which is written after its end. */
async function logged(proxy: Proxy, path: string): Promise<string> {
  return await vi.waitUntil(() => proxy.logged().includes(path) && proxy.logged(), {
    timeout: TIMEOUT,
    interval: 10,
  })
}

describe.each(PROXIES)('the logs of %s', { timeout: TIMEOUT }, (name) => {
  test.each([
    ['answered', '/api/v2/runs/answered'],
    ['refused', '/refused'],
    ['left', '/api/v2/stream/left'],
  ] as const)(
    'contain the path of a request that was %s, without token and key',
    async (end, path) => {
      const upstream = await startUpstream(end === 'left' ? holdOpen : (_, answer) => answer.end())
      const proxy = await startProxy(name, { upstreams: [upstream.url] })
      await ENDS[end](proxy)
      expect(await logged(proxy, path)).not.toContain(SECRET)
    },
  )

  test('contain no token of a stream that the gateway cuts', async () => {
    const upstream = await startUpstream(breakOff)
    const proxy = await startProxy(name, { upstreams: [upstream.url] })
    const client = await H2Client.open(proxy)
    const reader = client.ask(`/api/v2/stream/cut?token=${SECRET}`, { headers: HEADERS })
    await reader.ended()
    expect(await logged(proxy, '/api/v2/stream/cut')).not.toContain(SECRET)
  })

  test('contain no token of a request without a gateway', async () => {
    const server = await startServer()
    await server.close()
    const hasty = (text: string) =>
      name === 'caddy' ? replaceAll(text, [['lb_try_duration 5s', 'lb_try_duration 1ms']]) : text
    const proxy = await startProxy(name, { upstreams: [server.url], change: hasty })
    const client = await H2Client.open(proxy)
    const reader = client.ask(`/api/v2/stream/lost?token=${SECRET}`, { headers: HEADERS })
    await reader.ended()
    expect([502, 503]).toContain(reader.status)
    expect(await logged(proxy, '/api/v2/stream/lost')).not.toContain(SECRET)
  })

  test('contain the request id of the response', async () => {
    const server = await startServer()
    const proxy = await startProxy(name, { upstreams: [server.url] })
    const client = await H2Client.open(proxy)
    const answer = client.ask('/api/v2/runs/unknown')
    await answer.ended()
    const id = String(answer.headers['x-request-id'])
    expect(await logged(proxy, '/api/v2/runs/unknown')).toContain(id)
  })

  // What the recipes are careful about, undone: this is what would be found.
  const careless: Record<ProxyName, readonly [string, string]> = {
    nginx: ['turnstream-error.log crit;', 'turnstream-error.log;'],
    caddy: [String.raw`request>uri regexp \?.* ""`, ''],
  }

  test('would contain the token without the recipe', async () => {
    const upstream = await startUpstream(breakOff)
    const change = (text: string) => replaceAll(text, [careless[name]])
    const proxy = await startProxy(name, { upstreams: [upstream.url], change })
    const client = await H2Client.open(proxy)
    await client.ask(`/api/v2/stream/cut?token=${SECRET}`).ended()
    expect(await logged(proxy, '/api/v2/stream/cut')).toContain(SECRET)
  })
})
