import { type Clock, monotonicNow } from './clock.ts'

// A pending timer keeps the process alive. One that nothing waits for must not do so for minutes.
const MAX_PERIOD_MS = 1000

/**
 * Calls `onIdle` when a wait lasts `ms`. Setting a timer costs more than moving an event through a stream, so a wait
 * only records its deadline. A single timer checks the deadline at least once a second and stops when nothing waits.
 */
export class IdleTimer {
  readonly #ms: number
  readonly #clock: Clock
  readonly #onIdle: () => void
  /** `Infinity` when nothing waits. */
  #deadline = Infinity
  #cancel: (() => void) | undefined

  /** Pass `Infinity` for `ms` to disable the timer. */
  constructor(ms: number, clock: Clock, onIdle: () => void) {
    this.#ms = ms
    this.#clock = clock
    this.#onIdle = onIdle
  }

  startWait(): void {
    if (this.#ms === Infinity) return
    this.#deadline = monotonicNow(this.#clock) + this.#ms
    if (!this.#cancel) this.#arm(this.#ms)
  }

  /** Ends the wait but keeps the timer, because another wait may follow soon. */
  endWait(): void {
    this.#deadline = Infinity
  }

  /** Cancels the timer when no further wait is expected. */
  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #arm(ms: number): void {
    this.#cancel = this.#clock.after(Math.min(ms, MAX_PERIOD_MS), () => this.#check())
  }

  #check(): void {
    this.#cancel = undefined
    if (this.#deadline === Infinity) return
    const rest = this.#deadline - monotonicNow(this.#clock)
    if (rest > 0) this.#arm(rest)
    else this.#onIdle()
  }
}
