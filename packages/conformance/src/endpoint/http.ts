import type { Clock } from '@turnstream/core/internal/async/clock'

export async function readBounded(input: AsyncIterable<Uint8Array> | null, maxBytes: number) {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of input ?? []) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes >= maxBytes) break
  }
  return Buffer.concat(chunks).subarray(0, maxBytes).toString('utf8')
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused (ECONNREFUSED)',
  ENOTFOUND: 'unknown host (ENOTFOUND)',
  EAI_AGAIN: 'the host name cannot be resolved (EAI_AGAIN)',
  ECONNRESET: 'the connection was closed without a response (ECONNRESET)',
  UND_ERR_SOCKET: 'the connection was closed without a response',
  EHOSTUNREACH: 'no route to host (EHOSTUNREACH)',
  ENETUNREACH: 'network unreachable (ENETUNREACH)',
}

/** The innermost cause of a failed fetch; its own message has no reason. */
export function failureReason(error: unknown): string {
  let reason = 'for an unknown reason'
  for (let at = error; at instanceof Error; at = at.cause) {
    const code = 'code' in at ? String(at.code) : ''
    reason = REASONS[code] ?? (at.message || code || at.name)
    // Several addresses were tried, each with its own reason. The first is enough.
    if (at instanceof AggregateError && at.errors.length > 0) return failureReason(at.errors[0])
  }
  return reason
}

export const LOOK_LIMIT_MS = 5000

/** More than any model list or any response to the doctor. */
export const MAX_BYTES = 4 * 1024 * 1024

export interface HttpCall {
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  /** JSON to POST. A GET without it. */
  readonly body?: string | undefined
  /** For a request without a body that is not a GET. */
  readonly method?: 'DELETE' | 'POST'
  readonly limitMs?: number
  readonly clock: Clock
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
  readonly askedAt: number
  readonly answeredAt: number
}

export interface NoAnswer {
  readonly reason: string
}

export async function call(options: HttpCall): Promise<Answer | NoAnswer> {
  const { clock, limitMs = LOOK_LIMIT_MS } = options
  const limit = new AbortController()
  const stopWaiting = clock.after(limitMs, () => limit.abort())
  const askedAt = clock.now()
  try {
    const response = await send(options, limit.signal)
    const answeredAt = clock.now()
    const body = await readBounded(response.body, MAX_BYTES)
    return { status: response.status, headers: response.headers, body, askedAt, answeredAt }
  } catch (error) {
    return limit.signal.aborted ? tooLate(limitMs) : { reason: failureReason(error) }
  } finally {
    stopWaiting()
    limit.abort()
  }
}

/** Follows no redirects: they could send a prompt and a key anywhere. */
export function send({ url, headers, body, method }: Omit<HttpCall, 'clock'>, signal: AbortSignal) {
  return fetch(url, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    ...(body !== undefined && { body }),
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    redirect: 'manual',
    signal,
  })
}

export const tooLate = (limitMs: number) => ({ reason: `no response within ${limitMs / 1000} s` })
