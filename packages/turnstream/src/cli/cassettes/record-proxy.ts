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
  const recording = new Recording(exchange, new URL(path, target.origin).href, options)
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

class Recording {
  readonly #exchange: Exchange
  readonly #url: string
  readonly #options: RecordProxyOptions
  readonly #vendor: string | undefined
  readonly #startedAt: number
  readonly #createdAt: number
  #body: Buffer[] = []
  #bodyBytes = 0
  #file: CassetteFile | undefined
  #recorder: CallRecorder | undefined
  #status = 0
  #isOver = false

  constructor(exchange: Exchange, url: string, options: RecordProxyOptions) {
    this.#exchange = exchange
    this.#url = url
    this.#options = options
    this.#vendor = exchange.request.method === 'POST' ? vendorOf(url) : undefined
    this.#startedAt = monotonicNow(options.clock)
    this.#createdAt = options.clock.now()
    exchange.request.once('end', () => this.#begin())
  }

  readonly requestChunk = (chunk: Buffer): void => {
    this.#bodyBytes += chunk.length
    if (this.#bodyBytes > MAX_BODY_BYTES || this.#vendor === undefined) this.#body = []
    else this.#body.push(chunk)
  }

  response({ statusCode = 0, headersDistinct }: IncomingMessage): void {
    // Some servers refuse a request before they have read it.
    this.#begin()
    this.#status = statusCode
    this.#recorder?.response(statusCode, joined(headersDistinct))
  }

  readonly chunk = (bytes: Buffer): void => this.#recorder?.chunk(bytes)

  end(reason: 'complete' | 'aborted' | 'failed'): void {
    if (this.#isOver) return
    this.#begin()
    this.#isOver = true
    this.#recorder?.end(reason)
    this.#file?.close()
    if (this.#file === undefined || this.#vendor === undefined) return
    const ms = this.#at()
    const { onRecorded } = this.#options
    onRecorded({ file: this.#file.path, vendor: this.#vendor, status: this.#status, ms })
  }

  #begin(): void {
    if (this.#recorder !== undefined || this.#vendor === undefined || this.#isOver) return
    const { request, count } = this.#exchange
    const name = recordingName(`${stampOf(this.#createdAt)}-${this.#vendor}-${count}`)
    this.#file = this.#options.directory.create(name, { createdAt: this.#createdAt })
    const isWhole = request.complete && this.#bodyBytes <= MAX_BODY_BYTES
    const sent = {
      method: request.method ?? 'POST',
      url: this.#url,
      headers: joined(request.headersDistinct),
      body: isWhole ? Buffer.concat(this.#body).toString() : undefined,
    }
    const write = this.#file?.write ?? (() => false)
    this.#recorder = new CallRecorder(sent, { call: 1, at: () => this.#at(), write })
    this.#body = []
  }

  #at(): number {
    return monotonicNow(this.#options.clock) - this.#startedAt
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
