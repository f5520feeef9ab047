/** Time as a parameter: everything that waits takes one of these, so that tests own the time. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs `task` once after `ms`; the returned function cancels it. */
  after(ms: number, task: () => void): () => void
}

// `setTimeout` takes a 32-bit signed number and turns anything larger into 1 ms.
const MAX_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, task) {
    const timer = setTimeout(task, Math.min(ms, MAX_TIMER_MS))
    return () => clearTimeout(timer)
  },
}

export function sleep(ms: number, clock: Clock = systemClock): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve)
  })
}
