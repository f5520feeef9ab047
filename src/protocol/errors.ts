interface ErrorRow {
  /** The HTTP status a server answers with when this code is the reason for a refusal. */
  status: number
  /** Whether the same call may succeed later without being changed. */
  retryable: boolean
  summary: string
}

/** Every code turnstream uses. Codes are public API: `docs/errors.md` explains each of them. */
export const ERROR_CODES = {
  ABORTED: { status: 499, retryable: false, summary: 'The stream was aborted' },
  BACKPRESSURE: { status: 503, retryable: true, summary: 'The buffer is full' },
  COLLECTION_ERROR: { status: 500, retryable: false, summary: 'The stream failed while collected' },
  CURSOR_INVALID: { status: 400, retryable: false, summary: 'The cursor cannot be read' },
  EVENT_INVALID: { status: 400, retryable: false, summary: 'The event is malformed' },
  EVENT_TYPE_UNKNOWN: { status: 400, retryable: false, summary: 'The event type is not known' },
  ITEM_CANCELLED: { status: 409, retryable: false, summary: 'The item was cancelled' },
  ITEM_UNKNOWN: { status: 409, retryable: false, summary: 'The event names no open item' },
  ITERATION_ERROR: { status: 409, retryable: false, summary: 'The stream is being read already' },
  LEASE_HELD: { status: 409, retryable: true, summary: 'The lease of the turn has not run out' },
  LEASE_LOST: { status: 409, retryable: false, summary: 'The lease of the turn is lost' },
  LOG_SEALED: { status: 409, retryable: false, summary: 'The log is sealed' },
  LOG_SEQUENCE_GAP: {
    status: 409,
    retryable: false,
    summary: 'A record is missing before this one',
  },
  OPTION_INVALID: { status: 400, retryable: false, summary: 'The option cannot be used' },
  PROCESSOR_DESTROYED: { status: 410, retryable: false, summary: 'The processor was destroyed' },
  PROCESSOR_OVERFLOW: { status: 503, retryable: true, summary: 'Too many undelivered snapshots' },
  PRODUCER_LOST: {
    status: 500,
    retryable: true,
    summary: 'The process that wrote the turn is gone',
  },
  RECORD_INVALID: { status: 400, retryable: false, summary: 'The record cannot be kept' },
  RETRY_EXHAUSTED: { status: 503, retryable: true, summary: 'Every attempt failed' },
  SSE_LIMIT_EXCEEDED: { status: 502, retryable: false, summary: 'A line or event is too long' },
  STORE_CLOSED: { status: 503, retryable: false, summary: 'The store is closed' },
  STORE_CORRUPT: { status: 500, retryable: false, summary: 'The store holds what cannot be read' },
  STORE_FAILED: { status: 500, retryable: true, summary: 'The store failed' },
  STORE_FULL: { status: 507, retryable: true, summary: 'The store has no room left' },
  STORE_LOCKED: { status: 503, retryable: true, summary: 'Another process uses the store' },
  STORE_READ_ONLY: { status: 503, retryable: false, summary: 'The store cannot be written' },
  STORE_UNAVAILABLE: { status: 503, retryable: true, summary: 'The store does not answer' },
  STORE_VERSION: { status: 500, retryable: false, summary: 'The store has another format' },
  STREAM_ERROR: { status: 502, retryable: false, summary: 'The stream failed or has ended' },
  STREAM_SEQUENCE_ERROR: { status: 409, retryable: false, summary: 'The event came out of order' },
  THREAD_BUSY: { status: 409, retryable: true, summary: 'Another turn of the thread is running' },
  TIMEOUT: { status: 504, retryable: true, summary: 'No event arrived in time' },
  TOOL_ARGUMENTS_TOO_LARGE: {
    status: 422,
    retryable: false,
    summary: 'The arguments of a tool call are too large',
  },
  TOOL_OUTPUT_ORPHANED: { status: 409, retryable: false, summary: 'The output belongs to no call' },
  TURN_DELETED: { status: 410, retryable: false, summary: 'The turn was deleted' },
  TURN_EXISTS: { status: 409, retryable: false, summary: 'The turn exists already' },
  TURN_EXPIRED: { status: 410, retryable: false, summary: 'The logs of the turn have expired' },
  TURN_UNKNOWN: { status: 404, retryable: false, summary: 'There is no such turn' },
  UPSTREAM_MALFORMED: {
    status: 502,
    retryable: false,
    summary: 'The provider sent what cannot be read',
  },
  UPSTREAM_TIMEOUT: {
    status: 504,
    retryable: true,
    summary: 'The provider was silent for too long',
  },
  UPSTREAM_TRUNCATED: {
    status: 502,
    retryable: true,
    summary: 'The answer of the provider has no end',
  },
  UPSTREAM_UNREACHABLE: {
    status: 502,
    retryable: true,
    summary: 'The provider could not be reached',
  },
} as const satisfies Record<string, ErrorRow>

export type ErrorCode = keyof typeof ERROR_CODES

/** The one exception of this package; `code` is stable, the message is for people. */
export class TurnstreamError extends Error {
  override readonly name: string = 'TurnstreamError'
  readonly code: ErrorCode

  constructor(code: ErrorCode, detail: string, options?: ErrorOptions) {
    super(`${ERROR_CODES[code].summary}: ${detail}`, options)
    this.code = code
  }
}

export function hasCode(error: unknown, code: ErrorCode): error is TurnstreamError {
  return error instanceof TurnstreamError && error.code === code
}

/** For a `switch` that must be complete: does not compile when a variant is forgotten. */
export function unreachable(value: never): never {
  throw new Error(`unhandled variant: ${JSON.stringify(value)}`)
}
