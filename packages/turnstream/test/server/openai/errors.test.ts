/** Whatever is refused on /v1, and whyever, has the status and the shape of OpenAI's. */

import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from 'openai'
import { describe, expect, test } from 'vitest'
import { KeyRing, MemoryLog } from '../../../src/server.ts'
import { type Answer, sse } from '../../providers/vendor-server.ts'
import { startServer } from '../support.ts'
import { ASK, clientOf, fixtures, HELLO, post, stage } from './stage.ts'

const PLAIN = { model: 'plain/m', messages: HELLO }

async function failure(asked: PromiseLike<unknown>): Promise<APIError> {
  const error = await asked.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof APIError) return error
  throw new Error(`no APIError but ${String(error)}`)
}

const SHAPE = {
  message: expect.stringMatching(/\w/),
  type: expect.stringMatching(/^(?:invalid_request_error|rate_limit_error|server_error)$/),
  param: expect.toSatisfy((param) => param === null || typeof param === 'string'),
  code: expect.toSatisfy((code) => code === null || typeof code === 'string'),
}

const refuses =
  (status: number, headers: Record<string, string> = {}): Answer =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end('{"error":{"message":"The vendor says no to sk-secret"}}')
  }

/** What the vendor answers with, and what the client is told. */
const VENDOR_ROWS: [status: number, told: number, code: string][] = [
  [302, 502, 'HTTP_302'],
  [400, 400, 'HTTP_400'],
  [401, 502, 'HTTP_401'],
  [402, 429, 'insufficient_quota'],
  [403, 502, 'HTTP_403'],
  [404, 404, 'model_not_found'],
  [408, 504, 'HTTP_408'],
  [413, 413, 'HTTP_413'],
  [418, 502, 'HTTP_418'],
  [422, 400, 'HTTP_422'],
  [429, 429, 'rate_limit_exceeded'],
  [500, 502, 'HTTP_500'],
  [503, 503, 'HTTP_503'],
  [504, 504, 'HTTP_504'],
  [529, 503, 'HTTP_529'],
]

describe('a vendor error', () => {
  test.each(VENDOR_ROWS)('with status %i is returned as %i', async (status, told, code) => {
    const { client, server } = await stage('openai-chat', refuses(status))
    for (const stream of [true, false]) {
      const error = await failure(client.chat.completions.create({ ...ASK, stream }))
      expect([error.status, error.code]).toEqual([told, code])
      expect(error.error).toEqual(SHAPE)
      expect(error.message).not.toContain('sk-secret')
      expect(error.headers?.get('x-turn-id')).toMatch(/\w/)
    }
    expect(server.errors).toEqual([])
  })

  test('about our key is reported as ours and not retryable', async () => {
    const { client, vendor } = await stage('openai-chat', refuses(401))
    const patient = clientOf({ url: client.baseURL.replace(/\/v1$/, '') }, { maxRetries: 2 })
    const error = await failure(patient.chat.completions.create(ASK))
    expect(error).toBeInstanceOf(InternalServerError)
    expect(error.message).toContain('operator')
    expect(vendor.bodies).toHaveLength(1)
  })

  test('about the quota has its code and is not retried', async () => {
    const answer: Answer = (response) => {
      response.writeHead(429, { 'content-type': 'application/json' })
      response.end('{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}')
    }
    const { server, vendor } = await stage('openai-chat', answer, { provider: { maxRetries: 2 } })
    const patient = clientOf(server, { maxRetries: 2 })
    const error = await failure(patient.chat.completions.create(ASK))
    expect(error).toBeInstanceOf(RateLimitError)
    expect(error.code).toBe('insufficient_quota')
    expect(error.message).toContain('operator')
    expect(vendor.bodies).toHaveLength(1)
  })

  test.each([true, false])('with retry-after passes it on (stream: %s)', async (stream) => {
    const answer = refuses(429, { 'retry-after': '7' })
    const { client } = await stage('openai-chat', answer)
    const error = await failure(client.chat.completions.create({ ...ASK, stream }))
    expect(error).toBeInstanceOf(RateLimitError)
    expect(error.headers?.get('retry-after')).toBe('7')
  })

  test('in the stream before any output is returned as a status', async () => {
    const overloaded = '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    const { client } = await stage('anthropic-messages', sse(overloaded))
    const error = await failure(client.chat.completions.create({ ...ASK, stream: true }))
    expect([error.status, error.code]).toEqual([503, 'overloaded_error'])
  })

  test('connecting is 502', async () => {
    const { client, vendor } = await stage('openai-chat', sse())
    await vendor.close()
    const error = await failure(client.chat.completions.create(ASK))
    expect([error.status, error.code]).toEqual([502, 'UPSTREAM_UNREACHABLE'])
  })

  test('timing out is 504', async () => {
    const provider = { timeLimits: { firstEventMs: 20 } }
    const { client } = await stage('openai-chat', () => {}, { provider })
    const error = await failure(client.chat.completions.create({ ...ASK, stream: true }))
    expect([error.status, error.code]).toEqual([504, 'UPSTREAM_TIMEOUT'])
  })
})

