import { TurnstreamError } from '../../protocol/errors.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import type { Refusal } from '../request-errors.ts'
import { TurnFailedError } from '../turn-failed-error.ts'
import type { MessagesError } from './wire.ts'

/** Anthropic's reasons for refusing a request of a message thread, by which its clients choose what to send instead. */
interface ThreadRefusal {
  readonly error_code: 'thread_not_found' | 'thread_unsupported_request'
  readonly unsupported?: readonly string[]
}

/** A request that may lack the messages before it. */
export class MessageThreadError extends TurnstreamError {
  override readonly name = 'MessageThreadError'
  readonly details: ThreadRefusal

  private constructor(
    code: 'TURN_UNKNOWN' | 'REQUEST_INVALID',
    why: string,
    details: ThreadRefusal,
  ) {
    super(code, why)
    this.details = details
  }

  /** Clients send all messages again, in a new thread. */
  static notFound(): MessageThreadError {
    const why = 'thread: message threads are not stored; send all messages'
    return new MessageThreadError('TURN_UNKNOWN', why, { error_code: 'thread_not_found' })
  }

  static unsupported(): MessageThreadError {
    const details = {
      error_code: 'thread_unsupported_request',
      unsupported: ['thread.type'],
    } as const
    return new MessageThreadError('REQUEST_INVALID', 'thread.type: must be create', details)
  }
}

/** Anthropic's types of errors, by status. */
const TYPES: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

const STATUSES = new Map(Object.entries(TYPES).map(([status, type]) => [type, Number(status)]))

/** By our codes and vendors' codes, also of HTTP errors. All others are an `api_error`. */
const CODE_TYPES: Record<string, string> = {
  HTTP_400: 'invalid_request_error',
  HTTP_402: 'billing_error',
  HTTP_404: 'not_found_error',
  HTTP_408: 'timeout_error',
  HTTP_413: 'request_too_large',
  HTTP_415: 'invalid_request_error',
  HTTP_422: 'invalid_request_error',
  HTTP_429: 'rate_limit_error',
  HTTP_503: 'overloaded_error',
  HTTP_504: 'timeout_error',
  HTTP_529: 'overloaded_error',
  MODEL_UNKNOWN: 'not_found_error',
  OPTION_INVALID: 'invalid_request_error',
  TURN_ITEM_LIMIT: 'invalid_request_error',
  TURN_ROUND_LIMIT: 'invalid_request_error',
  TURN_TEXT_LIMIT: 'invalid_request_error',
  TURN_TIME_LIMIT: 'timeout_error',
  UPSTREAM_TIMEOUT: 'timeout_error',
  billing_error: 'billing_error',
  context_length_exceeded: 'invalid_request_error',
  cyber_policy: 'invalid_request_error',
  inference_hook_denied: 'invalid_request_error',
  insufficient_quota: 'billing_error',
  invalid_prompt: 'invalid_request_error',
  invalid_request_error: 'invalid_request_error',
  misalignment_policy_violation: 'invalid_request_error',
  model_not_found: 'not_found_error',
  not_found_error: 'not_found_error',
  overloaded_error: 'overloaded_error',
  rate_limit_error: 'rate_limit_error',
  rate_limit_exceeded: 'rate_limit_error',
  request_too_large: 'request_too_large',
  server_is_overloaded: 'overloaded_error',
  slow_down: 'overloaded_error',
  timeout_error: 'timeout_error',
  usage_not_included: 'billing_error',
}

/** Undefined for an `api_error`. */
function messagesErrorType(code: string): string | undefined {
  return Object.hasOwn(CODE_TYPES, code) ? CODE_TYPES[code] : undefined
}

/** An error within a stream. */
export function messagesError({ code, message }: ErrorObject): MessagesError {
  const type = messagesErrorType(code) ?? 'api_error'
  return { type: 'error', error: { type, message }, request_id: null }
}

/**
 * Writes the response to a refused request. A turn that fails has the type that its stream would have, and the status of
 * that type. Clients retry a 529 as they would a 503.
 */
export function messagesErrorResponse(
  refusal: Refusal,
  requestId: string,
): { status: number; body: MessagesError } {
  const { error } = refusal
  const isFailedTurn = error instanceof TurnFailedError
  const known = isFailedTurn ? messagesErrorType(error.failure.code) : undefined
  const given = refusal.status === 503 ? 529 : refusal.status
  const status = STATUSES.get(known ?? '') ?? given
  const type = known ?? TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
  const message = isFailedTurn ? error.sent.message : refusal.message
  const details = error instanceof MessageThreadError && { details: error.details }
  return {
    status,
    body: { type: 'error', error: { type, message, ...details }, request_id: requestId },
  }
}
