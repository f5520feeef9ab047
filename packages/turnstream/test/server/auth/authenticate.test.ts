import { describe, expect, test } from 'vitest'
import { KeyRing } from '../../../src/server.ts'
import { sendRaw } from '../raw-http.ts'
import { call, finishedTurn, startServer } from '../support.ts'
import { ACME, entry, guardedServer, OTHER, withKey } from './support.ts'

const CHALLENGE = 'Bearer realm="turnstream"'

describe('a key', () => {
  test.each<[string, Record<string, string>]>([
    ['as a bearer', { authorization: `Bearer ${ACME}` }],
    ['with the scheme in small letters', { authorization: `bearer ${ACME}` }],
    ['with the scheme in capitals', { authorization: `BEARER ${ACME}` }],
    ['after several spaces', { authorization: `Bearer   ${ACME}` }],
    ['in its own header', { 'x-api-key': ACME }],
    ['in both, the same', { authorization: `Bearer ${ACME}`, 'x-api-key': ACME }],
    ['beside a scheme for a proxy', { authorization: 'Basic dTpw', 'x-api-key': ACME }],
    ['beside an empty bearer', { authorization: 'Bearer', 'x-api-key': ACME }],
    ['beside an empty header', { authorization: `Bearer ${ACME}`, 'x-api-key': '' }],
  ])('is accepted %s', async (_name, headers) => {
    const server = await guardedServer()
    const body = { threadId: 'mine' }
    const made = await call(server, 'POST /api/v2/threads', { headers, body })
    expect(made.status).toBe(201)
    expect(made.headers.get('www-authenticate')).toBeNull()
    expect((await server.log.ofTenant('acme').getThread('mine'))?.threadId).toBe('mine')
    expect(await server.log.getThread('mine')).toBeUndefined()
  })

  test.each<[string, string, Record<string, string>]>([
    ['none', 'KEY_REQUIRED', {}],
    ['an empty bearer', 'KEY_REQUIRED', { authorization: 'Bearer' }],
    ['an empty header', 'KEY_REQUIRED', { 'x-api-key': '' }],
    ['an empty authorization', 'KEY_REQUIRED', { authorization: '' }],
    ['another scheme', 'KEY_REQUIRED', { authorization: `Basic ${btoa(`:${ACME}`)}` }],
    ['the key without a scheme', 'KEY_REQUIRED', { authorization: ACME }],
    ['a key glued to its scheme', 'KEY_REQUIRED', { authorization: `Bearer${ACME}` }],
    ['a cookie', 'KEY_REQUIRED', { cookie: `authorization=${ACME}` }],
    ['an unknown key', 'KEY_INVALID', withKey('ts_nobody')],
    ['a key in capitals', 'KEY_INVALID', withKey(ACME.toUpperCase())],
    ['two keys in one header', 'KEY_INVALID', withKey(`${ACME}, ${ACME}`)],
    ['a key in quotes', 'KEY_INVALID', withKey(`"${ACME}"`)],
    ['a scheme twice', 'KEY_INVALID', withKey(`Bearer ${ACME}`)],
    ['two keys that differ', 'KEY_INVALID', { ...withKey(ACME), 'x-api-key': OTHER }],
    ['a wrong one beside a right one', 'KEY_INVALID', { ...withKey('ts_no'), 'x-api-key': ACME }],
    ['a long one', 'KEY_INVALID', withKey('x'.repeat(513))],
    ['a very long one', 'KEY_INVALID', { 'x-api-key': 'x'.repeat(8000) }],
    ['the name of every object', 'KEY_INVALID', withKey('__proto__')],
    ['bytes that are not ASCII', 'KEY_INVALID', { 'x-api-key': 'schl\u00fcssel' }],
  ])('%s is %s', async (_name, code, headers) => {
    const server = await guardedServer()
    const answer = await call(server, 'GET /api/v2/threads', { headers })
    expect([answer.status, answer.json.error.code]).toEqual([401, code])
    expect(answer.headers.get('www-authenticate')).toBe(CHALLENGE)
    expect(answer.headers.get('x-request-id')).not.toBeNull()
    const said = JSON.stringify([answer.json, [...answer.headers]])
    for (const key of [ACME, OTHER, 'ts_no', 'xxxx']) expect(said).not.toContain(key)
    expect(server.errors).toEqual([])
  })

  test('sent twice is refused, because a proxy might check the other one', async () => {
    const { url } = await guardedServer()
    const status = async (...lines: string[]) => {
      const head = ['GET /api/v2/threads HTTP/1.1', 'host: 127.0.0.1', ...lines]
      return (await sendRaw(url, `${head.join('\r\n')}\r\nconnection: close\r\n\r\n`)).status
    }
    const lines = [`authorization: Bearer ${ACME}`, `x-api-key: ${ACME}`]
    expect(await status(...lines)).toBe(200)
    for (const line of lines) {
      expect(await status(line, line)).toBe(401)
      expect(await status(line, line.replace(ACME, 'ts_no'))).toBe(401)
      expect(await status(line.replace(ACME, 'ts_no'), line)).toBe(401)
    }
  })

  test('in the URL is ignored', async () => {
    const server = await guardedServer()
    for (const name of ['key', 'api_key', 'access_token', 'x-api-key', 'authorization', 'token']) {
      const { status, json } = await call(server, `GET /api/v2/threads?${name}=${ACME}`)
      expect([status, json.error.code]).toEqual([401, 'KEY_REQUIRED'])
      expect(JSON.stringify(json)).not.toContain(ACME)
    }
  })
})

