/** Time as a parameter: everything that waits takes one of these, so that tests own the time. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /**
   * Milliseconds since some fixed moment, for durations: never steps when the time of day is set. A clock
   * without it is taken not to step.
   */
  monotonic?(): number
  /** Runs `task` once after `ms`; the returned function cancels it. */
  after(ms: number, task: () => void): () => void
}

// `setTimeout` takes a 32-bit signed number and turns anything larger into 1 ms.
const MAX_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => Math.trunc(performance.now()),
  after(ms, task) {
    const timer = setTimeout(task, Math.min(ms, MAX_TIMER_MS))
    return () => clearTimeout(timer)
  },
}

/** The time to measure durations by. */
export function monotonicNow(clock: Clock): number {
  return clock.monotonic === undefined ? clock.now() : clock.monotonic()
}

/** The time of day as it was now, moved on by the monotonic clock: later steps do not change it. */
export function steadyTime(clock: Clock): () => number {
  const offset = clock.now() - monotonicNow(clock)
  return () => offset + monotonicNow(clock)
}

export function sleep(ms: number, clock: Clock = systemClock): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve)
  })
}
