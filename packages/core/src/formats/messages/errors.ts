import { TurnstreamError } from '../../protocol/errors.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import { nameList } from '../fields.ts'
import type { Refusal } from '../request-errors.ts'
import { TurnFailedError, VENDOR_FAILURES } from '../turn-failed-error.ts'
import type { MessagesError } from './wire.ts'

/** A request that may lack the messages before it. Clients choose by the details what to send instead. */
export class MessageThreadError extends TurnstreamError {
  override readonly name = 'MessageThreadError'
  readonly details: { readonly error_code: string; readonly unsupported?: readonly string[] }

  constructor(isContinued: boolean) {
    if (isContinued) {
      super('TURN_UNKNOWN', 'thread: message threads are not stored; send all messages')
      this.details = { error_code: 'thread_not_found' }
    } else {
      super('REQUEST_INVALID', 'thread.type: must be create')
      this.details = { error_code: 'thread_unsupported_request', unsupported: ['thread.type'] }
    }
  }
}

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

/** The status for our codes and vendors' codes, also of HTTP errors. All others are an `api_error`. */
const CODE_STATUSES = new Map([
  ...Array.from(VENDOR_FAILURES, ([code, { status }]) => [code, statusHere(status)] as const),
  ...codes(400, 'OPTION_INVALID TURN_ITEM_LIMIT TURN_ROUND_LIMIT TURN_TEXT_LIMIT'),
  ...codes(402, 'HTTP_402 billing_error insufficient_quota usage_not_included'),
  ...codes(404, 'MODEL_UNKNOWN'),
  ...codes(504, 'TURN_TIME_LIMIT UPSTREAM_TIMEOUT'),
])

/** This API has its own status for an overload. */
function statusHere(status: number): number {
  return status === 503 ? 529 : status
}

function codes(status: number, names: string): [code: string, status: number][] {
  return nameList(names).map((code) => [code, status])
}

export function messagesError({ code, message }: ErrorObject): MessagesError {
  const type = TYPES[CODE_STATUSES.get(code) ?? 0] ?? 'api_error'
  return { type: 'error', error: { type, message }, request_id: null }
}

/** The response to a refused request. A failed turn has the type and status that its stream would have. */
export function messagesErrorResponse(
  refusal: Refusal,
  requestId: string,
): { status: number; body: MessagesError } {
  const { error } = refusal
  const isFailedTurn = error instanceof TurnFailedError
  const known = isFailedTurn ? CODE_STATUSES.get(error.failure.code) : undefined
  const status = known ?? statusHere(refusal.status)
  const type = TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
  const message = isFailedTurn ? error.sent.message : refusal.message
  const details = error instanceof MessageThreadError && { details: error.details }
  return {
    status,
    body: { type: 'error', error: { type, message, ...details }, request_id: requestId },
  }
}
