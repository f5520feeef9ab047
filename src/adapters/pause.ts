import type { Clock } from '../async/clock.ts'

/** Sleeps, unless it is woken by an abort. */
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

/** Sleeps again and again with one listener for all: with one each, a sleep costs five times as much. */
export class Pauses {
  readonly #clock: Clock
  readonly #signal: AbortSignal
  #cancel: () => void = () => {}
  #resolve: () => void = () => {}

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock
    this.#signal = signal
    signal.addEventListener('abort', this.#interrupt, { once: true })
  }

  /** Sleeps, unless it is woken by an abort, as every one is that follows it. One at a time. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      if (this.#signal.aborted) resolve()
      else this.#cancel = this.#clock.after(ms, resolve)
    })
  }

  /** There will be no more pauses. */
  release(): void {
    this.#signal.removeEventListener('abort', this.#interrupt)
  }

  readonly #interrupt = (): void => {
    this.#cancel()
    this.#resolve()
  }
}
