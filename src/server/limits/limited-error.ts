import { type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'

/** A refusal that will not last. */
export class LimitedError extends TurnstreamError {
  override readonly name = 'LimitedError'
  /** For `retry-after`: whole seconds, at least one, and never less than there is to wait. */
  readonly retryAfterS: number

  constructor(code: ErrorCode, detail: string, waitMs: number) {
    super(code, detail)
    this.retryAfterS = Math.max(1, Math.ceil(waitMs / 1000))
  }
}
