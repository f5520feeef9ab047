import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { RequestError } from '@hono/node-server'
import { TurnstreamError } from '../protocol/errors.ts'
import { HEADERS } from '../protocol/names.ts'
import { answerOf } from './error-response.ts'

/*
 * What is answered to a request that does not even reach the app.
 */

const headers = () => ({
  'content-type': 'application/json',
  'cache-control': 'no-store',
  [HEADERS.requestId]: crypto.randomUUID(),
})

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('REQUEST_INVALID', detail)
}

/** A request whose address or host is none; or one that the app could not answer at all. */
export function answerUnreadable(error: unknown): Response {
  const isUnreadable = error instanceof RequestError
  const { status, body } = answerOf(isUnreadable ? invalid('its address or host') : error)
  return new Response(JSON.stringify(body), { status, headers: headers() })
}

const STATUS_OF: Record<string, number> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
}

/** Bytes that are no request, or that do not come to an end. */
export function answerMalformed(error: Error & { code?: string }, socket: Duplex): void {
  // A peer that has left reads no answer, and after the head of another answer there is no place for one.
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const status = STATUS_OF[error.code ?? ''] ?? 400
  const body = JSON.stringify(answerOf(invalid('it is no HTTP')).body)
  const fields = { ...headers(), 'content-length': Buffer.byteLength(body), connection: 'close' }
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join('')}\r\n${body}`)
}
