interface ErrorRow {
  /** HTTP status of a response that fails with this code. */
  status: number
  /** Whether the same call may succeed later unchanged. */
  retryable: boolean
  summary: string
}

/** Every error code. Codes are public API: `docs/errors.md` explains each one. */
export const ERROR_CODES = {
  ABORTED: { status: 499, retryable: false, summary: 'The stream was aborted' },
  APPROVAL_ANSWERED: {
    status: 409,
    retryable: false,
    summary: 'The approval was already answered',
  },
  APPROVAL_CLOSED: { status: 409, retryable: false, summary: 'The approval is no longer open' },
  APPROVAL_UNKNOWN: { status: 404, retryable: false, summary: 'Unknown approval' },
  BACKPRESSURE: { status: 503, retryable: true, summary: 'The buffer is full' },
  BODY_TOO_LARGE: { status: 413, retryable: false, summary: 'The request body is too large' },
  CASSETTE_INVALID: { status: 400, retryable: false, summary: 'The cassette is unreadable' },
  CASSETTE_TOO_LARGE: { status: 413, retryable: false, summary: 'The cassette is too large' },
  COLLECTION_ERROR: { status: 500, retryable: false, summary: 'The stream failed before it ended' },
  CONNECTIONS_LIMITED: { status: 503, retryable: true, summary: 'Too many connections are open' },
  CURSOR_INVALID: { status: 400, retryable: false, summary: 'Invalid cursor' },
  EVENT_INVALID: { status: 400, retryable: false, summary: 'The event is malformed' },
  EVENT_TYPE_UNKNOWN: { status: 400, retryable: false, summary: 'Unknown event type' },
  HEADERS_TOO_LARGE: { status: 431, retryable: false, summary: 'Request headers are too large' },
  HOST_REFUSED: { status: 421, retryable: false, summary: 'Unknown host' },
  INPUT_TOO_LARGE: { status: 413, retryable: false, summary: 'The input is too large for a turn' },
  INTERNAL_ERROR: { status: 500, retryable: true, summary: 'Internal error' },
  ITEM_CANCELLED: { status: 409, retryable: false, summary: 'The item was cancelled' },
  ITEM_UNKNOWN: { status: 409, retryable: false, summary: 'No open item has this id' },
  ITERATION_ERROR: { status: 409, retryable: false, summary: 'The stream already has a reader' },
  KEYS_FILE_INVALID: { status: 500, retryable: false, summary: 'Invalid keys file' },
  KEY_INVALID: { status: 401, retryable: false, summary: 'Unknown API key' },
  KEY_REQUIRED: { status: 401, retryable: false, summary: 'An API key is required' },
  LEASE_HELD: { status: 409, retryable: true, summary: 'The turn still has an owner' },
  LEASE_LOST: { status: 409, retryable: false, summary: 'The lease was lost' },
  LOG_SEALED: { status: 409, retryable: false, summary: 'The log is sealed' },
  LOG_SEQUENCE_GAP: { status: 409, retryable: false, summary: 'A previous record is missing' },
  MEDIA_TYPE_UNSUPPORTED: { status: 415, retryable: false, summary: 'Unsupported media type' },
  METHOD_NOT_ALLOWED: { status: 405, retryable: false, summary: 'Method not allowed' },
  MODEL_UNKNOWN: { status: 404, retryable: false, summary: 'Unknown model' },
  OPTION_INVALID: { status: 400, retryable: false, summary: 'Invalid option' },
  ORIGIN_REFUSED: { status: 403, retryable: false, summary: 'Origin not allowed' },
  PROCESSOR_DESTROYED: { status: 410, retryable: false, summary: 'The processor was destroyed' },
  PROCESSOR_OVERFLOW: { status: 503, retryable: true, summary: 'Too many undelivered snapshots' },
  PRODUCER_LOST: { status: 500, retryable: true, summary: 'The process writing the turn is gone' },
  READS_LIMITED: { status: 429, retryable: true, summary: 'Too many reads are in progress' },
  RECORD_INVALID: { status: 400, retryable: false, summary: 'Invalid record' },
  REQUEST_INVALID: { status: 400, retryable: false, summary: 'Invalid request' },
  RETRY_EXHAUSTED: { status: 503, retryable: true, summary: 'Every attempt failed' },
  ROUTE_UNKNOWN: { status: 404, retryable: false, summary: 'Unknown path' },
  ROUTE_UNSUPPORTED: { status: 501, retryable: false, summary: 'Not supported by this server' },
  SERVER_SHUTDOWN: { status: 503, retryable: true, summary: 'The server is shutting down' },
  SSE_LIMIT_EXCEEDED: { status: 502, retryable: false, summary: 'A line or event is too long' },
  STORE_CLOSED: { status: 503, retryable: false, summary: 'The store is closed' },
  STORE_CORRUPT: { status: 500, retryable: false, summary: 'The store is damaged' },
  STORE_FAILED: { status: 500, retryable: true, summary: 'The store failed' },
  STORE_FULL: { status: 507, retryable: true, summary: 'The store is full' },
  STORE_LOCKED: { status: 503, retryable: true, summary: 'Another process is using the store' },
  STORE_LOST: {
    status: 503,
    retryable: false,
    summary: 'The store directory was removed or replaced',
  },
  STORE_READ_ONLY: { status: 503, retryable: false, summary: 'The store is not writable' },
  STORE_UNAVAILABLE: { status: 503, retryable: true, summary: 'The store is unavailable' },
  STORE_VERSION: { status: 500, retryable: false, summary: 'Unsupported store format' },
  STREAMS_LIMITED: { status: 429, retryable: true, summary: 'Too many streams are open' },
  STREAM_ERROR: { status: 502, retryable: false, summary: 'The stream failed or has ended' },
  STREAM_SEQUENCE_ERROR: { status: 409, retryable: false, summary: 'The event is out of order' },
  SUBMITS_LIMITED: { status: 429, retryable: true, summary: 'Too many turns were submitted' },
  SUBMIT_CONFLICT: { status: 409, retryable: false, summary: 'The ids belong to another request' },
  THREADS_LIMITED: { status: 429, retryable: false, summary: 'Too many threads are stored' },
  THREAD_BUSY: { status: 409, retryable: true, summary: 'Another turn of the thread is running' },
  THREAD_CHANGED: { status: 409, retryable: true, summary: 'Another request changed the thread' },
  THREAD_UNKNOWN: { status: 404, retryable: false, summary: 'Unknown thread' },
  TIMEOUT: { status: 504, retryable: true, summary: 'No event arrived in time' },
  TOKEN_EXPIRED: { status: 401, retryable: false, summary: 'The stream token has expired' },
  TOKEN_INVALID: { status: 401, retryable: false, summary: 'Invalid stream token' },
  TOOL_ARGUMENTS_TOO_LARGE: { status: 422, retryable: false, summary: 'Tool arguments too large' },
  TOOL_CALL_ANSWERED: { status: 409, retryable: false, summary: 'The call already has an output' },
  TOOL_CALL_UNKNOWN: { status: 400, retryable: false, summary: 'Unknown tool call' },
  TOOL_FAILED: { status: 500, retryable: false, summary: 'The tool failed' },
  TOOL_OUTPUT_ORPHANED: { status: 409, retryable: false, summary: 'No call matches this output' },
  TOOL_TIMEOUT: { status: 504, retryable: true, summary: 'The tool timed out' },
  TURNS_LIMITED: { status: 429, retryable: true, summary: 'Too many turns are running' },
  TURN_DELETED: { status: 410, retryable: false, summary: 'The turn was deleted' },
  TURN_EXISTS: { status: 409, retryable: false, summary: 'The turn already exists' },
  TURN_EXPIRED: { status: 410, retryable: false, summary: 'The logs of the turn have expired' },
  TURN_ITEM_LIMIT: { status: 422, retryable: false, summary: 'The turn has too many items' },
  TURN_REPLACED: { status: 409, retryable: false, summary: 'The turn was already replaced' },
  TURN_ROUND_LIMIT: { status: 422, retryable: false, summary: 'The turn has too many tool rounds' },
  TURN_TEXT_LIMIT: { status: 422, retryable: false, summary: 'The turn has too much text' },
  TURN_TIME_LIMIT: { status: 504, retryable: true, summary: 'The turn took too long' },
  TURN_UNKNOWN: { status: 404, retryable: false, summary: 'Unknown turn' },
  UNREAD_LIMITED: {
    status: 429,
    retryable: true,
    summary: 'Requests and unread responses hold too much data',
  },
  UPGRADE_REFUSED: { status: 426, retryable: false, summary: 'WebSockets are not served' },
  UPSTREAM_MALFORMED: { status: 502, retryable: false, summary: 'Provider sent malformed data' },
  UPSTREAM_TIMEOUT: { status: 504, retryable: true, summary: 'The provider was silent too long' },
  UPSTREAM_TRUNCATED: { status: 502, retryable: true, summary: 'Provider stream ended early' },
  UPSTREAM_UNREACHABLE: { status: 502, retryable: true, summary: 'The provider is unreachable' },
  URL_TOO_LONG: { status: 414, retryable: false, summary: 'The URL is too long' },
} as const satisfies Record<string, ErrorRow>

