/** Clients that open streams of a long answer and read nothing, on every route that streams. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openapiPath } from '../../../src/server/routes/spec.ts'
import { SseConnection } from '../../../src/server/streams/sse-connection.ts'
import { startServer, type TestServer } from '../support.ts'
import { UNLIMITED } from '../unlimited.ts'
import { Wire } from '../wire.ts'

const KB = 1024
const MB = 1024 * KB
const CLIENTS = 40
/** Fits into the buffers of a socket, so that all of it is encoded although nobody reads. */
const TEXT = { pieces: 2000, piece: 'x'.repeat(KB) }
const UNSENT_BYTES = 12 * MB

/** What a stream may hold beside the limit: a small frame, a buffered one, and itself. */
const BYTES_PER_STREAM = 640 * KB

const LAST_CHUNK = '\r\n0\r\n\r\n'

const NAME = { 'idempotency-key': 'same' }
const INPUT = { model: 'held/m', stream: true }
const MESSAGES = { ...INPUT, messages: [{ role: 'user', content: 'Hi' }] }

interface StreamRequest {
  readonly path: string
  /** Missing for a GET. Repeated requests get the turn of the first. */
  readonly body?: object
}

/** The cursor before the first turn of `thread`, on a stream of several threads. */
const FIRST = Buffer.from('[["thread"]]').toString('base64url')

/** Every route that streams. The turn of the others is `turn` in `thread`. */
const REQUESTS: Record<string, StreamRequest[]> = {
  'GET /api/v2/stream/{runId}': [{ path: '/api/v2/stream/same' }],
  'GET /xapi/turns/{turnId}/stream': [
    { path: '/xapi/turns/turn/stream' },
    { path: '/xapi/turns/turn/stream?encoding=append' },
    { path: '/xapi/turns/turn/stream?arguments=stream' },
  ],
  'GET /xapi/threads/{threadId}/stream': [
    { path: '/xapi/threads/thread/stream' },
    { path: '/xapi/threads/thread/stream?encoding=append' },
  ],
  'GET /xapi/streams': [{ path: `/xapi/streams?threads=thread&from=${FIRST}` }],
  'POST /xapi/threads/{threadId}/turn': [
    { path: '/xapi/threads/new/turn', body: { prompt: 'Hi', model: 'held/m' } },
  ],
  'POST /v1/chat/completions': [{ path: '/v1/chat/completions', body: MESSAGES }],
  'POST /v1/responses': [{ path: '/v1/responses', body: { ...INPUT, input: 'Hi' } }],
  'GET /v1/responses/{responseId}': [{ path: '/v1/responses/resp_turn?stream=true' }],
  'POST /v1/messages': [{ path: '/v1/messages', body: { ...MESSAGES, max_tokens: 9 } }],
  'GET /v1/messages/{messageId}': [{ path: '/v1/messages/msg_turn?stream=true' }],
}

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

function memoryUsed(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** Makes the provider say all of a long answer. */
async function finishCall(server: TestServer, submit: () => Promise<unknown>): Promise<void> {
  const called = server.held.nextCall()
  const submitted = submit()
  const call = await called
  for (let each = 0; each < TEXT.pieces; each++) {
    call.say(TEXT.piece)
    if (each % 100 === 99) await new Promise((resolve) => void setImmediate(resolve))
  }
  call.finish()
  await submitted
}

async function post(server: TestServer, path: string, body: object): Promise<string> {
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...NAME },
    body: JSON.stringify(body),
  })
  return await response.text()
}

/** Resolves when the server has sent nothing for a while. */
async function untilQuiet(): Promise<void> {
  const send = vi.spyOn(SseConnection.prototype, 'send')
  onTestFinished(() => send.mockRestore())
  let sent = 0
  let quietPolls = 0
  await expect
    .poll(
      () => {
        const { length } = send.mock.calls
        // The spy would retain the frames.
        send.mockClear()
        sent += length
        quietPolls = length === 0 && sent >= CLIENTS ? quietPolls + 1 : 0
        return quietPolls
      },
      { interval: 25, timeout: 20_000 },
    )
    .toBeGreaterThan(6)
}

async function openUnread(server: TestServer, { path, body }: StreamRequest): Promise<Wire> {
  const wire = await Wire.open(server.url)
  wire.socket.pause()
  onTestFinished(() => wire.close())
  const text = body === undefined ? '' : JSON.stringify(body)
  const fields = body === undefined ? {} : { 'content-type': 'application/json', ...NAME }
  const head = Object.entries({ host: 'a', 'content-length': text.length, ...fields })
  const lines = head.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  wire.send(`${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1\r\n${lines}\r\n${text}`)
  return wire
}

