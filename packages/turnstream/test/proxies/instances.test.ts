import { describe, expect, test, vi } from 'vitest'
import { MemoryLog } from '../../src/server.ts'
import { heldTurn, startServer } from '../server/support.ts'
import { H2Client } from './h2-client.ts'
import { startProxy } from './proxy.ts'
import { PROXIES, replaceAll } from './recipes.ts'
import { holdOpen, startUpstream } from './upstream.ts'

const TIMEOUT = 30_000

describe.each(PROXIES)('%s in front of two instances', { timeout: TIMEOUT }, (name) => {
  test('sends the next stream to the less loaded one', async () => {
    const upstreams = [await startUpstream(holdOpen), await startUpstream(holdOpen)]
    const proxy = await startProxy(name, { upstreams: upstreams.map(({ url }) => url) })
    const client = await H2Client.open(proxy)
    const open = () => upstreams.map((each) => each.open())
    const ask = async () => {
      const before = open()
      const reader = client.ask('/api/v2/stream/turn')
      await reader.until(({ text }) => text !== '')
      return { reader, at: open().findIndex((count, at) => count > (before[at] ?? 0)) }
    }
    const asked = []
    for (let each = 0; each < 8; each++) asked.push(await ask())
    expect(open()).toEqual([4, 4])
    for (const { reader, at } of asked) if (at === 1) reader.reset()
    await vi.waitUntil(() => open()[1] === 0, { timeout: TIMEOUT, interval: 10 })
    for (let each = 0; each < 4; each++) expect(await ask()).toMatchObject({ at: 1 })
    expect(open()).toEqual([4, 4])
  })

  test('continues with one of them, for reads and submits', {
    tags: ['slow'],
  }, async () => {
    const log = new MemoryLog()
    const [first, second] = [await startServer({ log }), await startServer({ log })]
    const proxy = await startProxy(name, { upstreams: [first.url, second.url] })
    const client = await H2Client.open(proxy)
    await first.close()
    const statuses: number[] = []
    for (let each = 0; each < 10; each++) {
      const body = { prompt: 'Hi', providerId: 'plain', turnId: `turn-${each}` }
      statuses.push((await client.post('/api/v2/submit', body)).status)
      const list = client.ask('/api/v2/threads')
      await list.ended()
      expect(list.status).toBe(200)
    }
    // Older versions of Caddy send no body a second time: one submit fails, and the instance is known
    // to be away.
    const lost = statuses.filter((status) => status === 502)
    expect(lost.length).toBeLessThanOrEqual(name === 'caddy' ? 1 : 0)
    expect(statuses.filter((status) => status === 202)).toHaveLength(10 - lost.length)
  })
})

test('nginx passes on the response of an instance that shuts down', {
  timeout: TIMEOUT,
}, async () => {
  const server = await startServer({ shutdownGraceMs: 600_000 })
  const client = await H2Client.open(await startProxy('nginx', { upstreams: [server.url] }))
  const { call } = await heldTurn(server, { turnId: 'turn' })
  const reader = client.ask('/api/v2/stream/turn')
  await reader.until(({ text }) => text.includes('item_start'))
  const closed = server.close()
  const { status, headers, json } = await client.post('/api/v2/submit', { prompt: 'Hi' })
  expect([status, json]).toMatchObject([503, { error: { code: 'SERVER_SHUTDOWN' } }])
  expect(Number(headers['retry-after'])).toBeGreaterThan(0)
  call.finish()
  await reader.ended()
  expect(reader.data.at(-1)).toContain('"type":"response_done"')
  await closed
})

test('Caddy sends nothing to an instance that is not ready', { timeout: TIMEOUT }, async () => {
  let isReady = true
  const first = await startUpstream((_, response) => response.end('first'))
  const second = await startUpstream((_, response) => response.end('second'), {
    isReady: () => isReady,
  })
  const change = (text: string) =>
    replaceAll(text, [['health_interval 2s', 'health_interval 50ms']])
  const proxy = await startProxy('caddy', { upstreams: [first.url, second.url], change })
  const client = await H2Client.open(proxy)
  /** Who answers thirty requests. */
  const asked = async () => {
    const answers = Array.from({ length: 30 }, () => client.ask('/api/v2/runs'))
    for (const answer of answers) await answer.ended()
    return [...new Set(answers.map(({ text }) => text))].toSorted()
  }
  /** What was answered to a check is known when the one after the next is made. */
  const checked = async () => {
    const before = second.checks()
    await vi.waitUntil(() => second.checks() > before + 1, { timeout: TIMEOUT, interval: 10 })
  }
  await checked()
  expect(await asked()).toEqual(['first', 'second'])
  isReady = false
  await checked()
  expect(await asked()).toEqual(['first'])
  isReady = true
  await checked()
  expect(await asked()).toEqual(['first', 'second'])
})
