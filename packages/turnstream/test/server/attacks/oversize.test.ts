/** Whatever is larger than it may be is refused, and costs no more than what it takes to see that. */
import { describe, expect, test, vi } from 'vitest'
import { sendRaw } from '../raw-http.ts'
import { call, finishedTurn, startServer, type TestServer } from '../support.ts'
import { oversizesOf } from './bounded-fields.ts'

// Many requests in one test, on a machine that runs everything else at the same time.
vi.setConfig({ testTimeout: 60_000 })

async function post(server: TestServer, path: string, body: string | Buffer, method = 'POST') {
  const type = `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n`
  const head = `${method} ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${type}\r\n`
  const got = await sendRaw(server.url, head, body)
  return { status: got.status, json: JSON.parse(got.body), all: got.all }
}

/** Every operation, with the ids of a turn that is there. */
function operationsOf({ document }: TestServer) {
  return Object.entries(document.paths).flatMap(([template, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...{ name: `${method.toUpperCase()} ${template}`, template, operation },
      ...{ method: method.toUpperCase(), path: template.replaceAll(/\{\w+\}/g, 'known') },
    })),
  )
}

interface Refusal {
  readonly code: string
  readonly message: string
  readonly param?: string
  readonly details?: readonly { readonly path: string }[]
}

/** Whether a refusal names a field: in our own form exactly or by a part, in those of vendors by what it is part of. */
function isNamed(field: string, refusal: Refusal, at: string): boolean {
  const { code, message, param, details = [] } = refusal
  const [whole = ''] = field.split('.')
  // Anthropic's form has no place for the name but the message.
  if (at.startsWith('/v1/messages')) return message.split(/\W+/).includes(whole)
  if (at.startsWith('/v1/')) return param?.match(/^\w+/)?.[0] === whole
  const isWithin = ({ path }: { path: string }) => `${path}.`.startsWith(`body.${field}.`)
  return code === 'REQUEST_INVALID' && details.some(isWithin)
}

test('every body field has a bound and is named when it exceeds it', {
  tags: ['slow'],
}, async () => {
  const server = await startServer({ maxBodyBytes: 64 * 1024 * 1024 })
  await finishedTurn(server, { turnId: 'known', threadId: 'known' })
  const before = (await server.log.listThreads()).items
  const fields = operationsOf(server).flatMap(({ name, method, path, operation }) => {
    const schema = operation.requestBody?.content['application/json']?.schema
    const found = schema === undefined ? [] : oversizesOf(server.document, schema)
    return found.map((field) => ({ ...field, name, method, at: path }))
  })
  expect(fields.length).toBeGreaterThan(30)
  for (const { name, method, at, path, body } of fields) {
    const { status, json } = await post(server, at, JSON.stringify(body), method)
    expect([name, path, status]).toEqual([name, path, 400])
    expect(isNamed(path, json.error as Refusal, at), `${name}: ${path}`).toBe(true)
    expect(JSON.stringify(json).length).toBeLessThan(6000)
  }
  expect((await server.log.listThreads()).items).toEqual(before)
  expect(server.errors).toEqual([])
})

test('every parameter has a bound', async () => {
  const server = await startServer()
  await finishedTurn(server, { turnId: 'known', threadId: 'known' })
  const long = 'x'.repeat(5000)
  const parameters = operationsOf(server).flatMap((each) =>
    each.operation.parameters.map(({ name, in: where }) => ({ ...each, parameter: name, where })),
  )
  for (const { name, method, template, path, parameter, where } of parameters) {
    // Nobody looks at it without keys, and with them only those that we have made are good.
    if (parameter === 'token') continue
    // What is too long for a trace is none, and is kept nowhere: trace-context.test.ts.
    if (parameter === 'traceparent' || parameter === 'tracestate') continue
    const filled = template.replace(`{${parameter}}`, long).replaceAll(/\{\w+\}/g, 'known')
    const query = where === 'query' ? `?${parameter}=${long}` : ''
    const target = `${where === 'path' ? filled : path}${query}`
    const header = where === 'header' ? `${parameter}: ${long}\r\n` : ''
    const type = 'content-type: application/json\r\ncontent-length: 15\r\n'
    const rest = method === 'GET' || method === 'DELETE' ? '\r\n' : `${type}\r\n{"prompt":"Hi"}`
    const head = `${method} ${target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${header}`
    const got = await sendRaw(server.url, `${head}${rest}`)
    expect([name, parameter, got.status]).toEqual([name, parameter, 400])
  }
  expect(parameters.length).toBeGreaterThan(20)
  expect(server.errors).toEqual([])
})

