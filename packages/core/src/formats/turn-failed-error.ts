import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'
import { nameList, retrySeconds } from './fields.ts'

/** A turn that ended without output, as an error response. */
export class TurnFailedError extends TurnstreamError {
  override readonly name = 'TurnFailedError'
  readonly status: number
  /** What clients are told. */
  readonly sent: ErrorObject
  readonly failure: ErrorObject
  readonly headers: Record<string, string>

  /** `isNamed`: the client chose the run id, so a retry gets the same turn. */
  constructor(failure: ErrorObject, isNamed: boolean) {
    super('STREAM_ERROR', failure.message)
    const { status, code, message = failure.message } = vendorFailure(failure)
    this.status = status
    this.failure = failure
    this.sent = { code, message }
    this.headers = {
      ...retryAfter(status, failure),
      ...((isNamed || !isRetryable(failure.code)) && noRetry(status)),
    }
  }
}

/** Tells a vendor's client not to retry an error. Other statuses it does not retry anyway. */
export function noRetry(status: number): Record<string, string> {
  const isRetried = status >= 500 || status === 408 || status === 409 || status === 429
  return isRetried ? { 'x-should-retry': 'false' } : {}
}

interface VendorFailure {
  readonly status: number
  /** Replaces the vendor's code. */
  readonly code?: string
  /** Replaces the provider's message. */
  readonly message?: string
}

const NOT_FOUND = { status: 404, code: 'model_not_found' } as const
const LIMITED = { status: 429, code: 'rate_limit_exceeded' } as const

/** The provider refused our key or account. Not sent as 401, which the client would attribute to its own key. */
const OURS = {
  status: 502,
  message: 'The provider refused this server. Its operator must check the key or the account',
} as const

/** The provider's account has no budget left. OpenAI's clients expect 429, and do not retry it with this code. */
const NO_QUOTA = { ...OURS, status: 429, code: 'insufficient_quota' } as const

/** A fault of codex itself, or one that it does not name. It is no limit, overload or lost connection. */
const UNCLASSIFIED = { status: 502 } as const

/** Failures that a retry cannot fix, although the status suggests it. */
const FINAL: ReadonlySet<VendorFailure> = new Set([OURS, NO_QUOTA, UNCLASSIFIED])

/** Vendor error codes, by HTTP status or in the stream. */
export const VENDOR_FAILURES = new Map<string, VendorFailure>([
  ...failures(OURS, 'HTTP_401 HTTP_403 HTTP_407 authentication_error permission_error'),
  ...failures(NO_QUOTA, 'HTTP_402 billing_error insufficient_quota usage_not_included'),
  ...failures({ status: 400 }, 'HTTP_400 HTTP_415 HTTP_422 context_length_exceeded cyber_policy'),
  ...failures({ status: 400 }, 'inference_hook_denied invalid_prompt invalid_request_error'),
  ...failures({ status: 400 }, 'misalignment_policy_violation'),
  ...failures(NOT_FOUND, 'HTTP_404 model_not_found not_found_error'),
  ...failures({ status: 413 }, 'HTTP_413 request_too_large'),
  ...failures(LIMITED, 'HTTP_429 rate_limit_error rate_limit_exceeded'),
  ...failures({ status: 503 }, 'HTTP_503 HTTP_529 overloaded_error server_is_overloaded slow_down'),
  ...failures({ status: 504 }, 'HTTP_408 HTTP_504 timeout_error'),
  ...failures(UNCLASSIFIED, 'other sandbox_error session_budget_exceeded too_many_denials'),
])

function failures(failure: VendorFailure, codes: string): [string, VendorFailure][] {
  return nameList(codes).map((code) => [code, failure])
}

/** Our codes for client errors. All others are server or provider failures. */
const CLIENTS: ReadonlySet<string> = new Set<ErrorCode>([
  'OPTION_INVALID',
  'TURN_ITEM_LIMIT',
  'TURN_ROUND_LIMIT',
  'TURN_TEXT_LIMIT',
])

function vendorFailure({ code }: ErrorObject): VendorFailure & { readonly code: string } {
  if (code === 'MODEL_UNKNOWN') return NOT_FOUND
  const vendors = VENDOR_FAILURES.get(code)
  if (vendors !== undefined) return { code, ...vendors }
  if (!isOurs(code)) return { status: 502, code }
  const { status } = ERROR_CODES[code]
  const isSent = CLIENTS.has(code) || status >= 500
  // A server must not send 499.
  return { status: isSent && status !== 499 ? status : 500, code }
}

function isOurs(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code)
}

function isRetryable(code: string): boolean {
  if (isOurs(code)) return ERROR_CODES[code].retryable
  const failure = VENDOR_FAILURES.get(code)
  return !(failure !== undefined && FINAL.has(failure)) && !code.startsWith('HTTP_3')
}

/** The vendor's own delay. Without one, OpenAI's client chooses. */
function retryAfter(status: number, error: ErrorObject): Record<string, string> {
  const seconds = retrySeconds(error)
  if (seconds === undefined || (status !== 429 && status !== 503)) return {}
  return { 'retry-after': `${seconds}` }
}
