import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'

/** `code` is any string: a producer may use its own codes beside those of the error table. */
export class ResponseStreamError extends TurnstreamError {
  override readonly name = 'ResponseStreamError'
  // The base class narrows to our codes, and a subclass cannot widen them.
  override readonly code: ErrorCode

  constructor(message: string, code: string = 'STREAM_ERROR', cause?: unknown) {
    super('STREAM_ERROR', message, cause === undefined ? undefined : { cause })
    this.code = code as ErrorCode
    this.message = message
  }
}
