import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'

/** An error of a ResponseStream. `code` may be any string, so producers can use their own codes. */
export class ResponseStreamError extends TurnstreamError {
  override readonly name = 'ResponseStreamError'
  // The base class restricts `code` to our codes, and a subclass cannot widen the type.
  override readonly code: ErrorCode

  constructor(message: string, code: string = 'STREAM_ERROR', cause?: unknown) {
    super('STREAM_ERROR', message, cause === undefined ? undefined : { cause })
    this.code = code as ErrorCode
    this.message = message
  }
}
