import type { Clock } from '../async/clock.ts'
import { logOf } from '../log/tenants.ts'
import type { TurnLog } from '../log/turn-log.ts'
import { ThreadQuota } from './limits/thread-quota.ts'
import { NewTurns } from './streams/new-turns.ts'

/** What a request can reach: the tenant's part of the store. */
export interface TenantSpace {
  readonly tenant: string
  readonly log: TurnLog
  /** To be notified of every turn that is created here, and of every thread that is deleted. */
  readonly newTurns: NewTurns
  /** Serialises changes of a thread, which are read, changed and written back. */
  readonly changes: KeyedMutex
  readonly threadQuota: ThreadQuota
}

/** The space of each tenant, created on first use. */
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
    const space = { tenant, log, newTurns, changes: new KeyedMutex(), threadQuota }
    this.#spaces.set(tenant, space)
    return space
  }
}

/** Runs tasks with the same key one after the other, in order. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>()

  /** How many keys have a task that runs or waits. */
  get size(): number {
    return this.#last.size
  }

  async run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key)
    // The failure of an earlier task is its caller's.
    const done = before === undefined ? task() : before.then(task, task)
    this.#last.set(key, done)
    try {
      return await done
    } finally {
      if (this.#last.get(key) === done) this.#last.delete(key)
    }
  }
}
