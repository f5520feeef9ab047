import { type Clock, monotonicNow } from '../async/clock.ts'

/** A step of the time of day beyond this is not drift. */
const STEP_MS = 1000

/**
 * Measures elapsed time including that in which the machine slept, which monotonic clocks of browsers leave out. A time of
 * day that is set back does not matter; one that is set forward counts as sleep, which costs one reconnect.
 */
export function elapsedTime(clock: Clock): () => number {
  let wall = clock.now()
  let steady = monotonicNow(clock)
  let elapsed = 0
  return () => {
    const passed = Math.max(0, monotonicNow(clock) - steady)
    const shown = clock.now() - wall
    elapsed += shown > passed + STEP_MS ? shown : passed
    steady = monotonicNow(clock)
    wall = clock.now()
    return elapsed
  }
}
