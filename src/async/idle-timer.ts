import type { Clock } from './clock.ts'

/**
 * Calls `onIdle` when a wait lasts `ms`. Setting a timer costs more than moving an event through
 * a stream, so a wait only notes its deadline: the one timer, set by an earlier wait, looks at the
 * deadline when it fires and goes on for the rest.
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
    this.#deadline = this.#clock.now() + this.#ms
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
    this.#cancel = this.#clock.after(ms, () => this.#check())
  }

  #check(): void {
    this.#cancel = undefined
    if (this.#deadline === Infinity) return
    const rest = this.#deadline - this.#clock.now()
    if (rest > 0) this.#arm(rest)
    else this.#onIdle()
  }
}