export type ErrorCode = keyof typeof ERROR_CODES

/** The package's exception class. `code` is stable; the message is for people. */
export class TurnstreamError extends Error {
  override readonly name: string = 'TurnstreamError'
  readonly code: ErrorCode

  constructor(code: ErrorCode, detail: string, options?: ErrorOptions) {
    super(`${ERROR_CODES[code].summary}: ${detail}`, options)
    this.code = code
  }
}

export function optionInvalid(detail: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', detail)
}

/** The message without the summary of its code. */
export function withoutSummary({ code, message }: TurnstreamError): string {
  return message.slice(ERROR_CODES[code].summary.length + 2)
}

export function hasCode(error: unknown, code: ErrorCode): error is TurnstreamError {
  return error instanceof TurnstreamError && error.code === code
}

const MISSING: ReadonlySet<ErrorCode> = new Set(['TURN_DELETED', 'TURN_EXPIRED', 'TURN_UNKNOWN'])

/** Returns whether a turn cannot be read because it was deleted, has expired or never existed. */
export function isTurnMissing(error: unknown): error is TurnstreamError {
  return error instanceof TurnstreamError && MISSING.has(error.code)
}

/** Makes a `switch` exhaustive: does not compile when a case is missing. */
export function unreachable(value: never): never {
  throw new Error(`unhandled variant: ${JSON.stringify(value)}`)
}
