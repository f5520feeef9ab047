import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { SlidingWindow } from '../../../src/server/limits/key-limits.ts'

const SPAN = 60_000

/** How much later each asks than the one before: often at once, often near the edges of the window. */
const pauses = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.integer({ min: 0, max: 50 }) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 2 * SPAN }) },
    { weight: 1, arbitrary: fc.integer({ min: SPAN - 2, max: SPAN + 2 }) },
  ),
  { maxLength: 200 },
)

const limits = fc.integer({ min: 1, max: 20 })

function timesOf(steps: readonly number[]): number[] {
  let now = 1_000_000
  return steps.map((step) => {
    now += step
    return now
  })
}

/** The most that lie in one span; a span that holds the most begins with one of them. */
function mostInOneSpan(times: readonly number[]): number {
  const counts = times.map((from) => times.filter((at) => at >= from && at < from + SPAN).length)
  return Math.max(0, ...counts)
}

function run(limit: number, times: readonly number[]) {
  const window = new SlidingWindow(limit, SPAN)
  const admitted: number[] = []
  const refused: { at: number; waitMs: number }[] = []
  for (const now of times) {
    const waitMs = window.waitAt(now)
    if (waitMs > 0) refused.push({ at: now, waitMs })
    else {
      window.add(now)
      admitted.push(now)
    }
  }
  return { admitted, refused }
}

describe('a window', () => {
  test('never admits more than its limit in any 60 s', () => {
    fc.assert(
      fc.property(limits, pauses, (limit, steps) => {
        expect(mostInOneSpan(run(limit, timesOf(steps)).admitted)).toBeLessThanOrEqual(limit)
      }),
    )
  })

  test('refuses only what would exceed the limit', () => {
    fc.assert(
      fc.property(limits, pauses, (limit, steps) => {
        const { admitted, refused } = run(limit, timesOf(steps))
        for (const { at } of refused) {
          const before = admitted.filter((each) => each <= at && each > at - SPAN)
          expect(before).toHaveLength(limit)
        }
      }),
    )
  })

  test('returns the exact time to wait', () => {
    fc.assert(
      fc.property(limits, pauses, (limit, steps) => {
        const window = new SlidingWindow(limit, SPAN)
        for (const now of timesOf(steps)) {
          if (window.waitAt(now) === 0) window.add(now)
        }
        const now = timesOf(steps).at(-1) ?? 0
        const waitMs = window.waitAt(now)
        expect(waitMs).toBeGreaterThanOrEqual(0)
        expect(waitMs).toBeLessThanOrEqual(SPAN)
        if (waitMs > 0) expect(window.waitAt(now + waitMs - 1)).toBe(1)
        expect(window.waitAt(now + waitMs)).toBe(0)
      }),
    )
  })

  test('never returns more than 60 s, even when the clock jumps', () => {
    const jumps = fc.array(fc.integer({ min: -3 * SPAN, max: SPAN }), { maxLength: 100 })
    fc.assert(
      fc.property(limits, jumps, (limit, steps) => {
        const { refused } = run(limit, timesOf(steps))
        for (const { waitMs } of refused) expect(waitMs).toBeLessThanOrEqual(SPAN)
      }),
    )
  })
})
