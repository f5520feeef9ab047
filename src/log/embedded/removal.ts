import type { Key } from 'lmdb'
import type { Clock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { DEFAULT_TENANT } from '../../protocol/tenant.ts'
import type { ThreadPlace } from '../paging.ts'
import { CHUNK_RECORDS } from '../records.ts'
import { RECORDS_OUTLIVE_LOGS } from '../rules.ts'
import { EmbeddedThreads } from './embedded-threads.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment, Table, Write } from './environment.ts'
import type { GroupCommit, Journal } from './group-commit.ts'
import { type AllTurns, type LoadedTurns, TurnRecords } from './loaded-turns.ts'
import { formatTurn, type StoredTurn, type TenantKeys } from './stored-turn.ts'

interface Store {
  readonly env: Environment
  readonly commits: GroupCommit
  readonly journal: Journal
  readonly turns: AllTurns
  readonly clock: Clock
  readonly retentionMs: number
}

/** So many turns, and about so many keys of their logs, are swept in one commit: then others have their turn. */
const TURNS_PER_STEP = 16
const KEYS_PER_STEP = 1000

/** A turn of which something is over, as the index has it. */
interface Due {
  readonly kind: 'logs' | 'record'
  readonly endedAt: number
  readonly key: string
  /** Undefined when it is not there or cannot be read. */
  readonly turn: EmbeddedTurn | undefined
}

/** About how many keys the logs of a turn have. */
function logKeysOf({ state }: EmbeddedTurn): number {
  return Math.ceil(state.logs.events.head / CHUNK_RECORDS) + state.logs.processed.head
}

/** Takes turns of any tenant out of the store, on request and when their time is over. */
export class Removal {
  readonly #store: Store
  readonly #onError: (error: unknown) => void

  constructor(store: Store, onError: (error: unknown) => void) {
    this.#store = store
    this.#onError = onError
  }

  /** Removes everything of a turn and ends its readers. */
  async remove(turn: EmbeddedTurn, reason: TurnstreamError): Promise<void> {
    const { commits, env, journal } = this.#store
    const { keys } = turn
    const turns = this.#store.turns.of(keys.tenant)
    const stored = turn.decided
    const { turnId, runId } = stored
    turn.isDiscarded = true
    turn.removal = reason
    turns.remove(turn)
    commits.stage(env.tables.turns, keys.of(turnId), undefined)
    if (runId !== turnId) commits.stage(env.tables.runs, keys.of(runId), undefined)
    await commits.store(undefined, {
      write: (writes) => {
        this.#removeLogs(writes, stored)
        this.#removeIndex(writes, stored, keys)
      },
      committed: () => {
        journal.release(turn.events)
        turn.end(reason)
      },
      undo: () => {
        turn.isDiscarded = false
        turn.removal = undefined
        if (turn.committed !== undefined) turns.restore(turn)
      },
    })
  }

  #removeLogs(writes: Write[], { number }: StoredTurn): void {
    const { chunks, processed, responses } = this.#store.env.tables
    writes.push({ table: responses, key: number })
    const range = { start: [number], end: [number + 1] }
    for (const table of [chunks, processed]) {
      for (const key of table.getKeys(range)) writes.push({ table, key })
    }
  }

  #removeIndex(writes: Write[], turn: StoredTurn, keys: TenantKeys): void {
    const { open, ended, threadTurns } = this.#store.env.tables
    const { endedAt } = turn
    writes.push({ table: open, key: turn.number })
    writes.push({ table: threadTurns, key: [keys.of(turn.threadId), turn.ordinal] })
    if (endedAt === undefined) return
    writes.push({ table: ended, key: ['logs', endedAt, keys.of(turn.turnId)] })
    writes.push({ table: ended, key: ['record', endedAt, keys.of(turn.turnId)] })
  }

  /** Clears away some of what is due; false when nothing is left. */
  async sweep(now: number, retentionMs: number): Promise<boolean> {
    const work = [
      ...this.#due('logs', now - retentionMs),
      ...this.#due('record', now - retentionMs * RECORDS_OUTLIVE_LOGS),
    ].map((due) => this.#clear(due))
    await Promise.all(work)
    return work.length > 0
  }

  #due(kind: Due['kind'], until: number): Due[] {
    const range = { start: [kind], end: [kind, until, '\uffff'], limit: TURNS_PER_STEP }
    const all: Due[] = []
    let keys = 0
    for (const key of this.#store.env.tables.ended.getKeys(range)) {
      if (!Array.isArray(key)) continue
      const due = this.#find(kind, Number(key[1]), String(key[2]))
      keys += due.turn === undefined ? 0 : logKeysOf(due.turn)
      if (all.length > 0 && keys > KEYS_PER_STEP) break
      all.push(due)
    }
    return all
  }

  #find(kind: Due['kind'], endedAt: number, key: string): Due {
    try {
      return { kind, endedAt, key, turn: this.#store.turns.find(key) }
    } catch (error) {
      // One turn that cannot be read must not stop the sweep of all that follow it.
      this.#onError(error)
      return { kind, endedAt, key, turn: undefined }
    }
  }

  #clear(due: Due): Promise<void> {
    const { kind, turn } = due
    if (turn === undefined) return this.#clearUnreadable(due)
    if (kind === 'logs') return this.#expire(turn)
    return this.remove(turn, new TurnstreamError('TURN_EXPIRED', turn.facts.turnId))
  }

  /** A record that cannot be read goes when it would have gone. Which logs are its own nobody knows. */
  async #clearUnreadable({ kind, endedAt, key }: Due): Promise<void> {
    const { commits, env } = this.#store
    if (kind === 'record') commits.stage(env.tables.turns, key, undefined)
    await commits.store(undefined, {
      write: (writes) => {
        writes.push({ table: env.tables.ended, key: [kind, endedAt, key] })
        if (kind === 'logs')
          writes.push({ table: env.tables.ended, key: ['record', endedAt, key], value: '' })
      },
    })
  }

  /** Removes the logs; the record stays. */
  async #expire(turn: EmbeddedTurn): Promise<void> {
    const { commits, env } = this.#store
    const { turnId, endedAt = 0 } = turn.decided
    const key = turn.keys.of(turnId)
    const expired = { ...turn.decided, expired: true }
    const reason = new TurnstreamError('TURN_EXPIRED', turnId)
    turn.removal = reason
    commits.stage(env.tables.turns, key, formatTurn(expired))
    await commits.store(undefined, {
      write: (writes) => {
        this.#removeLogs(writes, expired)
        writes.push({ table: env.tables.ended, key: ['logs', endedAt, key] })
        writes.push({ table: env.tables.ended, key: ['record', endedAt, key], value: '' })
      },
      committed: () => turn.end(reason),
      undo: () => {
        turn.removal = undefined
      },
    })
  }
}

