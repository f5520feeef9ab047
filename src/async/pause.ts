import type { Clock } from './clock.ts'

/** Sleeps until the time is over or the signal aborts. Never rejects. */
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

/** Repeated sleeps with one abort listener for all: with one each, a sleep costs five times as much. */
export class Pauses {
  readonly #clock: Clock
  readonly #signal: AbortSignal
  #isAborted: boolean
  #cancel: () => void = () => {}
  #resolve: () => void = () => {}

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock
    this.#signal = signal
    this.#isAborted = signal.aborted
    signal.addEventListener('abort', this.#interrupt, { once: true })
  }

  /** Sleeps until the time is over or the signal aborts; after an abort, not at all. One at a time. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      if (this.#isAborted) resolve()
      else this.#cancel = this.#clock.after(ms, resolve)
    })
  }

  /** Removes the listener; no pause follows. */
  release(): void {
    this.#signal.removeEventListener('abort', this.#interrupt)
  }

  readonly #interrupt = (): void => {
    this.#isAborted = true
    this.#cancel()
    this.#resolve()
  }
}
