import { describe, expect, test } from 'vitest'
import { startServer } from '../server/support.ts'
import { H2Client } from './h2-client.ts'
import { startProxy } from './proxy.ts'
import { PROXIES } from './recipes.ts'
import { startUpstream } from './upstream.ts'

const TIMEOUT = 30_000
const MAX_BODY_BYTES = 4 * 1024 * 1024
const JSON_TYPE = { 'content-type': 'application/json' }

/** What is not for everybody, in ways of writing it that a proxy and a gateway might read differently. */
const HIDDEN = [
  ...[
    '/',
    '/docs',
    '/docs/',
    '//docs',
    '/%64ocs',
    '/./docs',
    '/DOCS',
    '/docs?x',
    '/docs;x',
    '/docs%00',
  ],
  ...[
    '/api/../docs',
    '/api/%2e%2e/docs',
    '/api/..%2fdocs',
    '/xapi/../api/../docs',
    '/api/..\\docs',
  ],
  ...['/api/v2/..\\..\\docs', '/api/.\\../docs', '/api/v2/%2e%2e/%2E%2E/docs', '/api/..;/docs'],
  ...['/openapi.json', '/metrics', '/healthz', '/readyz', '/api', '/apidocs', '/.git/config'],
]

/** As long as wanted: white space after the value is part of the body. */
function bodyOf(length: number): string {
  return JSON.stringify({ prompt: 'Hi', providerId: 'plain', turnId: 'turn' }).padEnd(length)
}

describe.each(PROXIES)('%s', { timeout: TIMEOUT }, (name) => {
  test('accepts a body of 4 MB and refuses a larger one', async () => {
    const server = await startServer()
    const client = await H2Client.open(await startProxy(name, { upstreams: [server.url] }))
    const submit = async (body: string) => {
      const answer = client.ask('/api/v2/submit', { method: 'POST', headers: JSON_TYPE, body })
      await answer.ended()
      return answer.status
    }
    expect(await submit(bodyOf(MAX_BODY_BYTES))).toBe(202)
    expect(await submit(bodyOf(MAX_BODY_BYTES + 1))).toBe(413)
  })

  test('accepts headers of some KB and refuses 20 KB', async () => {
    const upstream = await startUpstream((_, response) => response.end())
    const client = await H2Client.open(await startProxy(name, { upstreams: [upstream.url] }))
    const ask = async (length: number) => {
      const headers = Object.fromEntries(
        Array.from({ length: length / 1000 }, (_, n) => [`x-long-${n}`, 'x'.repeat(1000)]),
      )
      const answer = client.ask('/api/v2/runs', { headers })
      await answer.ended()
      return answer.status
    }
    expect(await ask(7000)).toBe(200)
    // nginx ends the connection without an answer.
    expect([0, 400, 431]).toContain(await ask(20_000))
    expect(upstream.requests).toHaveLength(1)
  })

  test('exposes only the API, however the path is encoded', async () => {
    const server = await startServer()
    const client = await H2Client.open(await startProxy(name, { upstreams: [server.url] }))
    const shown: string[] = []
    for (const path of HIDDEN) {
      const answer = client.ask(path)
      await answer.ended()
      if (![301, 400, 404].includes(answer.status)) shown.push(`${answer.status} ${path}`)
    }
    expect(shown).toEqual([])
  })

  test('exposes the complete API', async () => {
    const server = await startServer()
    const client = await H2Client.open(await startProxy(name, { upstreams: [server.url] }))
    const paths = Object.keys(server.document.paths).filter((path) => !HIDDEN.includes(path))
    expect(paths.length).toBeGreaterThan(10)
    for (const path of paths) {
      const answer = client.ask(path.replaceAll(/[{}]/g, ''), { method: 'OPTIONS' })
      await answer.ended()
      expect([path, answer.status]).toEqual([path, 204])
      expect(answer.headers['x-request-id']).toBeDefined()
    }
  })

  test('sets the client address, whatever the client claims', async () => {
    const upstream = await startUpstream((_, response) => response.end())
    const client = await H2Client.open(await startProxy(name, { upstreams: [upstream.url] }))
    const forged = { 'x-forwarded-for': '10.9.8.7', 'x-forwarded-proto': 'gopher' }
    const headers = { ...forged, authorization: 'Bearer key', 'x-api-key': 'key' }
    await client.ask('/api/v2/runs', { headers }).ended()
    expect(upstream.requests[0]?.headers).toMatchObject({
      host: 'gateway.example.com',
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'https',
      authorization: 'Bearer key',
      'x-api-key': 'key',
    })
  })

  test('uses HTTP/1.1 with keep-alive to the gateway', async () => {
    const upstream = await startUpstream((_, response) => response.end('{}'))
    const client = await H2Client.open(await startProxy(name, { upstreams: [upstream.url] }))
    for (let each = 0; each < 10; each++) await client.ask('/api/v2/runs').ended()
    expect(upstream.requests.map(({ httpVersion }) => httpVersion)).toEqual(Array(10).fill('1.1'))
    expect(upstream.sockets.size).toBe(1)
  })
})
