/**
 * Admits so many in any span of time of this length, wherever it begins. Knows no time but what it is told,
 * and keeps the time of each that was admitted for as long as it counts: never more than `limit` of them.
 */
export class SlidingWindow {
  readonly #limit: number
  readonly #spanMs: number
  /** When each was admitted, the oldest first; those before `#first` count no more. */
  #times: number[] = []
  #first = 0

  constructor(limit: number, spanMs: number) {
    this.#limit = limit
    this.#spanMs = spanMs
  }

  /** In how many ms one more is admitted; 0 when it is now. */
  waitAt(now: number): number {
    this.#forget(now)
    const oldest = this.#times[this.#first]
    if (oldest === undefined || this.#count < this.#limit) return 0
    return oldest + this.#spanMs - now
  }

  /** To be called only when there is nothing to wait for. */
  add(now: number): void {
    if (this.#limit !== Infinity) this.#times.push(now)
  }

  /** Nothing that was admitted counts any more. */
  isEmptyAt(now: number): boolean {
    this.#forget(now)
    return this.#count === 0
  }

  get #count(): number {
    return this.#times.length - this.#first
  }

  #forget(now: number): void {
    const newest = this.#times.at(-1) ?? now
    // A clock may be set back: what was admitted then counts from now on, and for no longer than the span.
    if (newest > now) this.#times = this.#times.map((time) => Math.min(time, now))
    while ((this.#times[this.#first] ?? Infinity) <= now - this.#spanMs) this.#first += 1
    if (this.#first * 2 < this.#times.length) return
    this.#times.splice(0, this.#first)
    this.#first = 0
  }
}
