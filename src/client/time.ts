import type { Clock } from '../async/clock.ts'

/**
 * Measures elapsed time by the time of day: monotonic clocks of browsers leave out the time in which the machine slept. A
 * time of day that is set back does not matter; one that is set forward counts as sleep, which costs one reconnect.
 */
export const elapsedTime = (clock: Clock): (() => number) => {
  let last = 0
  let elapsed = 0
  return () => {
    const now = clock.now()
    elapsed += Math.max(0, now - last)
    last = now
    return elapsed
  }
}
