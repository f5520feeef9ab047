import type { Approval } from '@turnstream/core/internal/protocol/stream-output'

/**
 * A request that failed. `code` is stable: docs/errors.md explains those of the gateway.
 *
 * @example
 * await client.turn(turnId).done().catch((error) => {
 *   if (error instanceof ClientError && error.status === 404) showNotFound()
 *   else throw error
 * })
 */
export class ClientError extends Error {
  override readonly name = 'ClientError'
  /** The gateway's code, `HTTP_<status>`, or `CONNECTION_LOST` when there was no response. */
  readonly code: string = 'CONNECTION_LOST'
  /** HTTP status, 0 when there was no response, or the nearest one when the client itself refuses. */
  readonly status: number = 0
  /** How long the gateway asks to wait, in ms. */
  readonly retryAfterMs: number = 0
  /** To look up in the gateway's log. */
  declare readonly requestId?: string
  /** What is wrong with the request, with `REQUEST_INVALID`. */
  declare readonly details?: unknown
  /** The answer that counts, with `APPROVAL_ANSWERED`. */
  declare readonly approval?: Approval

  constructor(message?: string, fields?: Partial<Omit<ClientError, 'name' | 'message'>>) {
    super(message)
    Object.assign(this, fields)
  }
}

/** Browsers name the loss of a connection in many ways: whatever we did not cause is one. */
export const toClientError = (error: unknown): ClientError =>
  error instanceof ClientError
    ? error
    : new ClientError((error as Error | undefined)?.message, { cause: error })
