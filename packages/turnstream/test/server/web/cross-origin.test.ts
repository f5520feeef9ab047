import OpenAI from 'openai'
import { describe, expect, test, vi } from 'vitest'
import { HEADERS } from '../../../../core/src/protocol/names.ts'
import { KeyRing, sha256Of } from '../../../src/server/auth/key-ring.ts'
import { RawClient } from '../streams/raw-client.ts'
import { finishedTurn, heldTurn, startServer } from '../support.ts'
import { ask, GETS } from './browser.ts'
import { requestsOf } from './requests.ts'

// Many requests in one test, on a machine that runs everything else at the same time.
vi.setConfig({ testTimeout: 30_000 })

const APP = 'https://app.example'
const EVIL = 'https://evil.example'
const corsOrigins = [APP]
const JSON_TYPE = { 'content-type': 'application/json' }
const HI = '{"prompt":"Hi"}'
const keys = () => new KeyRing([{ tenant: 'acme', name: 'key', sha256: sha256Of('the-key') }])

const ALLOWED_HEADERS = [
  'authorization',
  'x-api-key',
  'content-type',
  'last-event-id',
  'idempotency-key',
  'traceparent',
  'tracestate',
  'x-request-id',
  'x-thread-id',
  'thread-id',
  'x-claude-code-session-id',
  'turnstream-cancel-on-disconnect',
  'x-turnstream-reattach',
  'openai-organization',
  'openai-project',
  'x-stainless-arch',
  'x-stainless-helper-method',
  'x-stainless-lang',
  'x-stainless-os',
  'x-stainless-package-version',
  'x-stainless-retry-count',
  'x-stainless-runtime',
  'x-stainless-runtime-version',
  'x-stainless-timeout',
]

function preflight(origin: string, method = 'POST') {
  const headers = {
    origin,
    'access-control-request-method': method,
    'access-control-request-headers': 'authorization,content-type',
  }
  return { method: 'OPTIONS', headers }
}

describe('a preflight', () => {
  test("allows everything that OpenAI's client sends", async () => {
    const { url } = await startServer({ corsOrigins })
    const sent = new Set<string>()
    const client = new OpenAI({
      baseURL: `${url}/v1`,
      apiKey: 'none',
      fetch: (input, init) => {
        for (const [name] of new Headers(init?.headers)) sent.add(name)
        return fetch(input, init)
      },
    })
    const asked = { model: 'plain/m', messages: [{ role: 'user' as const, content: 'Hi' }] }
    await client.chat.completions.create(asked)
    await client.chat.completions.stream(asked).finalMessage()
    // Those that no preflight asks for.
    for (const name of ['accept', 'user-agent']) sent.delete(name)
    const { headers } = await ask(`${url}/v1/chat/completions`, preflight(APP))
    const granted = headers['access-control-allow-headers']?.split(', ')
    expect(granted).toEqual(expect.arrayContaining([...sent]))
  })

  test('of an allowed origin is granted without a key', async () => {
    const { url } = await startServer({ corsOrigins, keys: keys() })
    const { status, headers, text } = await ask(`${url}/api/v2/submit`, preflight(APP))
    expect([status, text]).toEqual([204, ''])
    expect(headers).toMatchObject({
      'access-control-allow-origin': APP,
      'access-control-allow-headers': ALLOWED_HEADERS.join(', '),
      'access-control-max-age': '7200',
      vary: 'origin',
    })
    expect(headers).not.toHaveProperty('access-control-allow-credentials')
    expect(headers).not.toHaveProperty('allow')
  })

  test('allows every method of a route', async () => {
    const { url, document } = await startServer({ corsOrigins })
    const methods = Object.values(document.paths).flatMap((each) => Object.keys(each))
    const { headers } = await ask(`${url}/nowhere`, preflight(APP))
    const granted = headers['access-control-allow-methods']?.toLowerCase().split(', ')
    expect(granted).toEqual(expect.arrayContaining(methods))
  })

  test('allows every header of a request', async () => {
    const { document } = await startServer()
    const named = Object.values(document.paths)
      .flatMap((methods) => Object.values(methods))
      .flatMap(({ parameters }) => parameters)
      .filter((parameter) => parameter.in === 'header')
      .map(({ name }) => name)
    expect(ALLOWED_HEADERS).toEqual(expect.arrayContaining([...new Set(named)]))
    expect(ALLOWED_HEADERS).toContain(HEADERS.cancelOnDisconnect)
  })

  test.each([EVIL, 'null', '', `${APP}.evil.example`, APP.toUpperCase(), `${APP}, ${EVIL}`])(
    'of %j is ORIGIN_REFUSED',
    async (origin) => {
      const { url } = await startServer({ corsOrigins })
      const { status, code, headers } = await ask(`${url}/api/v2/submit`, preflight(origin))
      expect([status, code]).toEqual([403, 'ORIGIN_REFUSED'])
      expect(Object.keys(headers).filter((name) => name.startsWith('access-'))).toEqual([])
      expect(headers['vary']).toBe('origin')
    },
  )

  test('needs its headers: any other OPTIONS lists the methods of the path', async () => {
    const { url } = await startServer({ corsOrigins })
    const { status, headers } = await ask(`${url}/api/v2/submit`, {
      ...{ method: 'OPTIONS', headers: { origin: APP } },
    })
    expect([status, headers['allow']]).toEqual([204, 'OPTIONS, POST'])
    expect(headers['access-control-allow-origin']).toBe(APP)
    expect(headers).not.toHaveProperty('access-control-allow-methods')
  })
})

