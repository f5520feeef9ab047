import { describe, expect, test, vi } from 'vitest'
import { DOCS_POLICY } from '../../../src/server/docs-page.ts'
import { KeyRing, MemoryLog } from '../../../src/server.ts'
import { sendRaw } from '../raw-http.ts'
import { RawClient } from '../streams/raw-client.ts'
import { finishedTurn, startServer } from '../support.ts'
import { ask } from './browser.ts'
import { requestsOf } from './requests.ts'

// Many requests in one test, on a machine that runs everything else at the same time.
vi.setConfig({ testTimeout: 30_000 })

const POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
const SECURE = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'x-frame-options': 'DENY',
}

type Headers = Readonly<Record<string, string | undefined>>

function check(name: string, headers: Headers, policy = POLICY): void {
  expect([name, headers]).toEqual([
    name,
    expect.objectContaining({ ...SECURE, 'content-security-policy': policy }),
  ])
  // Neither who made it, nor anything that a browser would keep or send back.
  const telling = ['server', 'x-powered-by', 'set-cookie', 'etag', 'x-runtime', 'via']
  expect([name, telling.filter((each) => each in headers)]).toEqual([name, []])
  expect([name, headers['cache-control']]).toEqual([
    name,
    expect.stringMatching(/^no-store$|^no-cache, no-transform$/),
  ])
}

describe('every response has security headers', () => {
  test('of every route', async () => {
    const server = await startServer()
    const ids = await finishedTurn(server)
    for (const { name, method, path, body } of requestsOf(server.document, ids)) {
      // Has no end, and is looked at below.
      if (name === 'GET /xapi/threads/{threadId}/stream') continue
      const headers = { ...(body && { 'content-type': 'application/json' }) }
      const got = await ask(`${server.url}${path}`, { method, headers, ...(body && { body }) })
      check(name, got.headers, name === 'GET /docs' ? DOCS_POLICY : POLICY)
    }
  })

  test.each([
    ['GET', '/nowhere', {}, 404],
    ['PUT', '/api/v2/submit', {}, 405],
    ['OPTIONS', '/api/v2/submit', {}, 204],
    ['POST', '/api/v2/submit', {}, 400],
    ['POST', '/api/v2/submit', { 'content-type': 'text/plain', 'content-length': '1' }, 415],
    ['POST', '/api/v2/submit', { 'content-length': '9999999' }, 413],
    ['HEAD', '/api/v2/threads', {}, 200],
    ['GET', '/api/v2/threads', { origin: 'https://evil.example' }, 403],
    ['GET', '/api/v2/threads', { host: 'evil.example' }, 421],
  ])('%s %s %j', async (method, path, headers, status) => {
    const { url } = await startServer({ allowedHosts: ['127.0.0.1'] })
    const body = 'content-length' in headers ? 'x' : ''
    const lines = { host: '127.0.0.1', connection: 'close', ...headers }
    const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`)
    const got = await sendRaw(url, `${method} ${path} HTTP/1.1\r\n${head.join('')}\r\n${body}`)
    expect(got.status).toBe(status)
    check(`${method} ${path}`, got.headers)
  })

  test('that is 401', async () => {
    const { url } = await startServer({ keys: new KeyRing([]) })
    const got = await ask(`${url}/api/v2/threads`)
    expect(got.status).toBe(401)
    check('401', got.headers)
  })

  test('that is a preflight', async () => {
    const { url } = await startServer({ corsOrigins: ['https://app.example'] })
    const headers = { origin: 'https://app.example', 'access-control-request-method': 'GET' }
    check('preflight', (await ask(`${url}/`, { method: 'OPTIONS', headers })).headers)
  })

  test('that is an internal error', async () => {
    class Broken extends MemoryLog {
      override async listThreads(): Promise<never> {
        throw new TypeError('broken')
      }
    }
    const { url } = await startServer({ log: new Broken() })
    const got = await ask(`${url}/api/v2/threads`)
    expect(got.status).toBe(500)
    check('500', got.headers)
  })

  test('that is a stream', async () => {
    const server = await startServer()
    const { threadId } = await finishedTurn(server)
    const port = Number(new URL(server.url).port)
    const client = await RawClient.open(port, `/xapi/threads/${threadId}/stream`)
    await client.until(({ head }) => head !== undefined)
    check('stream', client.head?.headers ?? {})
    client.close()
  })

  test.each([
    ['noise', 'hello\r\n\r\n'],
    ['an invalid host', 'GET / HTTP/1.1\r\nhost: a b\r\nconnection: close\r\n\r\n'],
    ['no host', 'GET / HTTP/1.1\r\nconnection: close\r\n\r\n'],
    ['a huge header', `GET / HTTP/1.1\r\nhost: a\r\nx: ${'x'.repeat(70_000)}\r\n\r\n`],
  ])('that does not reach the routes: %s', async (name, text) => {
    const { url } = await startServer()
    check(name, (await sendRaw(url, text)).headers)
  })
})

describe('the docs page', () => {
  test('allows its own style and otherwise no more than any other response', () => {
    const rules = (policy: string) =>
      new Map(policy.split('; ').map((rule) => rule.split(/ (.*)/s) as [string, string]))
    const own = rules(DOCS_POLICY)
    expect(own.get('style-src')).toMatch(/^'sha256-[\w+/]{43}='$/)
    own.delete('style-src')
    expect(own).toEqual(rules(POLICY))
  })
})
