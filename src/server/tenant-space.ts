import type { Clock } from '../async/clock.ts'
import { logOf } from '../log/tenants.ts'
import type { TurnLog } from '../log/turn-log.ts'
import { NewTurns } from './streams/new-turns.ts'

/** What a request may reach: the part of the store that is its tenant's. */
export interface TenantSpace {
  readonly tenant: string
  readonly log: TurnLog
  /** To be told of every turn that is made here. */
  readonly newTurns: NewTurns
}

/** The spaces of the tenants that were seen, each made once. */
export class TenantSpaces {
  readonly #log: TurnLog
  readonly #clock: Clock
  readonly #spaces = new Map<string, TenantSpace>()

  constructor(log: TurnLog, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  of(tenant: string): TenantSpace {
    const known = this.#spaces.get(tenant)
    if (known !== undefined) return known
    const log = logOf(this.#log, tenant)
    const space = { tenant, log, newTurns: new NewTurns(log, this.#clock) }
    this.#spaces.set(tenant, space)
    return space
  }
}
