/** What a client sends cannot become a header of an answer, but for the id of its request. */
import { describe, expect, test, vi } from 'vitest'
import { sendRaw } from '../raw-http.ts'
import { call, finishedTurn, startServer } from '../support.ts'

// Many requests in one test, on a machine that runs everything else at the same time.
vi.setConfig({ testTimeout: 30_000 })

const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/
const CLOSE = 'host: a\r\nconnection: close\r\n'

describe('an x-request-id', () => {
  test.each([
    ['with a line end', 'a\r\ninjected: 1', 200],
    ['with a tab', 'a\tb', 200],
    ['in UTF-8', 'a\xc3\xbcb', 200],
    ['in Latin-1', 'a\xfcb', 200],
    ['of 10,000 characters', 'x'.repeat(10_000), 200],
    ['in two lines', 'a\r\nx-request-id: b', 200],
    ['with CR', 'a\rinjected: 1', 400],
    ['with LF', 'a\ninjected: 1', 400],
    ['with NUL', 'a\0b', 400],
    ['with DEL', 'a\x7fb', 400],
    ['with an escape', 'a\x1b[2Jb', 400],
    ['with a folded line', 'a\r\n injected: 1', 400],
  ])('%s is not echoed', async (_name, value, status) => {
    const server = await startServer()
    const bytes = Buffer.from(
      `GET /healthz HTTP/1.1\r\n${CLOSE}x-request-id: ${value}\r\n\r\n`,
      'latin1',
    )
    const got = await sendRaw(server.url, bytes)
    expect(got.status).toBe(status)
    expect(Object.keys(got.headers)).not.toContain('injected')
    // A line end makes two headers of the request, of which the first is as good as any.
    const isCut = status === 200 && value.startsWith('a\r\n') && !value.includes('x-request-id')
    if (isCut) expect(got.headers['x-request-id']).toBe('a')
    else expect(got.headers['x-request-id']).toMatch(UUID)
    expect(server.errors).toEqual([])
  })
})

describe('a turn or thread id', () => {
  test.each([
    ['ü', '%C3%BC'],
    ['世界', '%E4%B8%96%E7%95%8C'],
    ['🧵', '%F0%9F%A7%B5'],
    ['a%0d%0ainjected:1', 'a%0d%0ainjected:1'],
    ['a\u00a1b', 'a%C2%A1b'],
    ['"><script>', '"><script>'],
    [`${'ü'.repeat(199)}x`, `${'%C3%BC'.repeat(199)}x`],
  ])('%j is URL-encoded in a header', async (id, header) => {
    const server = await startServer()
    const body = { prompt: 'Hi', turnId: id }
    const path = `/xapi/threads/${encodeURIComponent(id)}/turn` as const
    const { status, headers } = await call(server, `POST ${path}`, { body })
    expect(status).toBe(200)
    expect([headers.get('x-turn-id'), headers.get('x-thread-id')]).toEqual([header, header])
    const names = [...headers.keys()].filter((name) => name.startsWith('injected'))
    expect(names).toEqual([])
  })
})

test('no part of a URL or a header becomes a response header', async () => {
  const server = await startServer({ corsOrigins: ['https://app.example'] })
  const { turnId } = await finishedTurn(server)
  const asks = [
    'GET /%0d%0ainjected:1',
    'GET //evil.example/%0d%0ainjected:1',
    `GET /xapi/turns/${turnId}/stream?from=%0d%0ainjected:1`,
    'PUT /api/v2/threads/%0d%0ainjected:1',
    'OPTIONS /api/v2/threads/%0d%0ainjected:1',
    'GET http://a%0d%0ainjected:1/',
  ]
  for (const ask of asks) {
    const origin = 'origin: https://app.example\r\naccess-control-request-headers: injected\r\n'
    const got = await sendRaw(server.url, `${ask} HTTP/1.1\r\n${CLOSE}${origin}\r\n`)
    expect(got.status).toBeGreaterThan(199)
    const head = got.all.slice(0, got.all.indexOf('\r\n\r\n'))
    expect(head).not.toContain('injected')
  }
  const preflight = `OPTIONS /docs HTTP/1.1\r\n${CLOSE}origin: https://app.example\r\n`
  const wishes =
    'access-control-request-method: injected\r\naccess-control-request-headers: injected'
  const got = await sendRaw(server.url, `${preflight}${wishes}\r\n\r\n`)
  expect([got.status, got.all.includes('injected')]).toEqual([204, false])
  expect(server.errors).toEqual([])
})

test('the redirect of / does not depend on request headers', async () => {
  const { url } = await startServer({ page: false })
  for (const host of ['evil.example', 'a:80', '[::1]']) {
    const got = await sendRaw(url, `GET / HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`)
    expect([got.status, got.headers['location']]).toEqual([302, 'docs'])
  }
  for (const path of ['//evil.example', '///evil.example', '/\\evil.example', '/.//evil.example']) {
    const got = await sendRaw(url, `GET ${path} HTTP/1.1\r\n${CLOSE}\r\n`)
    expect([path, [400, 404].includes(got.status), got.headers['location']]).toEqual([
      ...[path, true, undefined],
    ])
  }
})

test.each([['idempotency-key', ['a b', '{a}', 'a\tb', '..', 'x'.repeat(201)]]])(
  '%s is refused where it makes no sense',
  async (name, values) => {
    const server = await startServer()
    const body = '{"prompt":"Hi"}'
    for (const value of values) {
      const type = `content-type: application/json\r\ncontent-length: ${body.length}\r\n`
      const head = `POST /api/v2/submit HTTP/1.1\r\n${CLOSE}${type}${name}: ${value}\r\n\r\n`
      const got = await sendRaw(server.url, `${head}${body}`)
      expect([value, got.status]).toEqual([value, 400])
      expect(JSON.parse(got.body).error.details[0].path).toBe(`headers.${name}`)
    }
    expect((await server.log.listThreads()).items).toEqual([])
  },
)
