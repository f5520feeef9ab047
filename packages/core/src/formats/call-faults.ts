import { isRecord, parseJsonSafe } from '../protocol/json.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'

/** A failed call. `retryAfterMs` is set if the vendor named a delay. */
export interface CallFault extends ErrorObject {
  isRetryable: boolean
  /** The vendor refused data that the next call does not contain. */
  isRefusal?: boolean
  retryAfterMs?: number | undefined
}

/** Timeouts of Node's `fetch`: 300 s for headers, and between two chunks. */
const FETCH_TIMEOUTS = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])
const MAX_ERROR_BODY_CHARS = 64 * 1024
// Plain-text errors are short; longer texts are pages or stack traces.
const MAX_PLAIN_CHARS = 300

export function junkFault(bytes: number): CallFault {
  const message = `The provider sent more than ${bytes} bytes without an event`
  return { code: 'UPSTREAM_MALFORMED', message, isRetryable: false }
}

export const EMPTY_ANSWER: CallFault = {
  code: 'UPSTREAM_TRUNCATED',
  message: 'The provider returned an empty stream',
  isRetryable: true,
}

/** Converts a failure of `fetch`. Only its code is public: the errors name hosts and ports, and quote headers. */
export function unreachable(error: unknown): ErrorObject {
  // `fetch` puts the network error into `cause`.
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const word = /^[A-Z][A-Z0-9_]{2,60}$/.test(code) ? ` (${code})` : ''
  if (FETCH_TIMEOUTS.has(code)) {
    return { code: 'UPSTREAM_TIMEOUT', message: `The provider was silent for too long${word}` }
  }
  return { code: 'UPSTREAM_UNREACHABLE', message: `The call to the provider failed${word}` }
}

/** Where `fetch` hides a redirect it has no status. */
export function isRedirect({ status, type }: Response): boolean {
  return type === 'opaqueredirect' || (status >= 300 && status < 400)
}

export function redirectFault({ status }: Response): CallFault {
  const code = `HTTP_${status === 0 ? 302 : status}`
  const message = 'The provider returned a redirect, which is not followed'
  return { code, message, isRetryable: false }
}

/** Seconds or a date; other values are ignored. */
export function retryAfter(header: string | null): number | undefined {
  if (header === null || header.trim() === '') return undefined
  const seconds = Number(header)
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}

/** The message in a known vendor error format, or the body if it is a sentence. */
export function vendorMessage(body: string): string {
  const error = errorIn(body)
  const message = isRecord(error) ? error['message'] : error
  return typeof message === 'string' ? message.trim() : sentenceOf(body)
}

/** Vendors' codes that clients act on. The others say no more than the status. */
export const VENDOR_CODES: ReadonlySet<unknown> = new Set([
  'context_length_exceeded',
  'insufficient_quota',
  'server_is_overloaded',
  'slow_down',
  'usage_not_included',
])

/** How Anthropic, Gemini and compatible servers say it: they have no code for it. */
const CONTEXT_EXCEEDED =
  /prompt is too long|maximum context length|input token count.{0,40}exceeds the maximum/i

export function vendorCode(status: number, body: string): string {
  const error = errorIn(body)
  const { code, type } = isRecord(error) ? error : {}
  const known = [code, type].find((each) => VENDOR_CODES.has(each))
  if (typeof known === 'string') return known
  const isTooLong = status === 400 && CONTEXT_EXCEEDED.test(vendorMessage(body))
  return isTooLong ? 'context_length_exceeded' : `HTTP_${status}`
}

/** The vendor only accepts further calls after a payment. */
export function isOutOfQuota(code: string): boolean {
  return code === 'insufficient_quota' || code === 'usage_not_included'
}

function errorIn(body: string): unknown {
  const json = parseJsonSafe(body)
  const outer = Array.isArray(json) ? (json[0] as unknown) : json
  return isRecord(outer) ? (outer['error'] ?? outer) : undefined
}

/** Pages, stack traces and other JSON may contain anything. */
function sentenceOf(body: string): string {
  const text = body.trim()
  return text.length <= MAX_PLAIN_CHARS && /^[^\n<>{}]*$/.test(text) ? text : ''
}

export async function readStart(response: Response): Promise<string> {
  if (response.body === null) return ''
  const decoder = new TextDecoder()
  const reader = response.body.getReader()
  let text = ''
  while (text.length < MAX_ERROR_BODY_CHARS) {
    const { done, value } = await reader.read()
    if (done) break
    text += decoder.decode(value, { stream: true })
  }
  return text
}
