import { type Clock, monotonicNow, shared } from '../../async/clock.ts'
import type { TurnLog } from '../../log/turn-log.ts'
import { LimitedError } from '../errors.ts'

/** How long a count is cached. Changes by other instances are seen after this. */
const FRESH_MS = 60_000

/** Cache time while the quota is used up. */
const FRESH_WHEN_FULL_MS = 5000

/** Limits the stored threads of a tenant. Counts in the store periodically, and locally in between. */
export class ThreadQuota {
  readonly #log: TurnLog
  readonly #max: number
  readonly #clock: Clock
  #count = 0
  #countedAt: number | undefined

  constructor(log: TurnLog, max: number, clock: Clock) {
    this.#log = log
    this.#max = max
    this.#clock = clock
  }

  /** Reserves room for a thread that may be new. Returns a function that releases it. THREADS_LIMITED. */
  async reserve(threadId?: string): Promise<() => void> {
    if (this.#max === Infinity) return () => {}
    if (threadId !== undefined && (await this.#log.getThread(threadId)) !== undefined) {
      return () => {}
    }
    if (!this.#isFresh()) await this.#recount()
    if (this.#count >= this.#max) {
      throw new LimitedError('THREADS_LIMITED', `the limit is ${this.#max}`, FRESH_MS)
    }
    this.#count += 1
    return () => this.release()
  }

  /** Releases the room of a deleted thread. */
  release(): void {
    this.#count = Math.max(0, this.#count - 1)
  }

  #isFresh(): boolean {
    if (this.#countedAt === undefined) return false
    const age = monotonicNow(this.#clock) - this.#countedAt
    return age < (this.#count < this.#max ? FRESH_MS : FRESH_WHEN_FULL_MS)
  }

  readonly #recount = shared(async () => {
    this.#count = await this.#log.countThreads()
    this.#countedAt = monotonicNow(this.#clock)
  })
}
