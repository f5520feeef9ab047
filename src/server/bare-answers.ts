import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { RequestError } from '@hono/node-server'
import { type Clock, systemClock } from '../async/clock.ts'
import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import { HEADERS } from '../protocol/names.ts'
import { answerOf } from './error-response.ts'
import { type Overflow, overflowOf } from './limits/oversize.ts'
import { PORT_LIMITS, type PortLimits } from './limits/port-limits.ts'
import { isVendorPath, openaiErrorBody } from './openai/error-body.ts'
import { SECURITY_HEADERS } from './web/security-headers.ts'

/*
 * What is answered to a request that does not even reach the app.
 */

// What still comes on a connection that has had its last answer is read for so long and thrown away: closing
// it at once could reset it, and the reset overtake the answer.
const LINGER_MS = 1000

const headers = (requestId: string) => ({
  'content-type': 'application/json',
  'cache-control': 'no-store',
  ...SECURITY_HEADERS,
  [HEADERS.requestId]: requestId,
})

function sizeOf(body: string) {
  return { 'content-length': Buffer.byteLength(body) }
}

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('REQUEST_INVALID', detail)
}

/** A request whose address or host is none; or one that the app could not answer at all. */
export function answerUnreadable(error: unknown): Response {
  const isUnreadable = error instanceof RequestError
  const id = crypto.randomUUID()
  const { status, body } = answerOf(isUnreadable ? invalid('its address or host') : error, id)
  return new Response(JSON.stringify(body), { status, headers: headers(id) })
}

/** A request that the app shall not see. */
export function answerRefused(error: TurnstreamError, response: ServerResponse): void {
  const id = crypto.randomUUID()
  const { status, body } = answerOf(error, id)
  const isVendors = isVendorPath(response.req.url ?? '')
  const text = JSON.stringify(isVendors ? openaiErrorBody(error, body, status) : body)
  response.writeHead(status, { ...headers(id), ...sizeOf(text) })
  response.end(text)
}

type MalformedError = Error & Overflow & { readonly code?: string }

/** What the answers to bytes depend on. */
interface Surroundings {
  readonly clock: Clock
  readonly limits: PortLimits
}

const USUAL: Surroundings = { clock: systemClock, limits: PORT_LIMITS }

/** Bytes that are no request, or that do not come to an end. Says why they were refused, if anybody was told. */
export function answerMalformed(
  error: MalformedError,
  socket: Duplex,
  { clock, limits }: Surroundings = USUAL,
): ErrorCode | undefined {
  // The rest of what was answered already.
  if (lingering.has(socket)) return undefined
  // A peer that has left reads no answer, and after the head of another answer there is no place for one.
  if (error.code === 'ECONNRESET' || !socket.writable || isBeingAnswered(socket)) {
    socket.destroy()
    return undefined
  }
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    const answer = rawAnswer(invalid('it took too long'), 408)
    // Were the rest of it read, it could still be acted upon.
    socket.end(answer, () => socket.destroy())
    return 'REQUEST_INVALID'
  }
  const isOverflow = error.code === 'HPE_HEADER_OVERFLOW'
  const refusal = isOverflow ? overflowOf(error, limits) : invalid('it is no HTTP')
  linger(socket, rawAnswer(refusal), clock)
  return refusal.code
}

/** A connection that is one too many. Nothing that it asks for is looked at. */
export function answerCrowded(socket: Duplex, clock: Clock): void {
  linger(socket, rawAnswer(new TurnstreamError('CONNECTIONS_LIMITED', 'come back later')), clock)
}

/** Node keeps the answer that is under way at the socket, and looks there itself for the same reason. */
function isBeingAnswered(socket: Duplex): boolean {
  const { _httpMessage: response } = socket as { _httpMessage?: ServerResponse | null }
  return response?.headersSent === true
}

const lingering = new WeakSet<Duplex>()

function linger(socket: Duplex, answer: string, clock: Clock): void {
  lingering.add(socket)
  socket.end(answer)
  const cancelTimer = clock.after(LINGER_MS, () => socket.destroy())
  socket.on('close', cancelTimer)
}

function rawAnswer(error: TurnstreamError, status?: number): string {
  const id = crypto.randomUUID()
  const answer = answerOf(error, id)
  const sent = status ?? answer.status
  const body = JSON.stringify(answer.body)
  const fields = {
    ...headers(id),
    ...answer.headers,
    ...sizeOf(body),
    connection: 'close',
  }
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${sent} ${STATUS_CODES[sent]}\r\n${head.join('')}\r\n${body}`
}