describe('a response to an allowed origin', () => {
  const READABLE = {
    'access-control-allow-origin': APP,
    'access-control-expose-headers':
      'x-request-id, x-turn-id, x-thread-id, x-turnstream-ignored, retry-after',
    vary: 'origin',
  }

  test('is readable on every route with every status', async () => {
    const server = await startServer({ corsOrigins })
    const ids = await finishedTurn(server)
    for (const { name, method, path, body } of requestsOf(server.document, ids)) {
      // Has no end, and is looked at below.
      if (name === 'GET /xapi/threads/{threadId}/stream') continue
      const headers = { ...GETS.fetch, origin: APP, ...(body && JSON_TYPE) }
      const got = await ask(`${server.url}${path}`, { method, headers, ...(body && { body }) })
      expect([name, got.headers]).toEqual([name, expect.objectContaining(READABLE)])
      expect(got.headers).not.toHaveProperty('access-control-allow-credentials')
    }
  })

  test.each([
    ['a refusal of the route', 'GET', '/api/v2/runs/no', 404],
    ['no route', 'GET', '/nowhere', 404],
    ['another method', 'PUT', '/api/v2/submit', 405],
    ['another type of body', 'POST', '/api/v2/submit', 415],
    ['an invalid parameter', 'GET', '/api/v2/threads?limit=x', 400],
  ])('is readable when it is %s', async (_name, method, path, status) => {
    const { url } = await startServer({ corsOrigins })
    const headers = { origin: APP, 'content-type': 'text/plain' }
    const got = await ask(`${url}${path}`, {
      method,
      headers,
      ...(method === 'POST' && { body: 'x' }),
    })
    expect(got.status).toBe(status)
    expect(got.headers).toMatchObject(READABLE)
  })

  test('is readable when a key is missing or wrong', async () => {
    const { url } = await startServer({ corsOrigins, keys: keys() })
    for (const key of [{}, { authorization: 'Bearer wrong' }]) {
      const got = await ask(`${url}/api/v2/threads`, { headers: { origin: APP, ...key } })
      expect(got.status).toBe(401)
      expect(got.headers).toMatchObject(READABLE)
    }
  })

  test('is readable when it is rate limited, with retry-after', async () => {
    const { url } = await startServer({ corsOrigins, limits: { submitsPerMinute: 1 } })
    const asked = { method: 'POST', body: HI, headers: { ...JSON_TYPE, origin: APP } }
    expect((await ask(`${url}/api/v2/submit`, asked)).status).toBe(202)
    const got = await ask(`${url}/api/v2/submit`, asked)
    expect([got.status, got.code]).toEqual([429, 'SUBMITS_LIMITED'])
    expect(got.headers).toMatchObject({ ...READABLE, 'retry-after': expect.any(String) })
  })

  test('is readable when it is a turn or thread stream', async () => {
    const server = await startServer({ corsOrigins })
    const { turnId, threadId, call } = await heldTurn(server)
    const port = Number(new URL(server.url).port)
    const headers = { origin: APP }
    for (const path of [
      `/api/v2/stream/${turnId}`,
      `/xapi/turns/${turnId}/stream`,
      `/xapi/threads/${threadId}/stream?encoding=append`,
    ]) {
      const client = await RawClient.open(port, path, { headers })
      await client.until(({ head }) => head !== undefined)
      expect(client.head?.headers).toMatchObject({
        ...READABLE,
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-cache, no-transform',
      })
      client.close()
    }
    call.finish()
  })

  test('names no origin to clients without one, and has Vary', async () => {
    const { url } = await startServer({ corsOrigins })
    const { headers } = await ask(`${url}/api/v2/threads`)
    expect(headers).not.toHaveProperty('access-control-allow-origin')
    expect(headers['vary']).toBe('origin')
  })

  test('is public with *, and still needs a key', async () => {
    const { url } = await startServer({ corsOrigins: ['*'], keys: keys() })
    for (const origin of [EVIL, 'null']) {
      const refused = await ask(`${url}/api/v2/threads`, { headers: { origin } })
      expect([refused.status, refused.code]).toEqual([401, 'KEY_REQUIRED'])
      const headers = { ...GETS.fetch, origin, authorization: 'Bearer the-key' }
      const got = await ask(`${url}/api/v2/threads`, { headers })
      expect([got.status, got.headers['access-control-allow-origin']]).toEqual([200, '*'])
      expect((await ask(`${url}/api/v2/threads`, preflight(origin, 'GET'))).status).toBe(204)
    }
  })
})

test('no CORS header without a list, and * requires keys', async () => {
  const { url } = await startServer()
  const { headers } = await ask(`${url}/api/v2/threads`)
  expect(Object.keys(headers).filter((name) => /^access-|^vary$/.test(name))).toEqual([])
  await expect(startServer({ corsOrigins: ['*'] })).rejects.toMatchObject({
    code: 'OPTION_INVALID',
  })
})