/** What each provider cannot do, by the name that the client knows. */
const CANNOT: [Parameters<typeof stage>[0], body: object, param: string][] = [
  ['anthropic-messages', { tool_choice: 'required' }, 'tool_choice'],
  ['openai-chat', { tool_choice: 'required' }, 'tool_choice'],
  [
    'gemini',
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: 'data:image/gif;base64,R0lGODlhAQABAAAAACw=' } },
          ],
        },
      ],
    },
    'messages',
  ],
]

describe('unsupported input is refused without a vendor request', () => {
  test.each(CANNOT)('%s: %j', async (vendor, body, param) => {
    const { client, vendor: server } = await stage(vendor, fixtures(vendor, 'text'))
    for (const stream of [true, false]) {
      const error = await failure(
        client.chat.completions.create({ ...ASK, ...body, stream } as never),
      )
      expect(error).toBeInstanceOf(BadRequestError)
      expect([error.param, error.code]).toEqual([param, 'OPTION_INVALID'])
    }
    expect(server.bodies).toEqual([])
  })
})

describe('keys', () => {
  const sha256 = createHash('sha256').update('right').digest('hex')
  const keys = new KeyRing([{ tenant: 'acme', name: 'key', sha256 }])

  test('a wrong one is invalid_api_key, a valid one is accepted', async () => {
    const server = await startServer({ keys })
    const wrong = await failure(
      clientOf(server, { apiKey: 'wrong' }).chat.completions.create(PLAIN),
    )
    expect(wrong).toBeInstanceOf(AuthenticationError)
    expect(wrong.error).toEqual({ ...SHAPE, code: 'invalid_api_key' })
    const right = clientOf(server, { apiKey: 'right' })
    const { data, response } = await right.chat.completions.create(PLAIN).withResponse()
    expect(data.choices[0]?.message.content).toBe('Hello, world.')
    // The turn is that of the tenant, and nobody else's.
    const turnId = response.headers.get('x-turn-id') ?? ''
    expect(await server.log.ofTenant('acme').getTurn(turnId)).toBeDefined()
    expect(await server.log.getTurn(turnId)).toBeUndefined()
  })

  test('are required for the models, too', async () => {
    const server = await startServer({ keys })
    const error = await failure(clientOf(server, { apiKey: 'wrong' }).models.list())
    expect([error.status, error.code]).toEqual([401, 'invalid_api_key'])
  })
})

describe('limits', () => {
  test.each([
    ['submitsPerMinute', { submitsPerMinute: 1 }],
    ['maxRunningTurns', { maxRunningTurns: 1 }],
    ['maxOpenStreams', { maxOpenStreams: 1 }],
  ] as const)('%s', async (_name, limits) => {
    const server = await startServer({ limits })
    const client = clientOf(server)
    const next = server.held.nextCall()
    const first = client.chat.completions.create({ model: 'held/m', messages: HELLO })
    const running = await next
    const error = await failure(client.chat.completions.create({ ...PLAIN, stream: true }))
    expect(error).toBeInstanceOf(RateLimitError)
    expect(error.error).toEqual({ ...SHAPE, code: 'rate_limit_exceeded', type: 'rate_limit_error' })
    expect(Number(error.headers?.get('retry-after'))).toBeGreaterThanOrEqual(1)
    running.finish()
    await first
  })

  test('a slot is released after every response and error', async () => {
    const server = await startServer({ limits: { maxOpenStreams: 1 } })
    const client = clientOf(server)
    for (const body of [{}, { stream: true }, { model: 'plain/no' }, { seed: 1 }, { n: 1 }]) {
      await post(server, { ...PLAIN, ...body })
    }
    expect((await client.chat.completions.create(PLAIN)).object).toBe('chat.completion')
  })
})

