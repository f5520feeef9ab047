import { type Clock, monotonicNow } from '../../async/clock.ts'
import type { TurnLog } from '../../log/turn-log.ts'

/** A store may have to look at all it has. */
const ASK_EVERY_MS = 10_000
/** Whoever scrapes gives up after some ten seconds. */
const LIMIT_MS = 1000

/** How much room the store takes, as far as it can be known without keeping anybody waiting. */
export class KeptBytes {
  readonly #log: Pick<TurnLog, 'bytesKept'>
  readonly #clock: Clock
  #askedAt = -Infinity
  #known: number | undefined
  #asking: Promise<void> | undefined

  constructor(log: Pick<TurnLog, 'bytesKept'>, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** What the store last said; undefined if it never did. */
  async read(): Promise<number | undefined> {
    const now = monotonicNow(this.#clock)
    if (this.#asking === undefined && Math.abs(now - this.#askedAt) >= ASK_EVERY_MS) {
      this.#askedAt = now
      this.#asking = this.#ask().finally(() => {
        this.#asking = undefined
      })
    }
    if (this.#asking !== undefined) await this.#within(this.#asking)
    return this.#known
  }

  async #ask(): Promise<void> {
    try {
      this.#known = await this.#log.bytesKept()
    } catch {
      // That the store is away is told by what needs it.
    }
  }

  #within(asking: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const stopWaiting = this.#clock.after(LIMIT_MS, resolve)
      void asking.then(resolve).finally(stopWaiting)
    })
  }
}
