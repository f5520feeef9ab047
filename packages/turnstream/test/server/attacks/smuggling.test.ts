/** A request has one beginning and one end, and nothing that a proxy before us could see otherwise. */
import { describe, expect, test, vi } from 'vitest'
import { sendRaw } from '../raw-http.ts'
import { RawClient } from '../streams/raw-client.ts'
import { call, startServer } from '../support.ts'
import { answersIn } from './fuzz/answers.ts'

// Many requests in one test, on a machine that runs everything else at the same time.
vi.setConfig({ testTimeout: 30_000 })

const INNER_BODY = '{"threadId":"smuggled"}'
/** What is to be taken for a request of its own. */
const INNER =
  'POST /api/v2/threads HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n' +
  `content-length: ${INNER_BODY.length}\r\n\r\n${INNER_BODY}`
const OUTER = 'POST /api/v2/threads HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n'
const chunkOf = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const END = '0\r\n\r\n'
const both = (first: string, second: string) => `${OUTER}${first}\r\n${second}\r\n\r\n`
const CHUNKED = 'transfer-encoding: chunked'
const { length } = INNER

const REFUSED: [name: string, bytes: string][] = [
  ['a length and chunks', `${both('content-length: 5', CHUNKED)}${END}${INNER}`],
  ['chunks and a length', `${both(CHUNKED, 'content-length: 5')}${END}${INNER}`],
  ['two lengths', `${both('content-length: 0', `content-length: ${length}`)}${INNER}`],
  ['the same length twice', `${both('content-length: 2', 'content-length: 2')}{}${INNER}`],
  ['a list of lengths', `${OUTER}content-length: 2, 2\r\n\r\n{}${INNER}`],
  ['a length with a sign', `${OUTER}content-length: +2\r\n\r\n{}${INNER}`],
  ['a length below zero', `${OUTER}content-length: -1\r\n\r\n${INNER}`],
  ['a length in hex', `${OUTER}content-length: 0x2\r\n\r\n{}${INNER}`],
  [
    'a length that is too large to be one',
    `${OUTER}content-length: ${'9'.repeat(30)}\r\n\r\n${INNER}`,
  ],
  ['a length and a space before the colon', `${OUTER}content-length : 2\r\n\r\n{}${INNER}`],
  ['an encoding that is none', `${OUTER}transfer-encoding: xchunked\r\n\r\n${END}${INNER}`],
  ['an encoding after the chunks', `${OUTER}${CHUNKED}, identity\r\n\r\n${END}${INNER}`],
  [
    'an encoding that hides behind a vertical tab',
    `${OUTER}transfer-encoding:\x0bchunked\r\n\r\n${END}${INNER}`,
  ],
  [
    'an encoding with a name that is cut',
    `${OUTER}transfer-encoding\r\n : chunked\r\n\r\n${END}${INNER}`,
  ],
  ['a size of a chunk that is none', `${OUTER}${CHUNKED}\r\n\r\nx\r\n${END}${INNER}`],
  ['a size of a chunk with a sign', `${OUTER}${CHUNKED}\r\n\r\n-2\r\n{}\r\n${END}${INNER}`],
  ['a size of a chunk in 0x', `${OUTER}${CHUNKED}\r\n\r\n0x2\r\n{}\r\n${END}${INNER}`],
  [
    'a size of a chunk beyond all bounds',
    `${OUTER}${CHUNKED}\r\n\r\n${'f'.repeat(20)}\r\n{}${INNER}`,
  ],
  ['a chunk that is longer than it says', `${OUTER}${CHUNKED}\r\n\r\n1\r\n{}\r\n${END}${INNER}`],
  ['chunks that end with LF', `${OUTER}${CHUNKED}\r\n\r\n2\n{}\n0\n\n${INNER}`],
  ['a CR alone within a header', `${OUTER}x: a\rcontent-length: 2\r\n\r\n{}${INNER}`],
  ['a NUL within a header', `${OUTER}x: a\0b\r\n\r\n${INNER}`],
  ['a name with a NUL', `${OUTER}x\0: a\r\n\r\n${INNER}`],
  ['a name with a space', `${OUTER}x y: a\r\n\r\n${INNER}`],
  ['a line without a colon', `${OUTER}smuggled\r\n\r\n${INNER}`],
  ['a line that is folded at the start', `POST /api/v2/threads HTTP/1.1\r\n x: y\r\n\r\n${INNER}`],
  ['lines that end with LF', `GET /healthz HTTP/1.1\nhost: a\n\n${INNER}`],
  [
    'a length among the headers after the last chunk',
    `${OUTER}${CHUNKED}\r\n\r\n0\r\ncontent-length: 5\r\n\r\n`,
  ],
  ['a header that goes on in the next line', `${OUTER}x: a\r\n content-length: 2\r\n\r\n${INNER}`],
  ['HTTP/0.9', `GET /healthz\r\n\r\n${INNER}`],
  ['HTTP/2 without a start', `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${INNER}`],
  ['two spaces and no version', `GET /healthz  \r\n\r\n${INNER}`],
  ['a method that is none', `G@T /healthz HTTP/1.1\r\nhost: a\r\n\r\n${INNER}`],
]

