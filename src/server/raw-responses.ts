import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { RequestError } from '@hono/node-server'
import type { Clock } from '../async/clock.ts'
import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import { HEADERS } from '../protocol/names.ts'
import { toErrorResponse } from './error-response.ts'
import { headOverflow, type Overflow, type PortLimits } from './limits/port-limits.ts'
import { SECURITY_HEADERS } from './response-headers.ts'

/*
 * The responses to requests that do not reach the app.
 */

// A connection that has had its last response is read for this long: closing it immediately could reset it, and the
// reset could overtake the response.
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

/** Refuses a request with a malformed URL or host, or one that the app could not answer at all. */
export function refuseUnreadable(error: unknown): Response {
  const isUnreadable = error instanceof RequestError
  const { text, ...head } = rawResponse(isUnreadable ? invalid('its address or host') : error)
  return new Response(text, head)
}

/** Refuses a request before the app sees it. */
export function refuseRequest(error: TurnstreamError, response: ServerResponse): void {
  const { status, headers, text } = rawResponse(error, response.req.url)
  response.writeHead(status, headers)
  response.end(text)
}

type MalformedError = Error & Overflow & { readonly code?: string }

/** Refuses bytes that are not HTTP, or a request that does not end. Returns the code if a response was sent. */
export function refuseMalformed(
  error: MalformedError,
  socket: Duplex,
  { clock, limits }: { readonly clock: Clock; readonly limits: PortLimits },
): ErrorCode | undefined {
  // The rest of what was refused already.
  if (lingering.has(socket)) return undefined
  // A peer that has left reads nothing, and after the head of another response there is no place for one.
  if (error.code === 'ECONNRESET' || !socket.writable || isBeingAnswered(socket)) {
    socket.destroy()
    return undefined
  }
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    // If the rest of the request were read, it could still be acted upon.
    socket.end(encodeRaw(invalid('it took too long'), 408), () => socket.destroy())
    return 'REQUEST_INVALID'
  }
  const isOverflow = error.code === 'HPE_HEADER_OVERFLOW'
  const refusal = isOverflow ? headOverflow(error, limits) : invalid('it is no HTTP')
  endAndLinger(socket, refusal, clock)
  return refusal.code
}

/** Refuses a connection that is one too many, without reading from it. */
export function refuseConnection(socket: Duplex, clock: Clock): void {
  endAndLinger(socket, new TurnstreamError('CONNECTIONS_LIMITED', 'come back later'), clock)
}

/** Node keeps the response in progress at the socket, and checks it there itself for the same reason. */
function isBeingAnswered(socket: Duplex): boolean {
  const { _httpMessage: response } = socket as { _httpMessage?: ServerResponse | null }
  return response?.headersSent === true
}

const lingering = new WeakSet<Duplex>()

function endAndLinger(socket: Duplex, error: TurnstreamError, clock: Clock): void {
  lingering.add(socket)
  socket.end(encodeRaw(error))
  const cancelTimer = clock.after(LINGER_MS, () => socket.destroy())
  socket.on('close', cancelTimer)
}

function encodeRaw(error: TurnstreamError, as?: number): string {
  const { status, headers, text } = rawResponse(error)
  const sent = as ?? status
  const fields = Object.entries({ ...headers, connection: 'close' })
  const head = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return `HTTP/1.1 ${sent} ${STATUS_CODES[sent]}\r\n${head}\r\n${text}`
}
