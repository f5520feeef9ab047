import { describe, expect, test } from 'vitest'
import {
  calculateRetryDelay,
  RetryExhaustedError,
  TurnstreamError,
} from '../../../turnstream/src/index.ts'

describe('calculateRetryDelay', () => {
  test.each([
    { attempt: 0, baseMs: 100, maxMs: 5000, delay: 100 },
    { attempt: 1, baseMs: 100, maxMs: 5000, delay: 200 },
    { attempt: 2, baseMs: 100, maxMs: 5000, delay: 400 },
    { attempt: 5, baseMs: 100, maxMs: 5000, delay: 3200 },
    { attempt: 6, baseMs: 100, maxMs: 5000, delay: 5000 },
    { attempt: 5000, baseMs: 100, maxMs: 5000, delay: 5000 },
    { attempt: 3, baseMs: 0, maxMs: 5000, delay: 0 },
    { attempt: 5000, baseMs: 0, maxMs: 5000, delay: 0 },
    { attempt: 0, baseMs: 9000, maxMs: 5000, delay: 5000 },
    { attempt: 3, baseMs: 10, maxMs: Infinity, delay: 80 },
  ])('attempt $attempt of base $baseMs waits $delay', ({ attempt, baseMs, maxMs, delay }) => {
    expect(calculateRetryDelay(attempt, baseMs, maxMs)).toBe(delay)
  })

  test('has no jitter', () => {
    const delays = Array.from({ length: 100 }, () => calculateRetryDelay(3, 100, 5000))
    expect(new Set(delays).size).toBe(1)
  })
})

describe('RetryExhaustedError', () => {
  test('reports the number of attempts and the last failure', () => {
    const cause = new Error('connection refused')
    const error = new RetryExhaustedError(4, cause)
    expect(error).toBeInstanceOf(TurnstreamError)
    expect(error).toMatchObject({
      name: 'RetryExhaustedError',
      code: 'RETRY_EXHAUSTED',
      attempts: 4,
      cause,
      message: 'Every attempt failed: gave up after 4 attempts',
    })
  })

  test('uses the singular for one attempt', () => {
    expect(new RetryExhaustedError(1).message).toMatch(/gave up after 1 attempt$/)
  })
})