/** Returns how much was sent up to the last chunk of the response. */
async function readToEnd({ socket, text }: Wire): Promise<number> {
  let bytes = text.length
  let end = ''
  socket.removeAllListeners('data')
  await new Promise<void>((resolve) => {
    socket.on('data', (piece: string) => {
      bytes += piece.length
      end = (end + piece).slice(-LAST_CHUNK.length)
      if (end === LAST_CHUNK) resolve()
    })
    socket.resume()
  })
  return bytes
}

test('every route that streams is in the table', async () => {
  const { document } = await startServer()
  const streams = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations ?? {})
      .filter(([, { responses }]) => 'text/event-stream' in (responses['200']?.content ?? {}))
      .map(([method]) => `${method.toUpperCase()} ${path}`),
  )
  expect(Object.keys(REQUESTS).toSorted()).toEqual(streams.toSorted())
})

test('a route that is not described does not stream', async () => {
  const { gateway, document } = await startServer()
  const described = new Set(
    Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.keys(operations ?? {}).map((method) => `${method.toUpperCase()} ${path}`),
    ),
  )
  const others = gateway.app.routes
    .filter(({ method }) => method !== 'ALL')
    .map(({ method, path }) => ({ method, path, name: `${method} ${openapiPath(path)}` }))
    .filter(({ name }) => !described.has(name))
  const types = others.map(async ({ method, path }) => {
    const { body, headers } = await gateway.app.request(path, { method })
    await body?.cancel()
    return headers.get('content-type') ?? ''
  })
  expect(others.length).toBeGreaterThan(0)
  expect((await Promise.all(types)).filter((type) => type.includes('event-stream'))).toEqual([])
})

test.each(Object.values(REQUESTS).flat())(
  'unread streams hold no more than their key may leave unread: $path',
  { timeout: 60_000, tags: ['slow'] },
  (request) => checkUnread(request),
)

test('unread replays of a response hold no more than their key may leave unread', () =>
  checkUnread({ path: '/v1/responses/resp_turn?stream=true' }))

test('nothing is encoded for clients that left', async () => {
  const server = await startServer({ limits: { ...UNLIMITED, maxUnsentBytes: UNSENT_BYTES } })
  const turn = { prompt: 'Hi', model: 'held/m', turnId: 'turn', threadId: 'thread' }
  await finishCall(server, () => post(server, '/api/v2/submit', turn))
  const quiet = untilQuiet()
  const request = { path: '/v1/responses/resp_turn?stream=true' }
  const wires = await Promise.all(
    Array.from({ length: CLIENTS }, () => openUnread(server, request)),
  )
  await quiet
  const encode = vi.spyOn(JSON, 'stringify')
  onTestFinished(() => encode.mockRestore())
  for (const wire of wires) wire.close()
  await expect.poll(() => maxOpenStreams(server)).toBe(0)
  let encoded = 0
  for (const { value } of encode.mock.results) encoded += String(value).length
  // Some get the room of others that left before them. All would be CLIENTS times the text.
  expect(encoded / KB).toBeLessThan((CLIENTS / 4) * TEXT.pieces)
})

async function maxOpenStreams({ url }: TestServer): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const open = text.matchAll(/^turnstream_stream_clients\{\S+\} (\d+)$/gm)
  return Array.from(open, ([, streams]) => Number(streams)).reduce((sum, each) => sum + each, 0)
}

async function checkUnread(request: StreamRequest): Promise<void> {
  const server = await startServer({ limits: { ...UNLIMITED, maxUnsentBytes: UNSENT_BYTES } })
  const { path, body } = request
  const turn = { prompt: 'Hi', model: 'held/m', turnId: 'turn', threadId: 'thread' }
  const [first, whole] = body === undefined ? ['/api/v2/submit', turn] : [path, body]
  await finishCall(server, () => post(server, first, whole))
  const before = memoryUsed()
  const quiet = untilQuiet()
  const wires = await Promise.all(
    Array.from({ length: CLIENTS }, () => openUnread(server, request)),
  )
  await quiet
  // Also after what was only needed for a moment is gone.
  await expect
    .poll(() => (memoryUsed() - before) / MB)
    .toBeLessThan((UNSENT_BYTES + CLIENTS * BYTES_PER_STREAM) / MB)
  // They are late, not lost.
  for (const wire of wires.slice(3)) wire.close()
  if (/\/threads\/thread\/|\?threads=/.test(path)) return
  const read = await Promise.all(wires.slice(0, 3).map(readToEnd))
  for (const bytes of read) expect(bytes).toBeGreaterThan(TEXT.pieces * KB)
  expect(server.errors).toEqual([])
}
