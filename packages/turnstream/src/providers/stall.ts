import type { Clock } from '@turnstream/core/internal/async/clock'
import { IdleTimer } from '@turnstream/core/internal/async/idle-timer'

/** The vendor sent nothing useful for too long. The call may be billed. */
export class TimeoutError extends Error {}

export function timeoutError(what: string, ms: number): TimeoutError {
  return new TimeoutError(`The provider did not send ${what} within ${ms} ms`)
}

/** Limits how long bytes may arrive without an event: keep-alives while a model thinks, unknown or empty events. */
export class Stall {
  readonly #timer: IdleTimer
  #isWatched = false
  #error: TimeoutError | undefined
  bytes = 0

  constructor(stallMs: number, clock: Clock, onTimeout: (error: TimeoutError) => void) {
    this.#timer = new IdleTimer(stallMs, clock, () => {
      const message = `The provider sent no event within ${stallMs} ms, only keep-alives`
      this.#error = new TimeoutError(message)
      onTimeout(this.#error)
    })
  }

  watch(): void {
    if (this.#isWatched) return
    this.#isWatched = true
    this.#timer.startWait()
  }

  add(bytes: number): void {
    this.bytes += bytes
    if (this.#error !== undefined) throw this.#error
  }

  end(): void {
    this.#timer.endWait()
    this.#isWatched = false
    this.#error = undefined
    this.bytes = 0
  }

  stop(): void {
    this.#timer.stop()
  }
}
