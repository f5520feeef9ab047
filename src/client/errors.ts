/** A request that failed. `code` is stable: docs/errors.md explains those of the gateway. */
export class ClientError extends Error {
  override readonly name = 'ClientError'
  /** The gateway's code, or `CONNECTION_LOST` when there was no response. */
  readonly code: string
  /** HTTP status; 0 when there was no response. */
  readonly status: number
  /** How long the gateway asks to wait, in ms. */
  readonly retryAfterMs: number
  /** To look up in the gateway's log. */
  readonly requestId: string | undefined

  constructor(
    message: string,
    { code = 'CONNECTION_LOST', status = 0, retryAfterMs = 0, requestId, cause }: ErrorFields = {},
  ) {
    super(message, { cause })
    this.code = code
    this.status = status
    this.retryAfterMs = retryAfterMs
    this.requestId = requestId
  }

  /** Whether the same request may succeed later. */
  get isRetryable(): boolean {
    const { status } = this
    return status === 0 || status === 408 || status === 429 || status >= 500
  }
}

interface ErrorFields {
  readonly code?: string
  readonly status?: number
  readonly retryAfterMs?: number
  readonly requestId?: string | undefined
  readonly cause?: unknown
}
