/** What all answers have in common. */

import { PassThrough } from 'node:stream'
import { HTTPException } from 'hono/http-exception'
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../../core/src/async/clock.ts'
import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../../../core/src/index.ts'
import { toErrorResponse } from '../../src/server/error-response.ts'
import { PORT_LIMITS } from '../../src/server/limits/port-limits.ts'
import { refuseMalformed } from '../../src/server/listen.ts'
import { MemoryLog } from '../../src/server.ts'
import { sendRaw } from './raw-http.ts'
import { call, finishedTurn, startServer } from './support.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/

describe('x-request-id', () => {
  const ASKS = [
    'GET /healthz',
    'GET /api/v2/threads',
    'GET /api/v2/runs/no',
    'GET /nowhere',
    'PUT /healthz',
    'OPTIONS /healthz',
    'GET /docs',
    'GET /',
  ] as const

  test.each(ASKS)('is returned with %s', async (ask) => {
    const { headers } = await call(await startServer(), ask, { headers: { 'x-request-id': 'id' } })
    expect(headers.get('x-request-id')).toBe('id')
  })

  test('is returned with a stream', async () => {
    const server = await startServer()
    const { turnId } = await finishedTurn(server)
    const headers = { 'x-request-id': 'id' }
    const stream = await call(server, `GET /xapi/turns/${turnId}/stream`, { headers })
    expect(stream.headers.get('x-request-id')).toBe('id')
  })

  test.each([
    ['~!@#$%^&*()_+{}|:"<>?', true],
    ['x'.repeat(200), true],
    ['x'.repeat(201), false],
    ['a b', false],
    ['ü', false],
    ['', false],
  ])('%j is accepted: %s', async (id, isKept) => {
    const { headers } = await call(await startServer(), 'GET /healthz', {
      headers: { 'x-request-id': id },
    })
    expect(headers.get('x-request-id')).toMatch(isKept ? /^/ : UUID)
    expect(headers.get('x-request-id') === id).toBe(isKept)
  })

  test('is generated when missing', async () => {
    const server = await startServer()
    const one = await call(server, 'GET /healthz')
    const two = await call(server, 'GET /healthz')
    expect(one.headers.get('x-request-id')).toMatch(UUID)
    expect(two.headers.get('x-request-id')).not.toBe(one.headers.get('x-request-id'))
  })
})

describe('a path and a method', () => {
  test('an unknown path is ROUTE_UNKNOWN', async () => {
    const server = await startServer()
    for (const ask of ['GET /nowhere', 'POST /', 'GET /api/v2', 'GET /docs/x'] as const) {
      const { status, json } = await call(server, ask)
      expect([ask, status, json?.error?.code]).toEqual(
        ask === 'POST /' ? [ask, 405, 'METHOD_NOT_ALLOWED'] : [ask, 404, 'ROUTE_UNKNOWN'],
      )
    }
  })

  test.each([
    ['PUT /api/v2/submit', 'OPTIONS, POST'],
    ['GET /api/v2/submit', 'OPTIONS, POST'],
    ['DELETE /api/v2/threads', 'GET, HEAD, OPTIONS, POST'],
    ['POST /api/v2/threads/h', 'DELETE, GET, HEAD, OPTIONS, PATCH'],
    ['GET /api/v2/runs/r/cancel', 'OPTIONS, POST'],
    ['POST /xapi/turns/t/stream', 'GET, HEAD, OPTIONS'],
    ['GET /xapi/threads/t/turn', 'OPTIONS, POST'],
    ['POST /readyz', 'GET, HEAD, OPTIONS'],
  ] as const)('a method the path does not have is METHOD_NOT_ALLOWED: %s', async (ask, allow) => {
    const server = await startServer()
    const { status, headers, json } = await call(server, ask)
    expect([status, json.error.code]).toEqual([405, 'METHOD_NOT_ALLOWED'])
    expect(headers.get('allow')).toBe(allow)
    const asked = await call(server, `OPTIONS ${ask.split(' ')[1]}` as `OPTIONS /${string}`)
    expect([asked.status, asked.headers.get('allow')]).toEqual([204, allow])
    expect(asked.headers.get('access-control-allow-origin')).toBeNull()
  })

  test('HEAD returns the headers of GET without a body', async () => {
    const server = await startServer()
    const { turnId } = await finishedTurn(server)
    for (const path of [
      'healthz',
      'api/hello',
      'nowhere',
      `xapi/turns/${turnId}`,
      `xapi/turns/${turnId}/stream`,
    ]) {
      const get = await call(server, `GET /${path}`)
      const head = await call(server, `HEAD /${path}`)
      expect([path, head.status, head.json]).toEqual([path, get.status, ''])
      expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'))
    }
  })
})

