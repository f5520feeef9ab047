import { describe, expect, test } from 'vitest'
import { encodeHeader } from '../../src/cassettes/cassette.ts'
import { CallRecorder, type RecordedRequest } from '../../src/cassettes/recorder.ts'
import { isSecretName, Redaction, secretsOf } from '../../src/cassettes/redact.ts'
import { decode } from './samples.ts'

const KEY = 'sk-test-0123456789abcdef'
const REQUEST: RecordedRequest = {
  method: 'POST',
  url: 'https://api.example/v1/messages?key=query-secret-1&alt=sse',
  headers: { authorization: `Bearer ${KEY}`, 'x-api-key': 'other-key-123', accept: 'text/plain' },
  body: '{"model":"m"}',
}

function record(request: RecordedRequest, chunks: readonly string[], maxLines = Infinity) {
  const lines: string[] = []
  let at = 0
  const recorder = new CallRecorder(request, {
    call: 1,
    at: () => at++,
    write: (line, isEnd) => {
      if (lines.length >= maxLines && !isEnd) return false
      lines.push(line)
      return true
    },
    secrets: ['configured-secret'],
  })
  recorder.response(200, { 'set-cookie': 'a=b', 'content-type': 'text/event-stream' })
  for (const chunk of chunks) recorder.chunk(new TextEncoder().encode(chunk))
  recorder.end('complete')
  recorder.end('failed')
  recorder.chunk(new Uint8Array([1]))
  const text = lines.join('')
  return { text, call: decode(encodeHeader({ createdAt: 1 }) + text).calls[0]! }
}

function bodyOf(call: ReturnType<typeof record>['call']): string {
  return Buffer.concat(call.chunks.map(({ bytes }) => bytes)).toString()
}

describe('a recorder', () => {
  test('writes request, response, chunks and end', () => {
    const { call } = record(REQUEST, ['data: 1\n\n', 'data: 2\n\n'])
    expect(call).toMatchObject({
      request: {
        vendor: 'anthropic-messages',
        method: 'POST',
        url: 'https://api.example/v1/messages?key=%5Bredacted%5D&alt=sse',
        headers: { authorization: '[redacted]', 'x-api-key': '[redacted]', accept: 'text/plain' },
        body: { model: 'm' },
      },
      response: { status: 200, headers: { 'set-cookie': '[redacted]' } },
      end: { reason: 'complete' },
    })
    expect(call.chunks.map(({ at }) => at)).toEqual([2, 3])
    expect(bodyOf(call)).toBe('data: 1\n\ndata: 2\n\n')
  })

  test('ends with the limit when the cassette is full', () => {
    const { call } = record(REQUEST, ['one', 'two', 'three'], 3)
    expect(call.end?.reason).toBe('limit')
    expect(bodyOf(call)).toBe('one')
  })

  test('marks a body that was too large', () => {
    const { call } = record({ ...REQUEST, body: undefined }, [])
    expect(call.request).toMatchObject({ truncated: true })
    expect(call.request).not.toHaveProperty('body')
  })

  test('of a vendor that repeats the key, in one chunk or byte by byte, leaves none of it', () => {
    const echo = `{"error":"bad key ${KEY} configured-secret, ${encodeURIComponent('query-secret-1')} ü"}`
    for (const chunks of [[echo], echo.split('')]) {
      const { text, call } = record(REQUEST, chunks)
      for (const secret of [KEY, 'configured-secret', 'query-secret-1', 'other-key-123']) {
        expect(text).not.toContain(secret)
      }
      expect(bodyOf(call)).toBe('{"error":"bad key [redacted] [redacted], [redacted] ü"}')
    }
  })

  test('keeps an end that only looks like the start of a key', () => {
    const { call } = record(REQUEST, ['the prefix is sk-te'])
    expect(bodyOf(call)).toBe('the prefix is sk-te')
  })

  test('passes bytes on unchanged without credentials', () => {
    const lines: string[] = []
    const write = (line: string) => lines.push(line) > 0
    const request = { ...REQUEST, headers: {}, url: 'https://a.example/x' }
    const recorder = new CallRecorder(request, { call: 1, at: () => 0, write })
    recorder.chunk(new Uint8Array([0x73, 0x6b]))
    recorder.end('complete')
    expect(lines.join('')).toContain('"text":"sk"')
    const { call } = record({ ...REQUEST, headers: {}, url: 'https://a.example/x' }, ['sk-abc'])
    expect(call.request).not.toHaveProperty('vendor')
    expect(bodyOf(call)).toBe('sk-abc')
  })
})

describe('redaction', () => {
  test.each([
    'authorization',
    'Proxy-Authorization',
    'x-api-key',
    'X-Goog-Api-Key',
    'api-key',
    'cookie',
    'Set-Cookie',
    'key',
    'access_token',
    'x-amz-security-token',
    'X-Amz-Signature',
  ])('%s is secret', (name) => expect(isSecretName(name)).toBe(true))

  test.each([
    'idempotency-key',
    'anthropic-ratelimit-tokens-limit',
    'x-ratelimit-remaining-tokens',
    'content-type',
    'keep-alive',
  ])('%s is not', (name) => expect(isSecretName(name)).toBe(false))

  test('finds credentials of headers, cookies and URLs, but not short words', () => {
    const headers = {
      authorization: 'Basic dXNlcjpwYXNzd29yZA==',
      cookie: 'session=abcdefgh12; theme=dark',
    }
    expect(
      secretsOf(headers, 'https://someuser:hunter2000@h.example/?key=k&token=12345678'),
    ).toEqual(['dXNlcjpwYXNzd29yZA==', 'abcdefgh12', '12345678', 'someuser', 'hunter2000'])
    expect(secretsOf({}, 'not a url')).toEqual([])
  })

  test('of request bodies covers the credentials of remote tools', () => {
    const redaction = new Redaction([KEY])
    const body = {
      messages: [{ role: 'user', content: `my key is ${KEY}`, key: 'Return' }],
      tools: [
        {
          type: 'mcp',
          server_url: 'https://user:pass1234@mcp.example/?token=abc',
          authorization: 'mcp-token',
          headers: { 'x-anything': 'mcp-key' },
        },
        { input_schema: { properties: { password: { type: 'string' } } } },
      ],
      mcp_servers: [{ url: 'https://mcp.example/a', authorization_token: 'mcp-token' }],
    }
    const redacted = JSON.stringify(redaction.body(JSON.stringify(body)))
    for (const secret of [KEY, 'mcp-token', 'mcp-key', 'pass1234', 'token=abc']) {
      expect(redacted).not.toContain(secret)
    }
    expect(redaction.body(JSON.stringify(body))).toMatchObject({
      messages: [{ content: 'my key is [redacted]', key: 'Return' }],
      tools: [{ headers: { 'x-anything': '[redacted]' } }, body.tools[1]],
      mcp_servers: [{ url: 'https://mcp.example/a', authorization_token: '[redacted]' }],
    })
  })

  test('of a body that is nested too deeply leaves nothing', () => {
    const deep = `${'['.repeat(10_000)}{"password":"hunter2"}${']'.repeat(10_000)}`
    expect(new Redaction([]).body(deep)).toBe('[redacted]')
  })

  test('of a body that is not JSON covers known values', () => {
    expect(new Redaction([KEY]).body(`a=${KEY}`)).toBe('a=[redacted]')
    expect(new Redaction([KEY]).url(`no url ${KEY}`)).toBe('no url [redacted]')
  })
})
