import type { Key } from 'lmdb'
import type { Clock } from '../../async/clock.ts'
import { DEFAULT_TENANT } from '../../protocol/tenant.ts'
import type { ThreadPlace } from '../paging.ts'
import type { AllTurns } from './all-turns.ts'
import { EmbeddedThreads } from './embedded-threads.ts'
import type { Environment, Table } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import type { LoadedTurns } from './loaded-turns.ts'
import { TurnRecords } from './turn-records.ts'

interface Store {
  readonly env: Environment
  readonly commits: GroupCommit
  readonly turns: AllTurns
  readonly clock: Clock
  readonly retentionMs: number
}

/** So many threads are looked at in one step. */
const THREADS_PER_STEP = 100

const LISTED_AT_ONCE = 1000

/** Threads that still have turns are looked at in every pass: a pass starts this often in the retention. */
const PASSES_PER_RETENTION = 100

export function threadsOf(store: Omit<Store, 'turns'>, turns: LoadedTurns): EmbeddedThreads {
  const records = new TurnRecords(store, turns)
  return new EmbeddedThreads(turns.keys, store, (threadId) => records.hasAny(threadId))
}

interface IndexedThread extends ThreadPlace {
  readonly tenant: string
}

/** Removes the expired threads of all tenants, by the index of their last changes. */
export class ThreadSweep {
  readonly #store: Store
  readonly #onError: (error: unknown) => void
  /** Where the pass goes on; undefined between two passes. */
  #at: (string | number)[] | undefined
  #nextPassAt = 0

  constructor(store: Store, onError: (error: unknown) => void) {
    this.#store = store
    this.#onError = onError
  }

  /** Looks at some of the threads that may have expired; false when the pass is over. */
  async step(now: number): Promise<boolean> {
    const { retentionMs } = this.#store
    if (this.#at === undefined && now < this.#nextPassAt) return false
    const due = this.#next(now - retentionMs)
    const swept = await Promise.allSettled(due.map((place) => this.#sweep(place)))
    for (const each of swept) if (each.status === 'rejected') this.#onError(each.reason)
    if (this.#at !== undefined) return true
    this.#nextPassAt = now + retentionMs / PASSES_PER_RETENTION
    return false
  }

  async #sweep({ tenant, ...place }: IndexedThread): Promise<void> {
    await threadsOf(this.#store, this.#store.turns.of(tenant)).sweep(place)
  }

  /** The next threads that were not changed since a time; moves on to the next tenant where there are none. */
  #next(until: number): IndexedThread[] {
    const due: IndexedThread[] = []
    const range = { start: this.#at ?? [0], exclusiveStart: true, limit: THREADS_PER_STEP }
    let last: IndexedThread | undefined
    for (const key of this.#store.env.tables.recency.getKeys(range)) {
      last = parsePlace(key)
      if (last === undefined) continue
      if (last.updatedAt > until) {
        this.#at = last.tenant === DEFAULT_TENANT ? [''] : [last.tenant, Infinity]
        return due
      }
      due.push(last)
      this.#at = Array.isArray(key) ? (key as (string | number)[]) : undefined
    }
    if (last === undefined) this.#at = undefined
    return due
  }
}

/** The threads of all tenants, those changed last at the end of each tenant, without reading their records. */
export function* indexedThreads(recency: Table): Generator<IndexedThread> {
  let start: Key = [0]
  for (;;) {
    const keys: Key[] = [...recency.getKeys({ start, exclusiveStart: true, limit: LISTED_AT_ONCE })]
    for (const key of keys) {
      const place = parsePlace(key)
      if (place !== undefined) yield place
    }
    const last = keys.at(-1)
    if (last === undefined) return
    start = last
  }
}

function parsePlace(key: unknown): IndexedThread | undefined {
  if (!Array.isArray(key)) return undefined
  const [tenant, updatedAt, threadId] = key.length === 2 ? [DEFAULT_TENANT, ...key] : key
  return { tenant: String(tenant), updatedAt: Number(updatedAt), threadId: String(threadId) }
}
