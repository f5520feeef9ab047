/** Injected time. Everything that waits takes a clock, so tests control time. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Milliseconds for measuring durations, unaffected by changes of the system time. Defaults to `now()`. */
  monotonic?(): number
  /** Runs `task` once after `ms`; the returned function cancels it. */
  after(ms: number, task: () => void): () => void
}

// `setTimeout` takes a signed 32-bit integer and treats anything larger as 1 ms.
const MAX_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => Math.trunc(performance.now()),
  after(ms, task) {
    const timer = setTimeout(task, Math.min(ms, MAX_TIMER_MS))
    return () => clearTimeout(timer)
  },
}

/** Returns the time to measure durations with. */
export function monotonicNow(clock: Clock): number {
  return clock.monotonic?.() ?? clock.now()
}

/** Returns a time of day that starts at `now()` and then follows the monotonic clock, so it never jumps. */
export function steadyTime(clock: Clock): () => number {
  const offset = clock.now() - monotonicNow(clock)
  return () => offset + monotonicNow(clock)
}

export function sleep(ms: number, clock: Clock = systemClock): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve)
  })
}

/** Settles as `promise` does, or rejects after `ms`. */
export function within<T>(
  promise: Promise<T>,
  ms: number,
  clock: Clock,
  toError: () => Error,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => reject(toError()))
    promise.then(resolve, reject).finally(cancel)
  })
}

/** Runs a task that all who call while it runs share. */
export function shared<T>(task: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () => {
    running ??= task().finally(() => {
      running = undefined
    })
    return running
  }
}

/** Sleeps for `ms` or until the signal aborts. Never rejects. */
export function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      cancel()
      signal.removeEventListener('abort', wake)
      resolve()
    }
    const cancel = clock.after(ms, wake)
    if (signal.aborted) wake()
    else signal.addEventListener('abort', wake, { once: true })
  })
}
