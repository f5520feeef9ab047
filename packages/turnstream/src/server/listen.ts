import { once as eventOnce } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { getRequestListener, RequestError } from '@hono/node-server'
import { type Clock, monotonicNow, systemClock } from '@turnstream/core/internal/async/clock'
import { Fifo } from '@turnstream/core/internal/async/fifo'
import { nextSlice, shortenSlices } from '@turnstream/core/internal/async/time-slice'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { type ErrorCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { HEADERS } from '@turnstream/core/internal/protocol/names'
import { trackAdapter } from './client-close.ts'
import { toErrorResponse } from './error-response.ts'
import type { Gateway } from './gateway.ts'
import { SECURITY_HEADERS } from './json-response.ts'
import { resolveLimits } from './limits/key-limits.ts'
import * as ports from './limits/port-limits.ts'
import { once } from './once.ts'

export interface ListenOptions extends Partial<ports.PortLimits> {
  /** 127.0.0.1 by default. */
  readonly host?: string
  /** 4010 by default; 0 picks a free port. */
  readonly port?: number
  readonly clock?: Clock
  /** A log that is closed last, by `close` or when the port cannot be opened. */
  readonly log?: Pick<TurnLog, 'close'>
  /** Called at most once a minute while connections are refused at the limit. */
  readonly onConnectionsRefused?: (report: RefusedConnections) => void
}

/** Connections refused since the last report, and the limit. */
export interface RefusedConnections {
  readonly refused: number
  readonly maxConnections: number
}

export interface Listening {
  readonly url: string
  /** Closes the gateway, the port and the log. New turns are refused at once; readers can connect while turns run. */
  close(): Promise<void>
}

const REFUSAL_REPORT_MS = 60_000

// Delay before the first TCP keep-alive probe.
const KEEP_ALIVE_PROBE_MS = 30_000
// Connections that wait to be accepted, lowered by the system (Linux: 4096). More are reset. Node's default is 511.
const BACKLOG = 65_535
// How long the last responses may take to be sent.
const LAST_WRITES_MS = 2000

/** Opens the port after ending the turns of earlier processes. */
export async function listen(gateway: Gateway, options: ListenOptions = {}): Promise<Listening> {
  const { host = '127.0.0.1', port = 4010, clock = systemClock } = options
  const limits = resolveLimits(ports.PORT_LIMITS, options)
  await gateway.start()
  const server = createServer({
    ...ports.nodeOptions(limits),
    // Checked in the app, which sends our own error.
    requireHostHeader: false,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_PROBE_MS,
  })
  server.maxHeadersCount = ports.nodeMaxHeaders(limits)
  const openFiles = ports.openFilesLimit()
  const max = ports.connectionsFor(limits.maxConnections, openFiles)
  const report = refusalReporter(max, clock, options.onConnectionsRefused)
  const countRefusal = () => {
    gateway.refused('CONNECTIONS_LIMITED')
    report()
  }
  const connections = new Connections(server, {
    max,
    refusedAtOnce: ports.refusalsFor(max, openFiles),
    writeTimeoutMs: ports.nodeWriteTimeout(limits),
    maxBodyBytes: gateway.maxBodyBytes,
    clock,
    onExcess: (socket) => {
      countRefusal()
      endAndLinger(socket, new TurnstreamError('CONNECTIONS_LIMITED', 'try again later'), clock)
    },
  })
  // Node closes connections above `server.maxConnections` without a response.
  server.on('drop', countRefusal)
  server.on('clientError', (error, socket) => {
    const code = refuseMalformed(error, socket, { clock, limits })
    if (code !== undefined) gateway.refused(code)
  })
  server.on('request', requestListener(gateway, limits))
  // Ignores unknown expectations. Node would refuse them with its own response.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  try {
    await open(server, host, port)
  } catch (error) {
    await gateway.close()
    await options.log?.close()
    throw error
  }

  async function close(): Promise<void> {
    try {
      await gateway.close()
    } finally {
      await end(server, connections, clock)
      await options.log?.close()
    }
  }

  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${(server.address() as AddressInfo).port}`,
    close: once(close),
  }
}

/** Counts refused connections and reports them at most once a minute. */
function refusalReporter(
  maxConnections: number,
  clock: Clock,
  report: ListenOptions['onConnectionsRefused'],
) {
  let refused = 0
  let reportedAt = -Infinity
  return (): void => {
    refused += 1
    const now = monotonicNow(clock)
    if (now - reportedAt < REFUSAL_REPORT_MS) return
    reportedAt = now
    report?.({ refused, maxConnections })
    refused = 0
  }
}

/** Serves the gateway from your own server: `node:http`, Express, Fastify. The limits of `listen` do not apply. */
export function createRequestListener(gateway: Gateway): RequestListener {
  const listener = appListener(gateway, true)
  return (request, response) => {
    if (!request.readableDidRead) return listener(request, response)
    const detail = 'the body was already read. Mount the gateway before body parsers'
    refuseRequest(gateway, invalid(detail), response)
  }
}

function appListener(gateway: Gateway, autoCleanupIncoming: boolean): RequestListener {
  const listener = getRequestListener((request, env) => gateway.app.fetch(request, env), {
    autoCleanupIncoming,
    errorHandler: refuseUnreadable,
    // The process may serve other things.
    overrideGlobalObjects: false,
  })
  return (request, response) => trackAdapter(response, () => void listener(request, response))
}

function requestListener(gateway: Gateway, limits: ports.PortLimits): RequestListener {
  // `Connections` discards the rest of a body.
  const listener = appListener(gateway, false)
  return inTurn((request, response) => {
    // A pipelined request after the connection's last response.
    if (!request.socket.writable) return
    const refusal = ports.checkHead(request, limits)
    if (refusal === undefined) return listener(request, response)
    refuseRequest(gateway, refusal, response)
  })
}

/** Clients that pipeline at all have a few requests in flight. */
const MAX_PIPELINED = 1000

/**
 * Starts the requests of a connection one by one: Node starts all of a packet, and thousands would hold the event loop.
 */
function inTurn(start: RequestListener): RequestListener {
  const waiting = new WeakMap<Socket, Fifo<() => void>>()
  const run = (socket: Socket, ...[request, response]: Parameters<RequestListener>) => {
    response.on('close', () => {
      const queue = waiting.get(socket)
      if (queue === undefined || queue.size === 0) waiting.delete(socket)
      else void nextSlice().then(queue.shift())
    })
    start(request, response)
  }
  return (request, response) => {
    const { socket } = request
    const queue = waiting.get(socket)
    if (queue === undefined) {
      waiting.set(socket, new Fifo())
      return run(socket, request, response)
    }
    if (queue.size >= MAX_PIPELINED) socket.destroy()
    else queue.push(() => run(socket, request, response))
  }
}

async function open(server: Server, host: string, port: number): Promise<void> {
  try {
    server.listen({ port, host, backlog: BACKLOG })
    await eventOnce(server, 'listening')
  } catch (cause) {
    const { code = '', message } = cause as NodeJS.ErrnoException
    const detail = `cannot open port ${port} on ${host}: ${ADVICE[code] ?? message}`
    throw new TurnstreamError('OPTION_INVALID', detail, { cause })
  }
}

const ADVICE: Record<string, string> = {
  EADDRINUSE:
    'it is already in use. Stop the other process or choose another port; 0 picks a free one.',
  EACCES: 'permission denied. Choose a port from 1024 up.',
  EADDRNOTAVAIL: 'this machine does not have the address. Use 127.0.0.1 or ::1 for local access.',
  ENOTFOUND: 'unknown host',
  ERR_SOCKET_BAD_PORT: 'a port must be from 0 to 65535',
}

async function end(server: Server, connections: Connections, clock: Clock): Promise<void> {
  const closed = eventOnce(server, 'close')
  server.close()
  connections.end()
  const stopWaiting = clock.after(LAST_WRITES_MS, () => server.closeAllConnections())
  await closed
  stopWaiting()
}

interface ConnectionsOptions {
  readonly max: number
  /** How many connections above `max` get a response at a time. Others are closed without one. */
  readonly refusedAtOnce: number
  /** How long a response may wait for a client that reads nothing; 0 means forever. */
  readonly writeTimeoutMs: number
  readonly maxBodyBytes: number
  readonly clock: Clock
  /** Called for each connection above `max`, which is then not tracked. */
  readonly onExcess: (socket: Socket) => void
}

// A reset could hide the response from a client that is still sending: the rest of a refused body is read, up to this.
const MAX_EXCESS_BYTES = 16 * 1024 * 1024
const MAX_DISCARD_MS = 2000

/**
 * The connections of a server. Enforces the limit, drops clients that do not read, and closes idle connections on
 * shutdown. Node treats a connection as idle only after its first request; browsers open some they never use.
 */
class Connections {
  readonly #options: ConnectionsOptions
  readonly #idle = new Set<Socket>()
  #open = 0
  #isEnding = false

  constructor(server: Server, options: ConnectionsOptions) {
    this.#options = options
    server.maxConnections = options.max + options.refusedAtOnce
    server.on('connection', this.#add)
    server.on('connection', shortenSlices)
    server.on('request', this.#occupy)
    server.on('timeout', this.#cut)
  }

  /** Ends idle connections now, and the others after their response. */
  end(): void {
    this.#isEnding = true
    for (const socket of this.#idle) socket.destroy()
  }

  readonly #add = (socket: Socket): void => {
    const { max, onExcess } = this.#options
    if (this.#open >= max) return onExcess(socket)
    this.#open += 1
    this.#idle.add(socket)
    socket.on('close', this.#remove)
  }

  readonly #occupy = ({ socket }: IncomingMessage, response: ServerResponse): void => {
    this.#idle.delete(socket)
    socket.setTimeout(this.#options.writeTimeoutMs)
    response.on('finish', this.#finished)
    response.on('close', this.#closed)
    this.#sockets.set(response, socket)
  }

  /** Node detaches the socket from a destroyed request. */
  readonly #sockets = new WeakMap<ServerResponse, Socket>()

  // Shared listeners that use `this`: closures would be retained for every open stream.

  readonly #remove = callWithEmitter((socket: Socket) => {
    this.#open -= 1
    this.#idle.delete(socket)
  })

  readonly #finished = callWithEmitter((response: ServerResponse) => {
    const { req } = response
    if (!req.complete) this.#discard(req, this.#sockets.get(response))
  })

  readonly #closed = callWithEmitter((response: ServerResponse) => {
    const socket = this.#sockets.get(response)
    if (socket === undefined || socket.destroyed) return
    if (this.#isEnding) socket.destroySoon()
    else this.#idle.add(socket)
  })

  /** Reads the rest of a request that was answered early. */
  #discard(request: IncomingMessage, socket: Socket | undefined): void {
    let bytes = 0
    const close = () => {
      request.removeAllListeners('data').pause()
      socket?.destroySoon()
    }
    const stopWaiting = this.#options.clock.after(MAX_DISCARD_MS, close)
    // The app's stream would pause it again.
    request.removeAllListeners('data')
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > this.#options.maxBodyBytes + MAX_EXCESS_BYTES) close()
    })
    request.once('end', stopWaiting)
    request.once('close', stopWaiting)
    request.resume()
  }

  /** Handles a socket that was silent for `writeTimeoutMs`. With an open response, only if data waits. */
  readonly #cut = (socket: Socket): void => {
    if (this.#idle.has(socket) || socket.writableLength > 0) socket.destroy()
  }
}

function callWithEmitter<Emitter>(listener: (emitter: Emitter) => void) {
  return function (this: Emitter): void {
    listener(this)
  }
}

/* Responses to requests that do not reach the app. */

// Keeps reading after the last response: closing immediately could reset the connection before the response arrives.
const LINGER_MS = 1000

function rawResponse(error: unknown, path?: string) {
  const requestId = crypto.randomUUID()
  const { status, body, headers } = toErrorResponse(error, requestId, path)
  const text = JSON.stringify(body)
  const fields = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    ...SECURITY_HEADERS,
    [HEADERS.requestId]: requestId,
    ...headers,
    'content-length': `${Buffer.byteLength(text)}`,
  }
  return { status, headers: fields, text }
}

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('REQUEST_INVALID', detail)
}

/** Refuses a request with a malformed URL or host, or after an app failure. */
function refuseUnreadable(error: unknown): Response {
  const isUnreadable = error instanceof RequestError
  const { text, ...head } = rawResponse(isUnreadable ? invalid('invalid URL or host') : error)
  return new Response(text, head)
}

/** Refuses a request before the app sees it. */
function refuseRequest(gateway: Gateway, error: TurnstreamError, response: ServerResponse): void {
  gateway.refused(error.code)
  const { status, headers, text } = rawResponse(error, response.req.url)
  response.writeHead(status, headers)
  response.end(text)
}

/** Refuses bytes that are not HTTP, or an incomplete request. Returns the code if a response was sent. */
export function refuseMalformed(
  error: Error & ports.Overflow & { readonly code?: string },
  socket: Duplex,
  { clock, limits }: { readonly clock: Clock; readonly limits: ports.PortLimits },
): ErrorCode | undefined {
  // The rest of a request that was already refused.
  if (lingering.has(socket)) return undefined
  // The peer has disconnected, or another response has already started.
  if (error.code === 'ECONNRESET' || !socket.writable || isBeingAnswered(socket)) {
    socket.destroy()
    return undefined
  }
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    // Reading the rest could still execute the request.
    socket.end(encodeRaw(invalid('it took too long to arrive'), 408), () => socket.destroy())
    return 'REQUEST_INVALID'
  }
  const isOverflow = error.code === 'HPE_HEADER_OVERFLOW'
  const refusal = isOverflow ? ports.headOverflow(error, limits) : invalid('it is not HTTP')
  endAndLinger(socket, refusal, clock)
  return refusal.code
}

/** Node stores the response in progress on the socket, and checks it there for the same reason. */
function isBeingAnswered(socket: Duplex): boolean {
  const { _httpMessage: response } = socket as { _httpMessage?: ServerResponse | null }
  return response?.headersSent === true
}

const lingering = new WeakSet<Duplex>()

function endAndLinger(socket: Duplex, error: TurnstreamError, clock: Clock): void {
  lingering.add(socket)
  socket.end(encodeRaw(error))
  socket.on(
    'close',
    clock.after(LINGER_MS, () => socket.destroy()),
  )
}

function encodeRaw(error: TurnstreamError, as?: number): string {
  const { status, headers, text } = rawResponse(error)
  const sent = as ?? status
  const fields = Object.entries({ ...headers, connection: 'close' })
  const head = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return `HTTP/1.1 ${sent} ${STATUS_CODES[sent]}\r\n${head}\r\n${text}`
}
