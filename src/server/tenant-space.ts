import type { Clock } from '../async/clock.ts'
import { logOf } from '../log/tenants.ts'
import type { TurnLog } from '../log/turn-log.ts'
import { ThreadQuota } from './limits/thread-quota.ts'
import { NewTurns } from './streams/new-turns.ts'

/** The tenant's part of the store. */
export interface TenantSpace {
  readonly tenant: string
  readonly log: TurnLog
  /** Notify it of every turn created and every thread deleted in this process. */
  readonly newTurns: NewTurns
  readonly threadQuota: ThreadQuota
}

/** Tenant spaces, created on first use. */
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
    const space = { tenant, log, newTurns, threadQuota }
    this.#spaces.set(tenant, space)
    return space
  }
}
