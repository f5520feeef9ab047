import { TurnstreamError } from '../protocol/errors.ts'

/** Thrown after the last attempt failed. `cause` is the last failure. */
export class RetryExhaustedError extends TurnstreamError {
  override readonly name = 'RetryExhaustedError'
  readonly attempts: number

  constructor(attempts: number, cause?: unknown) {
    const times = attempts === 1 ? 'attempt' : 'attempts'
    super('RETRY_EXHAUSTED', `gave up after ${attempts} ${times}`, { cause })
    this.attempts = attempts
  }
}

/** Returns the delay after an attempt, counted from 0: exponential backoff without jitter. */
export function calculateRetryDelay(attempt: number, baseMs: number, maxMs: number): number {
  // 2 ** 1024 is Infinity, and 0 * Infinity is NaN.
  return baseMs === 0 ? 0 : Math.min(maxMs, baseMs * 2 ** attempt)
}
