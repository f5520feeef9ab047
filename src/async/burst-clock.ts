import { type Clock, monotonicNow } from './clock.ts'

// Reading the clock costs 50 to 100 ns, as much as the rest of the work for a delta.
const BURST = 64

/**
 * A clock for very frequent reads. After 64 reads within one millisecond it returns the same time until the
 * current macrotask ends; no timer could run before that anyway. Occasional reads get the exact time.
 */
export class BurstClock {
  readonly #clock: Clock
  #time = 0
  #readings = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): number {
    return this.#readings === BURST ? this.#time : this.#read()
  }

  #read(): number {
    const time = monotonicNow(this.#clock)
    this.#readings = time === this.#time ? this.#readings + 1 : 0
    this.#time = time
    if (this.#readings === BURST) {
      setTimeout(() => {
        this.#readings = 0
      }, 0)
    }
    return time
  }
}