/** Sweeps when the store is opened and every `everyMs` after that, one small step at a time. */
export class Sweeper {
  readonly #step: () => Promise<boolean>
  readonly #clock: Clock
  readonly #everyMs: number
  #isStopped = false
  #cancel: (() => void) | undefined
  #sweeping: Promise<void>
  readonly #onError: (error: unknown) => void

  constructor(
    step: () => Promise<boolean>,
    {
      clock,
      everyMs,
      onError,
    }: { clock: Clock; everyMs: number; onError: (error: unknown) => void },
  ) {
    this.#step = step
    this.#onError = onError
    this.#clock = clock
    this.#everyMs = everyMs
    this.#sweeping = this.#sweep()
  }

  async #sweep(): Promise<void> {
    try {
      // Each step is a commit of its own, and lets others in.
      let isMore = true
      while (isMore && !this.#isStopped) isMore = await this.#step()
    } catch (error) {
      // The store is full, say. What is due stays due.
      this.#onError(error)
    }
    if (this.#isStopped) return
    this.#cancel = this.#clock.after(this.#everyMs, () => {
      this.#sweeping = this.#sweep()
    })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancel?.()
    await this.#sweeping
  }
}

/** So many threads are looked at in one step. */
const THREADS_PER_STEP = 100

const LISTED_AT_ONCE = 1000

/** Threads that still have turns are looked at in every pass: a pass starts this often in the retention. */
const PASSES_PER_RETENTION = 100

export function threadsOf(
  store: Omit<Store, 'turns' | 'journal'>,
  turns: LoadedTurns,
): EmbeddedThreads {
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