describe('a body', () => {
  const many = (count: number, text: string) => Array.from({ length: count }, () => text).join(',')

  const ROWS: [name: string, path: string, body: () => string, status: number][] = [
    ['with 100,000 inputs', '/api/v2/submit', () => `{"input":[${many(100_000, '{}')}]}`, 400],
    [
      'with 100,000 tools',
      '/api/v2/submit',
      () => `{"prompt":"a","tools":[${many(100_000, '{}')}]}`,
      400,
    ],
    [
      'with a title of 10 MB',
      '/api/v2/threads',
      () => `{"title":"${'x'.repeat(10_000_000)}"}`,
      413,
    ],
    ['with a title of 3 MB', '/api/v2/threads', () => `{"title":"${'x'.repeat(3_000_000)}"}`, 400],
    ['with 100,000 fields', '/api/v2/threads', () => `{${many(100_000, '"a":1')}}`, 400],
    [
      ...(['with 100,000 fields of metadata', '/api/v2/threads'] as const),
      () =>
        `{"metadata":{${Array.from({ length: 100_000 }, (_, index) => `"${index}":1`).join()}}}`,
      400,
    ],
    ['of brackets alone', '/api/v2/threads', () => '['.repeat(3_000_000), 400],
    ['of braces alone', '/api/v2/threads', () => '{"a":'.repeat(600_000), 400],
    ['of quotes alone', '/api/v2/threads', () => '"'.repeat(3_000_000), 400],
    ['of backslashes in a text', '/api/v2/threads', () => `"${'\\'.repeat(3_000_000)}`, 400],
    ['of spaces', '/api/v2/threads', () => ' '.repeat(3_000_000), 400],
    ['of one huge number', '/api/v2/threads', () => '9'.repeat(3_000_000), 400],
    ['with a huge number in it', '/api/v2/submit', () => '{"prompt":"a","temperature":1e999}', 400],
    [
      'with a huge negative one',
      '/api/v2/submit',
      () => '{"prompt":"a","maxOutputTokens":-1e999}',
      400,
    ],
    [
      ...(['with a number that is not exact', '/api/v2/submit'] as const),
      () => '{"prompt":"a","thinkingBudget":9007199254740993}',
      400,
    ],
  ]

  test.each(ROWS)('%s to %s', async (_name, path, body, status) => {
    const server = await startServer()
    const text = body()
    const got = await post(server, path, text)
    expect(got.status).toBe(status)
    if (status >= 400) {
      expect(['REQUEST_INVALID', 'BODY_TOO_LARGE']).toContain(got.json.error.code)
      expect(got.all.length).toBeLessThan(6000)
    }
    expect((await call(server, 'GET /healthz')).status).toBe(200)
    expect(server.errors).toEqual([])
  })

  test('with a duplicate field uses the last one', async () => {
    const server = await startServer()
    const body = '{"threadId":"a","title":"one","threadId":"b","title":"two"}'
    expect((await post(server, '/api/v2/threads', body)).json).toMatchObject({
      ...{ threadId: 'b', title: 'two' },
    })
    expect(await server.log.getThread('a')).toBeUndefined()
  })

  test('with metadata at its bound is stored exactly, and one more character is refused', async () => {
    const server = await startServer()
    const metadata = { a: 'x'.repeat(16_384 - '{"a":""}'.length) }
    const made = await call(server, 'POST /api/v2/threads', { body: { threadId: 'h', metadata } })
    expect([made.status, made.json.metadata]).toEqual([201, metadata])
    const more = { metadata: { a: `${metadata.a}x` } }
    expect((await call(server, 'POST /api/v2/threads', { body: more })).status).toBe(400)
  })
})
