import { type Clock, monotonicNow, shared } from '../../async/clock.ts'
import type { TurnLog } from '../../log/turn-log.ts'
import { LimitedError } from '../errors.ts'

/** How long a count is used. Changes by other instances are noticed after this. */
const FRESH_MS = 60_000

/** The same while there is no room. */
const FRESH_WHEN_FULL_MS = 5000

/** Bounds the stored threads of a tenant. Counts in the store now and then, and here in between. */
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

  /** Reserves room for a thread that may be new. Returns a function that gives it back. THREADS_LIMITED. */
  async reserve(threadId?: string): Promise<() => void> {
    if (this.#max === Infinity) return () => {}
    if (threadId !== undefined && (await this.#log.getThread(threadId)) !== undefined) {
      return () => {}
    }
    if (!this.#isFresh()) await this.#recount()
    if (this.#count >= this.#max) {
      throw new LimitedError('THREADS_LIMITED', `${this.#max} are allowed`, FRESH_MS)
    }
    this.#count += 1
    return () => this.release()
  }

  /** Gives back the room of a thread that was deleted. */
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
