import { type Clock, monotonicNow } from './clock.ts'

// A timer keeps a process alive. One that nobody waits for any more must not do so for minutes.
const MAX_PERIOD_MS = 1000

/**
 * Calls `onIdle` when a wait lasts `ms`. Setting a timer costs more than moving an event through
 * a stream, so a wait only notes its deadline: the one timer, set by an earlier wait, looks at the
 * deadline once a second, and is not set again when nobody waits.
 */
export class IdleTimer {
  readonly #ms: number
  readonly #clock: Clock
  readonly #onIdle: () => void
  /** Looked at when the timer fires: `Infinity` then says that nobody waits. */
  #deadline = Infinity
  #cancel: (() => void) | undefined

  /** With `Infinity` for `ms` it never fires. */
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

  /** The wait is over, the next one may come soon: the timer is left alone. */
  endWait(): void {
    this.#deadline = Infinity
  }

  /** No wait follows soon: gives the timer back. */
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