describe('an ambiguous request', () => {
  test.each(REFUSED)('is refused completely: %s', async (_name, bytes) => {
    const server = await startServer()
    const { all } = await sendRaw(server.url, bytes)
    const answers = answersIn(Buffer.from(all, 'latin1'))
    expect(answers.map(({ status, headers }) => [status, headers.get('connection')])).toEqual([
      [400, 'close'],
    ])
    expect(JSON.parse(answers[0]?.body ?? '')).toMatchObject({ error: { code: 'REQUEST_INVALID' } })
    expect(await server.log.getThread('smuggled')).toBeUndefined()
    expect(server.errors).toEqual([])
  })

  test('is one request when it has an unexpected body', async () => {
    const server = await startServer()
    const head = `GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: ${length}\r\n`
    const { all } = await sendRaw(server.url, `${head}connection: close\r\n\r\n${INNER}`)
    expect(answersIn(Buffer.from(all, 'latin1')).map(({ status }) => status)).toEqual([200])
    expect(await server.log.getThread('smuggled')).toBeUndefined()
  })

  test('is one request when its body looks like another', async () => {
    const server = await startServer()
    const body = `${OUTER}content-length: ${length}\r\n\r\n${INNER}`
    const chunks = `${OUTER}${CHUNKED}\r\n\r\n${chunkOf(INNER)}${END}`
    const last = 'GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n'
    for (const bytes of [body, chunks]) {
      const { all } = await sendRaw(server.url, `${bytes}${last}`)
      expect(answersIn(Buffer.from(all, 'latin1')).map(({ status }) => status)).toEqual([400, 200])
    }
    expect(await server.log.getThread('smuggled')).toBeUndefined()
  })

  test('trailers are ignored', async () => {
    const server = await startServer()
    const trailers = 'x-request-id: trailer\r\nhost: evil\r\norigin: null\r\n'
    const head = `${OUTER}${CHUNKED}\r\nconnection: close\r\n\r\n`
    const got = await sendRaw(
      server.url,
      `${head}${chunkOf('{"threadId":"h"}')}0\r\n${trailers}\r\n`,
    )
    expect(got.status).toBe(201)
    expect(got.headers['x-request-id']).not.toBe('trailer')
    expect(await server.log.getThread('h')).toBeDefined()
  })
})

describe('rare but valid requests', () => {
  test('pipelined requests are answered in order', async () => {
    const server = await startServer()
    const ids = Array.from({ length: 50 }, (_, index) => `r${index}`)
    const bytes = ids.map((id, index) => {
      const path = index % 2 === 0 ? '/healthz' : '/api/v2/threads'
      const close = index === ids.length - 1 ? 'connection: close\r\n' : ''
      return `GET ${path} HTTP/1.1\r\nhost: a\r\nx-request-id: ${id}\r\n${close}\r\n`
    })
    const { all } = await sendRaw(server.url, bytes.join(''))
    const answers = answersIn(Buffer.from(all, 'latin1'))
    expect(answers.map(({ headers }) => headers.get('x-request-id'))).toEqual(ids)
  })

  test.each([
    ['an absolute URL', 'GET http://a/healthz HTTP/1.1\r\nhost: a\r\n', 200],
    ['HTTP/1.0', 'GET /healthz HTTP/1.0\r\nhost: a\r\n', 200],
    ['empty lines before it', '\r\n\r\nGET /healthz HTTP/1.1\r\nhost: a\r\n', 200],
    ['an upgrade to HTTP/2', 'GET /healthz HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\n', 200],
    ['a wish for a web socket', 'GET /healthz HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\n', 200],
    ['an unknown Expect', 'GET /healthz HTTP/1.1\r\nhost: a\r\nexpect: x\r\n', 200],
    ['TRACE', 'TRACE /healthz HTTP/1.1\r\nhost: a\r\nx-secret: echo\r\n', 405],
    ['an unknown method', 'PURGE /healthz HTTP/1.1\r\nhost: a\r\n', 405],
    ['an address of another scheme', 'GET ftp://a/healthz HTTP/1.1\r\nhost: a\r\n', 400],
    ['an address without a path', 'OPTIONS * HTTP/1.1\r\nhost: a\r\n', 400],
  ])('%s', async (_name, head, status) => {
    const server = await startServer()
    const upgrade = head.includes('upgrade') ? 'connection: upgrade, close' : 'connection: close'
    const got = await sendRaw(server.url, `${head}${upgrade}\r\n\r\n`)
    expect(got.status).toBe(status)
    // TRACE would repeat what came, also what was meant for the server alone.
    expect(got.body).not.toContain('echo')
    expect(answersIn(Buffer.from(got.all, 'latin1'))).toHaveLength(1)
    expect(server.errors).toEqual([])
  })

  test('CONNECT opens no tunnel: the connection is closed', async () => {
    const server = await startServer()
    const head = 'CONNECT 127.0.0.1:22 HTTP/1.1\r\nhost: 127.0.0.1:22\r\n\r\n'
    const { all } = await sendRaw(server.url, head)
    expect(all).not.toMatch(/^HTTP\/1\.1 2/)
    expect((await call(server, 'GET /healthz')).status).toBe(200)
  })

  test('a stream drops requests pipelined behind it when its reader disconnects', async () => {
    const server = await startServer()
    await server.log.putThread({ threadId: 'h' })
    const client = await RawClient.open(Number(new URL(server.url).port), '/xapi/threads/h/stream')
    client.socket.write(INNER)
    await client.until(({ body }) => body.length > 0)
    client.close()
    await client.closed()
    expect((await call(server, 'GET /healthz')).status).toBe(200)
    expect(server.errors).toEqual([])
  })
})
