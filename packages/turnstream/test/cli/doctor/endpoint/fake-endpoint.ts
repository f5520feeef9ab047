import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

type Json = Record<string, unknown>

/** What one request is answered with, before a fault is put into it. */
export interface Stream {
  /** What the client asked for. */
  readonly request: Json
  events: string[]
  contentType: string
  /** Whether the connection is closed at the end. */
  closes: boolean
  /** Whether it breaks off there instead. */
  breaks: boolean
  /** Cuts the bytes before they are sent; a read for each event unless given. */
  writes?: (bytes: Buffer) => Buffer[]
}

/** What a server does wrong: each of these changes an answer that would be right. */
export interface Faults {
  readonly stream?: (stream: Stream) => void
  readonly answer?: (answer: Json) => void
  readonly models?: (response: ServerResponse) => void
  /** Takes a request over, if it answers true. */
  readonly request?: (request: Json | undefined, response: ServerResponse) => boolean
  readonly anyKey?: boolean
}

export const KEY = 'planted-endpoint-key-0123456789'
const MODEL = 'model-a'
const TEXT = ['Grüße ', 'aus ', 'Zürich, ', '東京 ', 'und ', '🙂', ': one', ', two', ', three.']
const USAGE = { prompt_tokens: 12, completion_tokens: 9, total_tokens: 21 }

const HEAD = {
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_700_000_000,
  model: MODEL,
}

export function chunk(delta: unknown, finish: string | null = null): Json {
  return { ...HEAD, choices: [{ index: 0, delta, finish_reason: finish }] }
}

function fragment(index: number, more: Json): Json {
  return chunk({ tool_calls: [{ index, ...more }] })
}

function callChunks(index: number, city: string): Json[] {
  const open = {
    id: `call_${index}`,
    type: 'function',
    function: { name: 'get_weather', arguments: '' },
  }
  return [
    fragment(index, open),
    fragment(index, { function: { arguments: '{"city":' } }),
    fragment(index, { function: { arguments: `"${city}"}` } }),
  ]
}

function chunksFor(request: Json): Json[] {
  const role = chunk({ role: 'assistant', content: '' })
  if (request['tools'] !== undefined) {
    const isTwo = JSON.stringify(request['messages']).includes('both cities')
    const calls = [...callChunks(0, 'Zürich'), ...(isTwo ? callChunks(1, '東京') : [])]
    return [role, ...calls, chunk({}, 'tool_calls')]
  }
  const asksUsage = request['stream_options'] !== undefined
  return [
    role,
    ...TEXT.map((content) => chunk({ content })),
    chunk({}, 'stop'),
    ...(asksUsage ? [{ ...HEAD, choices: [], usage: USAGE }] : []),
  ]
}

function sendStream(request: Json, response: ServerResponse, faults: Faults): void {
  const events = [...chunksFor(request).map((each) => JSON.stringify(each)), '[DONE]']
  const stream: Stream = {
    request,
    events,
    contentType: 'text/event-stream; charset=utf-8',
    closes: true,
    breaks: false,
  }
  faults.stream?.(stream)
  response.writeHead(200, { 'content-type': stream.contentType })
  const text = stream.events.map((data) =>
    data.startsWith(':') ? `${data}\n` : `data: ${data}\n\n`,
  )
  const writes =
    stream.writes?.(Buffer.from(text.join(''))) ?? text.map((each) => Buffer.from(each))
  void sendAll(writes, response).then(() => {
    if (stream.breaks) response.destroy()
    else if (stream.closes) response.end()
  })
}

/** Sends each in a separate packet, as far as possible. */
async function sendAll(writes: readonly Buffer[], response: ServerResponse): Promise<void> {
  for (const bytes of writes) {
    await new Promise<void>((resolve) => {
      response.write(bytes, () => setImmediate(resolve))
    })
  }
}

function refuse(response: ServerResponse, status: number, message: string): void {
  const error = { message, type: 'invalid_request_error', param: null, code: null }
  json(response, status, { error })
}

export function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function bodyOf(request: IncomingMessage): Promise<Json | undefined> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  try {
    return JSON.parse(Buffer.concat(parts).toString()) as Json
  } catch {
    return undefined
  }
}

async function respond(request: IncomingMessage, response: ServerResponse, faults: Faults) {
  if (request.url === '/v1/models') {
    if (faults.models) return faults.models(response)
    return json(response, 200, { object: 'list', data: [{ id: MODEL, object: 'model' }] })
  }
  const body = await bodyOf(request)
  if (faults.request?.(body, response)) return
  const key = request.headers.authorization
  if (!faults.anyKey && key !== undefined && key !== `Bearer ${KEY}`) {
    return refuse(response, 401, 'the key is wrong')
  }
  if (body === undefined) return refuse(response, 400, 'the body is no JSON')
  if (body['model'] !== MODEL) return refuse(response, 404, 'there is no such model')
  if (body['stream'] === true) return sendStream(body, response, faults)
  const answer: Json = {
    ...HEAD,
    object: 'chat.completion',
    choices: [
      { index: 0, message: { role: 'assistant', content: TEXT.join('') }, finish_reason: 'stop' },
    ],
    usage: USAGE,
  }
  faults.answer?.(answer)
  json(response, 200, answer)
}

/** A real server of Chat Completions that does all things right, but for its faults. */
export async function fakeEndpoint(faults: Faults = {}) {
  const server = createServer((request, response) => {
    void respond(request, response, faults)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` }
}
