import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import { errorTypeOf, type OpenaiErrorBody, refusedParam } from './error-body.ts'

/** A turn that ended before anything was said: the answer is not the turn, but why there is none. */
export class TurnFailedError extends TurnstreamError {
  override readonly name = 'TurnFailedError'
  readonly status: ContentfulStatusCode
  readonly body: OpenaiErrorBody
  readonly headers: Record<string, string>

  /** `isNamed` says that the client gave the run an id, so that asking again is answered by the same turn. */
  constructor(error: ErrorObject, isNamed: boolean) {
    super('STREAM_ERROR', error.message)
    const { status, code, message = error.message } = failureOf(error)
    this.status = status
    this.body = {
      error: { message, type: errorTypeOf(status), param: refusedParam(error), code },
    }
    this.headers = {
      ...retryAfter(status, error),
      // The client of OpenAI asks again after every 5xx and some others unless it is told that it is of no use.
      ...((isNamed || (status >= 500 && !isRetryable(error.code))) && {
        'x-should-retry': 'false',
      }),
    }
  }
}

interface Failure {
  readonly status: ContentfulStatusCode
  readonly code: string
  /** In place of what the provider says. */
  readonly message?: string
}

const NOT_FOUND: Pick<Failure, 'status' | 'code'> = { status: 404, code: 'model_not_found' }
const LIMITED: Pick<Failure, 'status' | 'code'> = { status: 429, code: 'rate_limit_exceeded' }

/**
 * Whose fault it is when the provider refuses our key, or the account behind it: never that of the client, which
 * would take a 401 for its own key.
 */
const OURS = {
  status: 502,
  message: 'The provider refused this server; its operator has to look at the key or the account',
} as const

/** What vendors say, with a status or in the stream. */
const VENDOR_CODES: Record<string, Pick<Failure, 'status' | 'message'> & { code?: string }> = {
  HTTP_400: { status: 400 },
  HTTP_401: OURS,
  HTTP_402: OURS,
  HTTP_403: OURS,
  HTTP_404: NOT_FOUND,
  HTTP_407: OURS,
  HTTP_408: { status: 504 },
  HTTP_413: { status: 413 },
  HTTP_415: { status: 400 },
  HTTP_422: { status: 400 },
  HTTP_429: LIMITED,
  HTTP_503: { status: 503 },
  HTTP_504: { status: 504 },
  HTTP_529: { status: 503 },
  authentication_error: OURS,
  billing_error: OURS,
  context_length_exceeded: { status: 400 },
  insufficient_quota: OURS,
  invalid_prompt: { status: 400 },
  invalid_request_error: { status: 400 },
  model_not_found: NOT_FOUND,
  not_found_error: NOT_FOUND,
  overloaded_error: { status: 503 },
  permission_error: OURS,
  rate_limit_error: LIMITED,
  rate_limit_exceeded: LIMITED,
}

/** Codes of ours that are the client's own doing. All others are told as a failure of ours or of the provider. */
const CLIENTS: ReadonlySet<string> = new Set<ErrorCode>([
  'OPTION_INVALID',
  'TURN_ITEM_LIMIT',
  'TURN_ROUND_LIMIT',
  'TURN_TEXT_LIMIT',
])

function failureOf({ code }: ErrorObject): Failure {
  if (code === 'MODEL_UNKNOWN') return NOT_FOUND
  const vendors = Object.hasOwn(VENDOR_CODES, code) ? VENDOR_CODES[code] : undefined
  if (vendors !== undefined) return { code, ...vendors }
  if (!isOurs(code)) return { status: 502, code }
  const { status } = ERROR_CODES[code]
  const isTold = CLIENTS.has(code) || status >= 500
  // 499 is no status that a server may send.
  return { status: isTold && status !== 499 ? status : 500, code }
}

function isOurs(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code)
}

function isRetryable(code: string): boolean {
  if (isOurs(code)) return ERROR_CODES[code].retryable
  return !(VENDOR_CODES[code] === OURS || code.startsWith('HTTP_3'))
}

/** As the vendor said it; the client of OpenAI has a pace of its own where it did not. */
function retryAfter(status: number, error: ErrorObject): Record<string, string> {
  const ms = 'retry_after_ms' in error ? error.retry_after_ms : undefined
  if (typeof ms !== 'number' || (status !== 429 && status !== 503)) return {}
  return { 'retry-after': `${Math.max(1, Math.ceil(ms / 1000))}` }
}
