import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { decodeUtf8, PART_BYTES } from '../../src/server/request-body.ts'
import { sendRaw } from './raw-http.ts'
import { call, startServer, type TestServer } from './support.ts'

const post = (server: TestServer, init: RequestInit, path = '/api/v2/submit') =>
  fetch(`${server.url}${path}`, { method: 'POST', ...init })

const json = { 'content-type': 'application/json' }

async function refusal(response: Response): Promise<[number, string]> {
  const { error } = (await response.json()) as { error: { code: string } }
  return [response.status, error.code]
}

describe('a body that is too large', () => {
  const limit = { maxBodyBytes: 1000 }
  const bodyOf = (bytes: number) => JSON.stringify({ prompt: 'x'.repeat(bytes - 13) })

  test('is refused when it exceeds the limit by a byte', async () => {
    const server = await startServer(limit)
    expect((await post(server, { headers: json, body: bodyOf(1000) })).status).toBe(202)
    const refused = await post(server, { headers: json, body: bodyOf(1001) })
    expect(await refusal(refused)).toEqual([413, 'BODY_TOO_LARGE'])
    expect(server.errors).toEqual([])
  })

  test('is refused by its declared length before it arrives', async () => {
    const { url } = await startServer(limit)
    const head = 'POST /api/v2/submit HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n'
    const answer = await sendRaw(url, `${head}content-length: 1000000\r\n\r\n{`)
    expect(answer.status).toBe(413)
    expect(JSON.parse(answer.body)).toMatchObject({ error: { code: 'BODY_TOO_LARGE' } })
  })

  test('is refused while it arrives without a declared length', async () => {
    const server = await startServer(limit)
    // It never ends: whoever reads all of it never answers.
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new TextEncoder().encode('x'.repeat(500))),
    })
    const init = { headers: json, body, duplex: 'half' } as RequestInit
    const refused = await post(server, init)
    expect(await refusal(refused)).toEqual([413, 'BODY_TOO_LARGE'])
  })

  test('is refused even where no body is required', async () => {
    const server = await startServer(limit)
    const refused = await post(server, { headers: json, body: bodyOf(1001) }, '/api/v2/threads')
    expect(await refusal(refused)).toEqual([413, 'BODY_TOO_LARGE'])
  })
})

describe('by default', () => {
  const MB = 1024 * 1024
  /** An image of 5 MB has 6.7 MB of Base64. */
  const data = Buffer.concat([
    Buffer.from('\u0089PNG\r\n', 'latin1'),
    Buffer.alloc(5 * MB - 6),
  ]).toString('base64')
  const url = `data:image/png;base64,${data}`
  const source = { type: 'base64', media_type: 'image/png', data }
  const withContent = (part: object) => [{ role: 'user', content: [part] }]
  const DOORS: [path: string, body: object][] = [
    ['/v1/chat/completions', { messages: withContent({ type: 'image_url', image_url: { url } }) }],
    ['/v1/responses', { input: withContent({ type: 'input_image', image_url: url }) }],
    ['/v1/messages', { max_tokens: 9, messages: withContent({ type: 'image', source }) }],
  ]

  test.each(DOORS)('%s takes an image of 5 MB', async (path, body) => {
    const server = await startServer()
    const init = { headers: json, body: JSON.stringify({ model: 'plain/m', ...body }) }
    const response = await post(server, init, path)
    expect([response.status, await response.text()]).toEqual([200, expect.anything()])
  })

  test.each([
    ['/v1/chat/completions', 32 * MB],
    ['/v1/responses', 32 * MB],
    ['/v1/messages', 32 * MB],
    ['/api/v2/submit', 4 * MB],
  ])('%s takes %i bytes', async (path, limit) => {
    const { url: address } = await startServer()
    const send = (bytes: number, text: string) => {
      const head = `POST ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n`
      return sendRaw(address, `${head}content-length: ${bytes}\r\n\r\n${text}`)
    }
    expect((await send(limit + 1, '{')).status).toBe(413)
    const answer = await send(limit, ' '.repeat(limit - 1) + '!')
    expect([answer.status, answer.body]).toEqual([400, expect.stringContaining('JSON')])
  })
})

