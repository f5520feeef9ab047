import {
  createServer,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { failureReason } from '@turnstream/conformance/internal/endpoint/http'
import { type Clock, monotonicNow } from '@turnstream/core/internal/async/clock'
import { CallRecorder } from '@turnstream/core/internal/cassettes/recorder'
import { vendorOf } from '@turnstream/core/internal/cassettes/vendors'
import { hostNameOf, LOOPBACK_NAMES } from '../../server/web/origins.ts'
import { type CassetteDirectory, type CassetteFile, recordingName } from './directory.ts'

export interface RecordProxyOptions {
  /** The vendor: the root of the proxy is this URL. */
  readonly target: URL
  readonly directory: CassetteDirectory
  readonly clock: Clock
  readonly onRecorded: (recorded: Recorded) => void
}

export interface Recorded {
  readonly file: string
  readonly vendor: string
  /** 0 without a response. */
  readonly status: number
  readonly ms: number
}

/** More than any client of one developer has. */
const MAX_REQUESTS = 256

/** Larger request bodies are passed on, but not recorded. */
const MAX_BODY_BYTES = 8 * 1024 * 1024

/** Of one connection only (RFC 9110, 7.6.1), or replaced. */
const NOT_FORWARDED = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'host',
  'accept-encoding',
])

/** A proxy that records calls. Bytes pass unchanged, except that compression is disabled to keep cassettes readable. */
export function createRecordProxy(options: RecordProxyOptions): Server {
  let running = 0
  let count = 0
  const isHttps = options.target.protocol === 'https:'
  const agent = new (isHttps ? HttpsAgent : HttpAgent)({ keepAlive: true })
  const server = createServer((request, response) => {
    const refusal = refusalOf(request, running)
    if (refusal !== undefined) return refuse(response, ...refusal)
    running += 1
    response.once('close', () => {
      running -= 1
    })
    count += 1
    forward({ request, response, count, agent }, options)
  })
  return server.once('close', () => agent.destroy())
}

type Refusal = [status: number, message: string]

function refusalOf(request: IncomingMessage, running: number): Refusal | undefined {
  const { host = '' } = request.headers
  const name = hostNameOf(host.replace(/:\d+$/, ''))
  // A page of another name may resolve to this machine.
  if (name === undefined || !LOOPBACK_NAMES.includes(name)) return [421, `unknown host ${host}`]
  if (!request.url?.startsWith('/')) return [400, 'the request needs a path']
  return running >= MAX_REQUESTS ? [503, `${MAX_REQUESTS} requests are in progress`] : undefined
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' })
  response.end(
    JSON.stringify({ error: { message: `turnstream cassette record: ${message}`, type: 'proxy' } }),
  )
}

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly count: number
  readonly agent: HttpAgent
}

function forward(exchange: Exchange, options: RecordProxyOptions): void {
  const { request, response, agent } = exchange
  const { target } = options
  const path = `${target.pathname.replace(/\/+$/, '')}${request.url}`
  const recording = startRecording(exchange, new URL(path, target.origin).href, options)
  const replaced = ['host', target.host, 'accept-encoding', 'identity']
  const upstream = (target.protocol === 'https:' ? httpsRequest : httpRequest)({
    protocol: target.protocol,
    host: target.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: target.port,
    path,
    method: request.method,
    headers: forwardedHeaders(request.rawHeaders).concat(replaced),
    agent,
  })
  const breakOff = (): void => recording.end(request.socket.destroyed ? 'aborted' : 'failed')
  request.on('data', recording.requestChunk)
  request.pipe(upstream)
  upstream.once('response', (answer) => {
    const { statusCode = 502, statusMessage } = answer
    response.writeHead(statusCode, statusMessage, forwardedHeaders(answer.rawHeaders))
    response.flushHeaders()
    recording.response(answer)
    answer.on('data', recording.chunk)
    answer.pipe(response)
    answer.once('end', () => recording.end('complete'))
    answer.once('error', () => {
      breakOff()
      response.destroy()
    })
  })
  // Not once: closing it may also fail.
  upstream.on('error', (error) => {
    breakOff()
    if (response.headersSent || response.destroyed) response.destroy()
    else refuse(response, 502, `${target.origin}: ${failureReason(error)}`)
  })
  response.once('close', () => {
    if (response.writableFinished) return
    recording.end('aborted')
    upstream.destroy()
  })
}

/** Names and values, alternating, as Node takes them. Keeps their case and repetitions. */
function forwardedHeaders(raw: readonly string[]): string[] {
  const named = new Set(NOT_FORWARDED)
  const namesAt = (at: number) => (raw[at] ?? '').toLowerCase()
  for (let at = 0; at < raw.length; at += 2) {
    if (namesAt(at) !== 'connection') continue
    for (const name of namesAt(at + 1).split(',')) named.add(name.trim())
  }
  return raw.filter((_text, at) => !named.has(namesAt(at - (at % 2))))
}

/** Records one exchange, if it is a call that a cassette can hold. */
function startRecording({ request, count }: Exchange, url: string, options: RecordProxyOptions) {
  const { clock, directory, onRecorded } = options
  const vendor = request.method === 'POST' ? vendorOf(url) : undefined
  const createdAt = clock.now()
  const startedAt = monotonicNow(clock)
  const at = () => monotonicNow(clock) - startedAt
  let body: Buffer[] = []
  let bodyBytes = 0
  let file: CassetteFile | undefined
  let recorder: CallRecorder | undefined
  let status = 0
  let isOver = false

  const begin = (): void => {
    if (recorder !== undefined || vendor === undefined || isOver) return
    file = directory.create(recordingName(`${stampOf(createdAt)}-${vendor}-${count}`), {
      createdAt,
    })
    const isWhole = request.complete && bodyBytes <= MAX_BODY_BYTES
    const sent = {
      method: request.method ?? 'POST',
      url,
      headers: joined(request.headersDistinct),
      body: isWhole ? Buffer.concat(body).toString() : undefined,
    }
    recorder = new CallRecorder(sent, { call: 1, at, write: file?.write ?? (() => false) })
    body = []
  }

  request.once('end', begin)
  return {
    requestChunk: (chunk: Buffer): void => {
      bodyBytes += chunk.length
      if (bodyBytes > MAX_BODY_BYTES || vendor === undefined) body = []
      else body.push(chunk)
    },
    response({ statusCode = 0, headersDistinct }: IncomingMessage): void {
      // Some servers refuse a request before they have read it.
      begin()
      status = statusCode
      recorder?.response(status, joined(headersDistinct))
    },
    chunk: (bytes: Buffer) => recorder?.chunk(bytes),
    end(reason: 'complete' | 'aborted' | 'failed'): void {
      if (isOver) return
      begin()
      isOver = true
      recorder?.end(reason)
      file?.close()
      if (file === undefined || vendor === undefined) return
      onRecorded({ file: file.path, vendor, status, ms: at() })
    },
  }
}

function joined(headers: NodeJS.Dict<string[]>): Record<string, string> {
  const entries = Object.entries(headers).map(([name, values = []]) => [name, values.join(', ')])
  return Object.fromEntries(entries) as Record<string, string>
}

/** `20261117-181523`, UTC. */
function stampOf(time: number): string {
  return new Date(time).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-')
}