describe('without a key', () => {
  test.each([
    '/',
    '/icon.svg',
    '/inspect/turn',
    '/api/hello',
    '/healthz',
    '/readyz',
    '/openapi.json',
    '/docs',
  ])('only GET and HEAD of %s are allowed', async (path) => {
    const { url } = await guardedServer()
    const status = async (method: string) => (await fetch(`${url}${path}`, { method })).status
    expect([await status('GET'), await status('HEAD')]).toEqual([200, 200])
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      expect([method, await status(method)]).toEqual([method, 401])
    }
  })

  test('public routes ignore a wrong key', async () => {
    const server = await guardedServer()
    const { status } = await call(server, 'GET /readyz', { headers: withKey('ts_revoked') })
    expect(status).toBe(200)
  })

  test.each([
    '/no/such/path',
    '/metrics',
    '/docs/',
    '//docs',
    '/docs/../api/v2/threads',
    '/healthz/x',
    '/HEALTHZ',
    '/openapi.json%00',
    '/readyz;a=b',
    '/docs%2f..%2fapi',
    '/__proto__',
  ])('%s is 401, not 404', async (path) => {
    const { url } = await guardedServer()
    const answer = await sendRaw(
      url,
      `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n`,
    )
    expect(answer.status).toBe(401)
    expect(
      JSON.parse(answer.body.replaceAll(/^[\da-f]*\r\n|\r\n[\da-f]*\r\n[^]*$/g, '')),
    ).toMatchObject({
      error: { code: 'KEY_REQUIRED' },
    })
  })

  test('unknown paths are 404 with a key', async () => {
    const server = await guardedServer()
    const { status, json } = await call(server, 'GET /no/such', { headers: withKey(ACME) })
    expect([status, json.error.code]).toEqual([404, 'ROUTE_UNKNOWN'])
  })

  test('OPTIONS lists the methods of a path', async () => {
    const server = await guardedServer()
    const { status, headers } = await call(server, 'OPTIONS /api/v2/threads')
    expect([status, headers.get('allow')]).toEqual([204, 'GET, HEAD, OPTIONS, POST'])
  })

  test('the response does not wait for the body', async () => {
    const { url } = await guardedServer()
    // Most of the body never comes.
    const head =
      'POST /api/v2/submit HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n' +
      'content-type: application/json\r\ncontent-length: 1000000\r\n\r\n{"prompt"'
    const answer = await sendRaw(url, head)
    expect([answer.status, answer.headers['www-authenticate']]).toEqual([401, CHALLENGE])
  })

  test('the body is not validated: invalid, large or untyped ones are 401', async () => {
    const server = await guardedServer({ maxBodyBytes: 10 })
    for (const body of ['{', 'x'.repeat(10_000), ' ']) {
      const init = { method: 'POST', headers: { 'content-type': 'text/plain' }, body }
      expect((await fetch(`${server.url}/api/v2/submit`, init)).status).toBe(401)
    }
  })
})

describe('a server without keys', () => {
  test('treats every client as the default tenant, whatever key it sends', async () => {
    const server = await startServer()
    for (const headers of [{}, withKey('sk-anything'), { 'x-api-key': 'a', ...withKey('b') }]) {
      const body = { threadId: 'open' }
      const { status } = await call(server, 'POST /api/v2/threads', { headers, body })
      expect([200, 201]).toContain(status)
    }
    expect((await server.log.getThread('open'))?.threadId).toBe('open')
  })

  test('is not a server whose last key was revoked, which refuses everyone', async () => {
    const server = await guardedServer()
    server.keys.replace([])
    for (const headers of [withKey(ACME), withKey(''), { 'x-api-key': 'anybody' }, {}]) {
      expect((await call(server, 'GET /api/v2/threads', { headers })).status).toBe(401)
    }
    const none = await startServer({ keys: new KeyRing([]) })
    expect((await call(none, 'GET /api/v2/threads')).status).toBe(401)
    expect((await call(none, 'GET /healthz')).status).toBe(200)
  })
})

describe('the keys of a tenant', () => {
  test('see the same turns; the default tenant can also have keys', async () => {
    const keys = new KeyRing([
      entry('one', 'acme', 'a'),
      entry('two', 'acme', 'b'),
      entry('three', 'default', 'a'),
    ])
    const server = await startServer({ keys })
    const submit = { body: { prompt: 'Hi', turnId: 't' }, headers: withKey('one') }
    expect((await call(server, 'POST /api/v2/submit', submit)).status).toBe(202)
    const seenBy = async (key: string) =>
      (await call(server, 'GET /xapi/turns/t', { headers: withKey(key) })).status
    expect([await seenBy('one'), await seenBy('two'), await seenBy('three')]).toEqual([
      200, 200, 404,
    ])
    expect(await server.log.getTurn('t')).toBeUndefined()
  })

  test('turns created without keys belong to the default tenant', async () => {
    const open = await startServer()
    const { turnId } = await finishedTurn(open)
    const keys = new KeyRing([entry(ACME), entry('three', 'default', 'a')])
    const server = await startServer({ log: open.log, keys })
    const seenBy = async (key: string) =>
      (await call(server, `GET /xapi/turns/${turnId}`, { headers: withKey(key) })).status
    expect([await seenBy(ACME), await seenBy('three')]).toEqual([404, 200])
  })
})
