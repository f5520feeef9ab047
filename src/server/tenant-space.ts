import type { Clock } from '../async/clock.ts'
import { logOf } from '../log/tenants.ts'
import type { TurnLog } from '../log/turn-log.ts'
import { ThreadQuota } from './limits/thread-quota.ts'
import { OneAtATime } from './one-at-a-time.ts'
import { NewTurns } from './streams/new-turns.ts'

/** What a request may reach: the part of the store that is its tenant's. */
export interface TenantSpace {
  readonly tenant: string
  readonly log: TurnLog
  /** To be told of every turn that is created here, and of every thread that is deleted. */
  readonly newTurns: NewTurns
  /** By thread: what is read of it, changed and written back must not be changed by somebody else meanwhile. */
  readonly changes: OneAtATime
  readonly threadQuota: ThreadQuota
}

/** The spaces of the tenants that were seen, each made once. */
export class TenantSpaces {
  readonly #log: TurnLog
  readonly #clock: Clock
  readonly #maxThreads: number
  readonly #spaces = new Map<string, TenantSpace>()

  constructor(log: TurnLog, clock: Clock, maxThreads = Infinity) {
    this.#log = log
    this.#clock = clock
    this.#maxThreads = maxThreads
  }

  of(tenant: string): TenantSpace {
    const known = this.#spaces.get(tenant)
    if (known !== undefined) return known
    const log = logOf(this.#log, tenant)
    const newTurns = new NewTurns(log, this.#clock)
    const threadQuota = new ThreadQuota(log, this.#maxThreads, this.#clock)
    const space = { tenant, log, newTurns, changes: new OneAtATime(), threadQuota }
    this.#spaces.set(tenant, space)
    return space
  }
}
