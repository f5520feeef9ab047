import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'

/** What a ResponseStream throws; the message stands alone, without the summary of its code. */
export class ResponseStreamError extends TurnstreamError {
  override readonly name = 'ResponseStreamError'

  constructor(message: string, code: ErrorCode = 'STREAM_ERROR', cause?: unknown) {
    super(code, message, cause === undefined ? undefined : { cause })
    this.message = message
  }
}
