/** Admits `limit` in any span of `spanMs`. Stores the time of each that still counts: never more than `limit`. */
export class SlidingWindow {
  readonly #limit: number
  readonly #spanMs: number
  /** When each was admitted, oldest first. Those before `#first` no longer count. */
  #times: number[] = []
  #first = 0

  constructor(limit: number, spanMs: number) {
    this.#limit = limit
    this.#spanMs = spanMs
  }

  /** In how many ms one more is admitted; 0 for now. */
  waitAt(now: number): number {
    this.#forget(now)
    const oldest = this.#times[this.#first]
    if (oldest === undefined || this.#count < this.#limit) return 0
    return oldest + this.#spanMs - now
  }

  /** To be called only when `waitAt` is 0. */
  add(now: number): void {
    if (this.#limit !== Infinity) this.#times.push(now)
  }

  isEmptyAt(now: number): boolean {
    this.#forget(now)
    return this.#count === 0
  }

  get #count(): number {
    return this.#times.length - this.#first
  }

  #forget(now: number): void {
    const newest = this.#times.at(-1) ?? now
    // If the clock was set back, earlier admissions count from now, and no longer than the span.
    if (newest > now) this.#times = this.#times.map((time) => Math.min(time, now))
    while ((this.#times[this.#first] ?? Infinity) <= now - this.#spanMs) this.#first += 1
    if (this.#first * 2 < this.#times.length) return
    this.#times.splice(0, this.#first)
    this.#first = 0
  }
}