describe('errors before routing', () => {
  const ROWS: [name: string, path: string, init: RequestInit, status: number, code: string][] = [
    ['no such path', '/v1/nothing', {}, 404, 'ROUTE_UNKNOWN'],
    ['another method', '/v1/chat/completions', {}, 405, 'METHOD_NOT_ALLOWED'],
    ['another method', '/v1/models', { method: 'DELETE' }, 405, 'METHOD_NOT_ALLOWED'],
    ['no such model', '/v1/models/no', {}, 404, 'model_not_found'],
    ['a long address', `/v1/models/${'x'.repeat(9000)}`, {}, 414, 'URL_TOO_LONG'],
    [
      'another origin',
      '/v1/models',
      { headers: { origin: 'https://x.example' } },
      403,
      'ORIGIN_REFUSED',
    ],
    [
      'no JSON by its type',
      '/v1/chat/completions',
      { method: 'POST', body: '{}', headers: { 'content-type': 'text/plain' } },
      415,
      'MEDIA_TYPE_UNSUPPORTED',
    ],
  ]

  test.each(ROWS)('%s: %s', async (_name, path, init, status, code) => {
    const server = await startServer()
    const response = await fetch(`${server.url}${path}`, init)
    expect(response.status).toBe(status)
    expect(await response.json()).toEqual({ error: { ...SHAPE, code } })
    expect(response.headers.get('x-request-id')).toMatch(/\w/)
  })

  test.each([
    ['', { connection: 'Upgrade', upgrade: 'websocket' }],
    [' through a proxy that drops the header', { 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' }],
  ])('a WebSocket%s, on any path that has none', async (_how, headers) => {
    const server = await startServer()
    const request = get(`${server.url}/v1/responses`, { headers })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    expect(response.statusCode).toBe(426)
    const body = (await response.setEncoding('utf8').toArray()).join('')
    expect(JSON.parse(body)).toEqual({ error: { ...SHAPE, code: 'UPGRADE_REFUSED' } })
  })

  test('a body that is too large', async () => {
    const server = await startServer({ maxBodyBytes: 100 })
    const { status, text } = await post(server, { ...PLAIN, user: 'x'.repeat(200) })
    expect([status, JSON.parse(text).error]).toEqual([413, { ...SHAPE, code: 'BODY_TOO_LARGE' }])
  })

  test('an unexpected error reveals no details', async () => {
    class Broken extends MemoryLog {
      override async create(): Promise<never> {
        throw new TypeError('the secret is 42')
      }
    }
    const server = await startServer({ log: new Broken() })
    const error = await failure(clientOf(server).chat.completions.create(PLAIN))
    expect(error.status).toBe(500)
    expect(error.error).toEqual({ ...SHAPE, type: 'server_error', code: 'INTERNAL_ERROR' })
    expect(JSON.stringify(error.error)).not.toContain('42')
    expect(server.errors).toHaveLength(1)
  })

  test('other routes keep their own error format', async () => {
    const server = await startServer()
    const response = await fetch(`${server.url}/api/v2/runs/no`)
    expect(await response.json()).toMatchObject({ error: { code: 'TURN_UNKNOWN' } })
  })
})

test('an unknown model is model_not_found', async () => {
  const server = await startServer()
  const error = await failure(
    clientOf(server).chat.completions.create({ model: 'plain/nope', messages: HELLO }),
  )
  expect(error).toBeInstanceOf(NotFoundError)
  expect([error.code, error.param]).toEqual(['model_not_found', 'model'])
})

test('a turn cancelled before any output is a non-retryable error', async () => {
  const server = await startServer()
  const next = server.held.nextCall()
  const asked = clientOf(server, { maxRetries: 2 }).chat.completions.create({
    model: 'held/m',
    messages: HELLO,
    stream: true,
  })
  const { runId } = await next
  await server.gateway.turns.cancel(runId, 'enough')
  const error = await failure(asked)
  expect([error.status, error.code]).toEqual([500, 'ABORTED'])
  expect(error.message).toContain('enough')
  expect(server.held.calls).toHaveLength(1)
})

test('errors that a retry cannot fix say so, and others do not', async () => {
  const server = await startServer()
  const ask = (path: string, body: object, headers: Record<string, string> = {}) =>
    fetch(`${server.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
  const key = { 'idempotency-key': 'same' }
  await ask('/v1/chat/completions', PLAIN, key)
  const conflict = await ask('/v1/chat/completions', { ...PLAIN, seed: 2 }, key)
  const compact = await ask('/v1/responses/compact', {})
  const unknown = await ask('/v1/chat/completions', { ...PLAIN, model: 'plain/no/such' })
  const statuses = [conflict, compact, unknown].map((each) => each.status)
  expect(statuses).toEqual([409, 501, expect.any(Number)])
  for (const { headers } of [conflict, compact]) expect(headers.get('x-should-retry')).toBe('false')
  expect(unknown.headers.get('x-should-retry')).toBeNull()
  const own = await ask('/api/v2/submit', { prompt: 'Hi', runId: 'same' })
  expect([own.status, own.headers.get('x-should-retry')]).toEqual([409, null])
})
