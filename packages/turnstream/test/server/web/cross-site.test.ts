/** What pages of other origins get, whether they ask for permission or not. */
import { describe, expect, test, vi } from 'vitest'
import { finishedTurn, heldTurn, startServer } from '../support.ts'
import { ask, GETS } from './browser.ts'
import { requestsOf } from './requests.ts'

// Many requests in one test, on a machine that runs everything else at the same time.
vi.setConfig({ testTimeout: 30_000 })

const corsOrigins = ['https://app.example']
const JSON_TYPE = { 'content-type': 'application/json' }
const HI = '{"prompt":"Hi"}'
const PROBES = new Set(['GET /healthz', 'GET /readyz'])

describe('a page of another origin', () => {
  test('is ORIGIN_REFUSED on every route except probes, without effect', async () => {
    const server = await startServer({ corsOrigins })
    const ids = await finishedTurn(server)
    const before = await server.log.getThread(ids.threadId)
    for (const { name, method, path, body } of requestsOf(server.document, ids)) {
      const headers = { ...GETS.plainFetch, ...(body !== undefined && JSON_TYPE) }
      const got = await ask(`${server.url}${path}`, { method, headers, ...(body && { body }) })
      // Anthropic's errors have no code.
      const code = path.startsWith('/v1/messages') ? undefined : 'ORIGIN_REFUSED'
      const expected = PROBES.has(name) ? [200, undefined] : [403, code]
      expect([name, got.status, got.code]).toEqual([name, ...expected])
      expect([name, got.headers['access-control-allow-origin']]).toEqual([name, undefined])
    }
    expect((await server.log.listThreads()).items).toEqual([before])
    expect(server.errors).toEqual([])
  })

  // What a form, a beacon or `fetch` without permission can send: no preflight is asked for.
  const SIMPLE_TYPES = [
    'text/plain',
    'text/plain; x=application/json',
    'text/plain;application/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
  ]

  test.each([{}, ...SIMPLE_TYPES.map((type) => ({ 'content-type': type }))])(
    'cannot change anything with a simple request: %j',
    async (type) => {
      const server = await startServer()
      const { runId, threadId, call } = await heldTurn(server)
      const body = 'content-type' in type ? HI : ''
      for (const path of [
        '/api/v2/submit',
        '/api/v2/threads',
        `/api/v2/runs/${runId}/cancel`,
        '/xapi/threads/new/turn',
      ]) {
        for (const sender of [GETS.fetch, GETS.plainFetch, GETS.sandboxedFetch, GETS.blindFetch]) {
          const headers = { ...sender, ...type }
          const got = await ask(`${server.url}${path}`, { method: 'POST', headers, body })
          expect([path, got.status, got.code]).toEqual([path, 403, 'ORIGIN_REFUSED'])
        }
        // A body that is no JSON is refused for that alone, also where none is needed.
        if (body === '') continue
        const got = await ask(`${server.url}${path}`, { method: 'POST', headers: type, body })
        expect([path, got.status, got.code]).toEqual([path, 415, 'MEDIA_TYPE_UNSUPPORTED'])
      }
      expect((await server.log.listThreads()).items.map((thread) => thread.threadId)).toEqual([
        threadId,
      ])
      expect(call.signal.aborted).toBe(false)
    },
  )

  test('cannot submit a form as a navigation', async () => {
    const { url } = await startServer()
    const headers = { ...GETS.link, 'content-type': 'application/x-www-form-urlencoded' }
    const got = await ask(`${url}/api/v2/threads`, { method: 'POST', headers, body: 'a=b' })
    expect([got.status, got.code]).toEqual([403, 'ORIGIN_REFUSED'])
  })
})

describe('a GET', () => {
  const ANSWERED = ['address', 'link', 'neighbourLink', 'ownFetch', 'ownPicture'] as const
  const REFUSED = (Object.keys(GETS) as (keyof typeof GETS)[]).filter(
    (name) => !(ANSWERED as readonly string[]).includes(name),
  )
  const PATHS = ['/docs', '/api/v2/threads', '/openapi.json']

  test.each(ANSWERED)('from %s is answered', async (name) => {
    const { url } = await startServer()
    for (const path of PATHS) {
      expect((await ask(`${url}${path}`, { headers: GETS[name] })).status).toBe(200)
    }
  })

  test.each(REFUSED)('from %s is ORIGIN_REFUSED before a stream takes a slot', async (name) => {
    const server = await startServer()
    const { turnId, call } = await heldTurn(server)
    for (const path of [...PATHS, `/xapi/turns/${turnId}/stream`]) {
      for (const method of ['GET', 'HEAD']) {
        const got = await ask(`${server.url}${path}`, { method, headers: GETS[name] })
        expect([path, got.status]).toEqual([path, 403])
        if (method === 'GET') expect(got.code).toBe('ORIGIN_REFUSED')
      }
    }
    call.finish()
  })

  test.each(['neighbourPicture', 'picture', 'frame'] as const)(
    'of an allowed origin is refused as %s: it must send an Origin',
    async (name) => {
      const { url } = await startServer({ corsOrigins })
      const got = await ask(`${url}/api/v2/threads`, { headers: GETS[name] })
      expect([got.status, got.code]).toEqual([403, 'ORIGIN_REFUSED'])
    },
  )
})

describe('our own origin', () => {
  test('may do everything, whatever the list', async () => {
    const { url } = await startServer()
    const headers = { ...JSON_TYPE, origin: url, ...GETS.ownFetch }
    expect((await ask(`${url}/api/v2/submit`, { method: 'POST', headers, body: HI })).status).toBe(
      202,
    )
  })

  test('is recognised by the host without Fetch Metadata', async () => {
    const { url } = await startServer()
    const send = (origin: string, host: string) =>
      ask(`${url}/api/v2/submit`, {
        ...{ method: 'POST', body: HI, headers: { ...JSON_TYPE, origin, host } },
      })
    expect((await send(url, new URL(url).host)).status).toBe(202)
    expect((await send('https://turns.example', 'turns.example')).status).toBe(202)
    expect((await send('https://turns.example', '127.0.0.1:4010')).code).toBe('ORIGIN_REFUSED')
  })

  test('is recognised by Fetch Metadata when a proxy changed the host', async () => {
    const { url } = await startServer()
    const headers = {
      ...JSON_TYPE,
      origin: 'https://turns.example',
      'sec-fetch-site': 'same-origin',
    }
    expect((await ask(`${url}/api/v2/submit`, { method: 'POST', headers, body: HI })).status).toBe(
      202,
    )
  })
})

test('clients that are not browsers are not affected', async () => {
  const { url } = await startServer()
  // Node's own fetch sends a mode, too.
  for (const headers of [{}, { 'sec-fetch-mode': 'cors' }, { 'user-agent': 'curl' }]) {
    const got = await ask(`${url}/api/v2/submit`, {
      ...{ method: 'POST', body: HI, headers: { ...JSON_TYPE, ...headers } },
    })
    expect(got.status).toBe(202)
  }
})
