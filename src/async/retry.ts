import { TurnstreamError } from '../protocol/errors.ts'

/** Thrown when a call was given up; `cause` is what the last attempt failed with. */
export class RetryExhaustedError extends TurnstreamError {
  override readonly name = 'RetryExhaustedError'
  readonly attempts: number

  constructor(attempts: number, cause?: unknown) {
    super(
      'RETRY_EXHAUSTED',
      `gave up after ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`,
      {
        cause,
      },
    )
    this.attempts = attempts
  }
}

/** Exponential backoff without jitter: the delay after the attempt numbered from 0. */
export function calculateRetryDelay(attempt: number, baseMs: number, maxMs: number): number {
  // 2 ** 1024 is Infinity, and nothing times Infinity is not a number.
  return baseMs === 0 ? 0 : Math.min(maxMs, baseMs * 2 ** attempt)
}