describe('a body that is decoded in parts', () => {
  const encode = (text: string) => new TextEncoder().encode(text)

  test.each(['é', '漢', '🧵', '\uFEFF'])('keeps %j at the end of a part', async (character) => {
    for (let at = PART_BYTES - 4; at <= PART_BYTES; at++) {
      const text = `${'x'.repeat(at)}${character}${'y'.repeat(PART_BYTES)}${character}`
      // Comparing them by `expect` would print megabytes.
      expect((await decodeUtf8(encode(text))) === text).toBe(true)
    }
  })

  test('loses the byte order mark at its start', async () => {
    expect(await decodeUtf8(encode('\uFEFF{}'))).toBe('{}')
  })

  test.each([0, PART_BYTES - 1, PART_BYTES, 2 * PART_BYTES])(
    'is refused for a malformed byte at %i',
    async (at) => {
      const bytes = encode('x'.repeat(2 * PART_BYTES + 1))
      bytes[at] = 0x80
      await expect(decodeUtf8(bytes)).rejects.toThrow('is not valid UTF-8')
    },
  )
})

describe('an unreadable body', () => {
  const bytes = (...values: number[]) => new Uint8Array(values)
  const ROWS: [name: string, body: string | Uint8Array<ArrayBuffer>][] = [
    ['is no JSON', '{"prompt":'],
    ['is half a text', '{"prompt":"Hi'],
    ['is HTML', '<html></html>'],
    ['has a comma too many', '{"prompt":"Hi",}'],
    ['is two values', '{"prompt":"Hi"}{}'],
    ['is no UTF-8', bytes(0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d)],
    ['ends within a character', bytes(0x22, 0xe2, 0x82)],
    ['is UTF-16', bytes(0x7b, 0x00, 0x7d, 0x00)],
    ['is empty', ''],
    ['is blank', '  '],
  ]

  test.each(ROWS)('because it %s is REQUEST_INVALID', async (_name, body) => {
    const server = await startServer()
    const refused = await post(server, { headers: json, body })
    expect(await refusal(refused)).toEqual([400, 'REQUEST_INVALID'])
    expect(server.errors).toEqual([])
  })

  test.each([
    ['text/plain', 415],
    ['application/x-www-form-urlencoded', 415],
    ['multipart/form-data; boundary=x', 415],
    ['application/jsonp', 415],
    ['json', 415],
    ['application/json', 202],
    ['application/json; charset=utf-8', 202],
    ['Application/JSON', 202],
    ['application/problem+json', 202],
  ])('of type %s is answered with %s', async (type, status) => {
    const server = await startServer()
    const body = new TextEncoder().encode('{"prompt":"Hi"}')
    const answer = await post(server, { headers: { 'content-type': type }, body })
    expect(answer.status).toBe(status)
    if (status === 415) expect((await refusal(answer))[1]).toBe('MEDIA_TYPE_UNSUPPORTED')
  })

  test('without a type is MEDIA_TYPE_UNSUPPORTED', async () => {
    const server = await startServer()
    const body = new TextEncoder().encode('{"prompt":"Hi"}')
    for (const path of ['/api/v2/submit', '/api/v2/threads']) {
      expect(await refusal(await post(server, { body }, path))).toEqual([
        ...[415, 'MEDIA_TYPE_UNSUPPORTED'],
      ])
    }
  })
})

test('a client that disconnects while sending its body is not our error', async () => {
  const server = await startServer()
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  const head = 'POST /api/v2/submit HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n'
  socket.write(`${head}content-length: 100\r\nexpect: 100-continue\r\n\r\n`)
  // The server waits for the body now.
  await once(socket, 'data')
  socket.write('{"prompt"')
  socket.destroy()
  await server.close()
  expect(server.errors).toEqual([])
})

test('a body in many pieces, split within characters, is read completely', async () => {
  const server = await startServer()
  const bytes = new TextEncoder().encode(JSON.stringify({ prompt: 'Grüße, 世界 🧵', runId: 'r' }))
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(new Uint8Array([byte]))
      controller.close()
    },
  })
  const init = { headers: json, body, duplex: 'half' } as RequestInit
  expect((await post(server, init)).status).toBe(202)
  const { json: run } = await call(server, 'GET /api/v2/runs/r')
  expect(run.output_items[0].content).toBe('Grüße, 世界 🧵')
})