describe('a response', () => {
  test('is not cacheable and not sniffable', async () => {
    const server = await startServer()
    for (const ask of ['GET /api/v2/threads', 'GET /api/v2/runs/no', 'GET /nowhere'] as const) {
      const { headers } = await call(server, ask)
      expect(headers.get('cache-control')).toBe('no-store')
      expect(headers.get('x-content-type-options')).toBe('nosniff')
    }
  })
})

describe('an unexpected error', () => {
  class Broken extends MemoryLog {
    override async listThreads(): Promise<never> {
      throw new TypeError('the secret is 42')
    }
  }

  test('is INTERNAL_ERROR without details, and reported with its request id', async () => {
    const server = await startServer({ log: new Broken() })
    const headers = { 'x-request-id': 'id' }
    const { status, json } = await call(server, 'GET /api/v2/threads', { headers })
    expect(status).toBe(500)
    expect(json).toEqual({
      error: {
        code: 'INTERNAL_ERROR',
        message: ERROR_CODES.INTERNAL_ERROR.summary,
        requestId: 'id',
      },
    })
    expect(server.errors).toEqual([{ error: new TypeError('the secret is 42'), requestId: 'id' }])
  })
})

describe('an error response', () => {
  const codes = Object.keys(ERROR_CODES) as ErrorCode[]

  test.each(codes)('%s', (code) => {
    const { status, body, headers } = toErrorResponse(
      new TurnstreamError(code, 'what happened'),
      'id',
    )
    const known = ERROR_CODES[code]
    expect(status).toBe(code === 'ABORTED' ? 500 : known.status)
    expect(body.error).toMatchObject({ code, requestId: 'id' })
    expect(body.error.message.includes('what happened')).toBe(known.status < 500)
    const waits = known.retryable && [409, 503].includes(known.status)
    expect(headers['retry-after']).toBe(waits ? '1' : undefined)
  })
})

test('errors of the framework are INTERNAL_ERROR, except body errors', () => {
  const codes = [400, 415, 418].map((status) => {
    const { code, body } = toErrorResponse(
      new HTTPException(status as 400, { message: 'the secret' }),
      'id',
    )
    expect(JSON.stringify(body)).not.toContain('secret')
    return code
  })
  expect(codes).toEqual(['REQUEST_INVALID', 'MEDIA_TYPE_UNSUPPORTED', 'INTERNAL_ERROR'])
})

describe('a client that disconnected', () => {
  test.each([
    ['because it was reset', { code: 'ECONNRESET' }, false],
    ['because it is closed for writing', {}, true],
  ])('gets no response: %s', (_name, fields, isEnded) => {
    const socket = new PassThrough()
    if (isEnded) socket.end()
    const options = { clock: systemClock, limits: PORT_LIMITS }
    refuseMalformed(Object.assign(new Error('gone'), fields), socket, options)
    expect(socket.destroyed).toBe(true)
    expect(socket.read()).toBeNull()
  })
})

describe('a malformed request', () => {
  const ROWS: [name: string, text: string, status: number][] = [
    ['noise', 'hello\r\n\r\n', 400],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00', 400],
    ['a version that is none', 'GET / HTTP/9.9\r\nhost: a\r\n\r\n', 400],
    ['no host', 'GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n', 400],
    ['a host that is none', 'GET /healthz HTTP/1.1\r\nhost: a b\r\nconnection: close\r\n\r\n', 400],
    ['a header that is none', 'GET /healthz HTTP/1.1\r\nhost: a\r\nx y\r\n\r\n', 400],
    [
      'two sizes',
      'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
      400,
    ],
    ['no path', 'OPTIONS * HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n', 400],
  ]

  test.each(ROWS)('%s', async (_name, text, status) => {
    const server = await startServer()
    const answer = await sendRaw(server.url, text)
    expect(answer.status).toBe(status)
    expect(answer.headers['x-request-id']).toMatch(UUID)
    const requestId = answer.headers['x-request-id']
    expect(JSON.parse(answer.body)).toMatchObject({ error: { code: 'REQUEST_INVALID', requestId } })
    expect((await call(server, 'GET /healthz')).status).toBe(200)
    expect(server.errors).toEqual([])
  })
})

test('a thrown value that is not an error is INTERNAL_ERROR', async () => {
  class Throwing extends MemoryLog {
    override async listThreads(): Promise<never> {
      // oxlint-disable-next-line typescript/only-throw-error -- a store of somebody else may
      throw 'the secret'
    }
  }
  const server = await startServer({ log: new Throwing() })
  const { status, json } = await call(server, 'GET /api/v2/threads')
  expect([status, json.error]).toEqual([
    500,
    {
      code: 'INTERNAL_ERROR',
      message: ERROR_CODES.INTERNAL_ERROR.summary,
      requestId: expect.any(String),
    },
  ])
})
