import type { Clock } from '../../async/clock.ts'
import { boundedText, failureReason } from '../http.ts'

/** How long one look over the network may take. */
export const LOOK_LIMIT_MS = 5000

/** More than any list of models, and any answer that is asked for here. */
export const MAX_BYTES = 4 * 1024 * 1024

export interface Call {
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  /** JSON to POST; without it, it is a GET. */
  readonly body?: string
  readonly limitMs?: number
  readonly clock: Clock
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
  /** Milliseconds since the epoch, by our clock. */
  readonly askedAt: number
  readonly answeredAt: number
}

/** Nobody answered, or not in time. */
export interface NoAnswer {
  readonly reason: string
}

/** One call, bounded in time and size, that follows no redirect: a key is in its headers. */
export async function call(options: Call): Promise<Answer | NoAnswer> {
  const { clock, limitMs = LOOK_LIMIT_MS } = options
  const limit = new AbortController()
  const stopWaiting = clock.after(limitMs, () => limit.abort())
  const askedAt = clock.now()
  try {
    const response = await send(options, limit.signal)
    const answeredAt = clock.now()
    const body = await boundedText(response, MAX_BYTES)
    return { status: response.status, headers: response.headers, body, askedAt, answeredAt }
  } catch (error) {
    return limit.signal.aborted ? tooLate(limitMs) : { reason: failureReason(error) }
  } finally {
    stopWaiting()
    limit.abort()
  }
}

export function send({ url, headers, body }: Call, signal: AbortSignal): Promise<Response> {
  const post = { method: 'POST', body: body ?? null }
  return fetch(url, {
    ...(body !== undefined && post),
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    redirect: 'manual',
    signal,
  })
}

export function tooLate(limitMs: number): NoAnswer {
  return { reason: `no answer within ${limitMs / 1000} s` }
}
