import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import type { Key } from 'lmdb'
import type { ThreadPlace } from '../paging.ts'
import { CHUNK_RECORDS } from '../records.ts'
import { RECORDS_OUTLIVE_LOGS } from '../rules.ts'
import { parseTenantKey } from '../tenants.ts'
import type { EmbeddedLog } from './embedded-log.ts'
import type { EmbeddedStore } from './embedded-store.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import { type Table, type Tables, unlessDamaged, type Write } from './environment.ts'
import { sweepKeyedRecords } from './keyed-records.ts'
import {
  DAMAGED,
  type ExpiryKey,
  expiryKey,
  parsePlace,
  parseTurn,
  type StoredTurn,
  TenantKeys,
} from './stored-turn.ts'

/** Maximum turns, and approximate maximum log keys, swept in one commit. */
const TURNS_PER_STEP = 16
const KEYS_PER_STEP = 1000

const THREADS_PER_STEP = 100

/** Threads with turns are checked in every pass: passes per retention period. */
const PASSES_PER_RETENTION = 100

const READ_AT_ONCE = 1000

const TURNS_PER_COMMIT = 16

/** Deletes a turn in any state. Returns false if there is none. */
export async function deleteTurn(store: EmbeddedStore, log: EmbeddedLog, turnId: string) {
  const turn = unlessDamaged(() => log.decided(turnId), null)
  if (turn === undefined) return false
  await (turn === null ? removeDamaged(store, log.keys, turnId) : removeDeleted(store, turn))
  return true
}

function removeDeleted(store: EmbeddedStore, turn: EmbeddedTurn): Promise<void> {
  return removeTurn(store, turn, new TurnstreamError('TURN_DELETED', turn.facts.turnId))
}

/** Deletes a thread and its turns. Returns false if there is none. */
export async function deleteThread(store: EmbeddedStore, log: EmbeddedLog, threadId: string) {
  const { keys } = log
  const creation = log.creationOf(threadId)
  if (creation === undefined) return false
  // Yields to others between commits. The thread is removed with its last turns, so a turn created meanwhile is
  // deleted with it or starts a new thread.
  while (log.creationOf(threadId) === creation) {
    const turns = turnsOf(log, threadId, TURNS_PER_COMMIT + 1)
    const isLast = turns.length <= TURNS_PER_COMMIT
    const removed = turns
      .slice(0, TURNS_PER_COMMIT)
      .map((turn) =>
        typeof turn === 'string' ? removeDamaged(store, keys, turn) : removeDeleted(store, turn),
      )
    await Promise.all(isLast ? [...removed, log.removeThread(threadId)] : removed)
  }
  return true
}

/** Some turns of a thread as decided, including expired ones not swept yet; the ids of damaged ones. */
function turnsOf(log: EmbeddedLog, threadId: string, limit: number): (EmbeddedTurn | string)[] {
  const open = log.openTurn(threadId)
  const turns: (EmbeddedTurn | string)[] = open === undefined ? [] : [open]
  for (const { turnId, damage } of log.places(threadId)) {
    if (turns.length === limit) break
    // A damaged place is removed with the thread.
    if (damage !== undefined || turnId === open?.facts.turnId) continue
    const turn = unlessDamaged(() => log.find(turnId), turnId)
    if (typeof turn === 'string' || turn?.facts.threadId === threadId) turns.push(turn)
  }
  return turns
}

async function removeTurn(store: EmbeddedStore, turn: EmbeddedTurn, reason: TurnstreamError) {
  const { commits } = store
  const { tables } = store.env
  const { keys } = turn
  const log = store.logOf(keys.tenant)
  const stored = turn.decided
  const { number, turnId, runId, threadId, ordinal, endedAt } = stored
  turn.isDiscarded = true
  turn.removal = reason
  log.remove(turn)
  commits.stage(tables.turns, keys.of(turnId), undefined)
  if (runId !== turnId) commits.stage(tables.runs, keys.of(runId), undefined)
  await commits.store(undefined, {
    write: (writes) => {
      removeLogs(writes, tables, stored)
      writes.push({ table: tables.open, key: number })
      writes.push({ table: tables.threadTurns, key: [keys.of(threadId), ordinal] })
      if (endedAt === undefined) return
      writes.push({ table: tables.ended, key: expiryKey(stored, keys.of(turnId)) })
      writes.push({ table: tables.ended, key: ['record', endedAt, keys.of(turnId)] })
    },
    committed: () => {
      commits.journal.release(turn.events)
      turn.end(reason)
    },
    undo: () => {
      turn.isDiscarded = false
      turn.removal = undefined
      if (turn.committed !== undefined) log.restore(turn)
    },
  })
}

/** Removes a turn that cannot be read. Its logs stay if its record does not tell their keys. */
async function removeDamaged(store: EmbeddedStore, keys: TenantKeys, turnId: string) {
  const { commits, damaged } = store
  const { tables } = store.env
  const key = keys.of(turnId)
  const turn = readTurn(tables, key)
  const places = turn === undefined ? await placesOf(tables, key) : []
  // Another caller may have been first, and the id be used again.
  if (turn === undefined && !isUnreadable(store, key)) return
  commits.stage(tables.turns, key, undefined)
  if (turn !== undefined && turn.runId !== turnId) {
    commits.stage(tables.runs, keys.of(turn.runId), undefined)
  }
  await commits.store(undefined, {
    write: (writes) => {
      writes.push({ table: tables.store, key: [DAMAGED, key] })
      if (turn === undefined) {
        // A store does not open with an open turn that is missing.
        for (const number of openNumbers(tables, key)) {
          writes.push({ table: tables.open, key: number })
        }
        for (const place of places) writes.push({ table: tables.threadTurns, key: place })
        return
      }
      removeLogs(writes, tables, turn)
      writes.push({ table: tables.open, key: turn.number })
      writes.push({ table: tables.threadTurns, key: [keys.of(turn.threadId), turn.ordinal] })
    },
    committed: () => damaged.delete(key),
  })
}

function isUnreadable({ commits, env }: EmbeddedStore, key: string): boolean {
  return unlessDamaged(() => commits.get(env.tables.turns, key), null) === null
}

export function readTurn(tables: Tables, key: string): StoredTurn | undefined {
  return unlessDamaged(() => parseTurn(tables.turns.get(key) ?? ''))
}

function openNumbers({ open }: Tables, turnKey: string): Key[] {
  return [...open.getKeys({})].filter((number) => unlessDamaged(() => open.get(number)) === turnKey)
}

/** The places of a turn whose record does not name its thread, found by reading those of all turns. */
async function placesOf({ threadTurns }: Tables, turnKey: string): Promise<Key[]> {
  const found: Key[] = []
  for (const places of threadTurns.batches({ start: [''] }, READ_AT_ONCE)) {
    found.push(...places.filter((place) => turnKeyAt(threadTurns, place) === turnKey))
    if (isSliceOver()) await nextSlice()
  }
  return found
}

function turnKeyAt(threadTurns: Table, place: Key): string | undefined {
  if (!Array.isArray(place)) return undefined
  const keys = new TenantKeys(parseTenantKey(String(place[0])).tenant)
  return unlessDamaged(() => keys.of(parsePlace(threadTurns.getListed(place)).turnId))
}

function removeLogs(writes: Write[], tables: Tables, { number }: StoredTurn): void {
  writes.push({ table: tables.responses, key: number })
  const range = { start: [number], end: [number + 1] }
  for (const table of [tables.chunks, tables.processed]) {
    for (const key of table.getKeys(range)) writes.push({ table, key })
  }
}

/** An index entry of a turn whose logs or record have expired. */
interface Due {
  readonly entry: ExpiryKey
  /** Undefined when it is missing or unreadable. */
  readonly turn: EmbeddedTurn | undefined
}

/** Removes expired turns, threads and keyed records of all tenants, in small commits so that others are not delayed. */
export class Sweeper {
  readonly #store: EmbeddedStore
  readonly #everyMs: number
  #isStopped = false
  #cancel: (() => void) | undefined
  #sweeping: Promise<void> | undefined
  /** Where the thread pass continues; undefined between passes. */
  #at: (string | number)[] | undefined
  #nextPassAt = 0

  constructor(store: EmbeddedStore, everyMs: number) {
    this.#store = store
    this.#everyMs = everyMs
  }

  start(): void {
    this.#sweeping = this.#sweep()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancel?.()
    await this.#sweeping
  }

  async #sweep(): Promise<void> {
    try {
      let isMore = true
      while (isMore && !this.#isStopped) {
        const { steadyNow } = this.#store
        const hasMoreTurns = await this.#sweepTurns(steadyNow())
        const hasMoreRecords = await sweepKeyedRecords(this.#store, steadyNow())
        isMore = (await this.#sweepThreads(steadyNow())) || hasMoreTurns || hasMoreRecords
      }
    } catch (error) {
      // For example, the store is full. The next sweep tries again.
      this.#store.onError(error)
    }
    if (!this.#isStopped) this.#cancel = this.#store.clock.after(this.#everyMs, () => this.start())
  }

  /** Removes some expired data; false when nothing is left. */
  async #sweepTurns(now: number): Promise<boolean> {
    const { retentionMs } = this.#store
    const due = [
      ...this.#due('content', now),
      ...this.#due('logs', now - retentionMs),
      ...this.#due('record', now - retentionMs * RECORDS_OUTLIVE_LOGS),
    ]
    await Promise.all(due.map((each) => this.#clear(each)))
    return due.length > 0
  }

  #due(kind: ExpiryKey[0], until: number): Due[] {
    const range = { start: [kind], end: [kind, until, '\uffff'], limit: TURNS_PER_STEP }
    const all: Due[] = []
    let keys = 0
    for (const key of this.#store.env.tables.ended.getKeys(range)) {
      if (!Array.isArray(key)) continue
      const turn = this.#find(String(key[2]))
      keys += turn === undefined ? 0 : countLogKeys(turn)
      if (all.length > 0 && keys > KEYS_PER_STEP) break
      all.push({ entry: [kind, Number(key[1]), String(key[2])], turn })
    }
    return all
  }

  #find(key: string): EmbeddedTurn | undefined {
    try {
      return this.#store.findTurn(key)
    } catch (error) {
      // An unreadable turn must not stop the sweep of later ones.
      this.#store.onError(error)
      return undefined
    }
  }

  #clear(due: Due): Promise<void> {
    const { entry, turn } = due
    if (turn === undefined) return this.#clearUnreadable(due)
    if (!isEntryOf(entry, turn.decided)) return this.#forget(entry)
    const reason = new TurnstreamError('TURN_EXPIRED', turn.facts.turnId)
    return entry[0] === 'record'
      ? removeTurn(this.#store, turn, reason)
      : this.#expire(turn, reason)
  }

  /** The entry of a damaged turn that was deleted, and its id used again. */
  #forget(entry: ExpiryKey): Promise<void> {
    const { commits, env } = this.#store
    const write = (writes: Write[]) => writes.push({ table: env.tables.ended, key: entry })
    return commits.store(undefined, { write })
  }

  /** Removes an unreadable record when it would have expired. Its logs stay: their keys are unknown. */
  async #clearUnreadable({ entry }: Due): Promise<void> {
    const { commits, env } = this.#store
    const [kind, time, key] = entry
    const places = kind === 'record' ? await placesOf(env.tables, key) : []
    // Its id may have been used again meanwhile.
    if (this.#find(key) !== undefined) return this.#forget(entry)
    if (kind === 'record') commits.stage(env.tables.turns, key, undefined)
    await commits.store(undefined, {
      write: (writes) => {
        writes.push({ table: env.tables.ended, key: entry })
        for (const place of places) writes.push({ table: env.tables.threadTurns, key: place })
        if (kind !== 'record')
          writes.push({ table: env.tables.ended, key: ['record', time, key], value: '' })
      },
    })
  }

  async #expire(turn: EmbeddedTurn, reason: TurnstreamError): Promise<void> {
    const { commits } = this.#store
    const { tables } = this.#store.env
    const expired = { ...turn.decided, values: undefined, expired: true }
    const { turnId, endedAt = 0 } = expired
    const key = turn.keys.of(turnId)
    turn.removal = reason
    commits.stage(tables.turns, key, JSON.stringify(expired))
    await commits.store(undefined, {
      write: (writes) => {
        removeLogs(writes, tables, expired)
        writes.push({ table: tables.ended, key: expiryKey(expired, key) })
        writes.push({ table: tables.ended, key: ['record', endedAt, key], value: '' })
      },
      committed: () => turn.end(reason),
      undo: () => {
        turn.removal = undefined
      },
    })
  }

  /** Checks some threads that may have expired; false at the end of the pass. */
  async #sweepThreads(now: number): Promise<boolean> {
    const { retentionMs, onError } = this.#store
    if (this.#at === undefined && now < this.#nextPassAt) return false
    const due = this.#nextThreads(now - retentionMs)
    const sweeps = due.map((place) => this.#store.logOf(place.tenant).sweepThread(place))
    for (const each of await Promise.allSettled(sweeps)) {
      if (each.status === 'rejected') onError(each.reason)
    }
    if (this.#at !== undefined) return true
    this.#nextPassAt = now + retentionMs / PASSES_PER_RETENTION
    return false
  }

  /** The next threads unchanged since `until`. Continues with the next tenant when there are none. */
  #nextThreads(until: number): IndexedThread[] {
    const due: IndexedThread[] = []
    const range = { start: this.#at ?? [0], exclusiveStart: true, limit: THREADS_PER_STEP }
    let last: IndexedThread | undefined
    for (const key of this.#store.env.tables.recency.getKeys(range)) {
      last = parseRecency(key)
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

function isEntryOf([kind, time, key]: ExpiryKey, turn: StoredTurn): boolean {
  if (kind === 'record') return time === turn.endedAt
  const [ownKind, ownTime] = expiryKey(turn, key)
  return kind === ownKind && time === ownTime
}

/** Approximate number of log keys of a turn. */
function countLogKeys({ state }: EmbeddedTurn): number {
  return Math.ceil(state.logs.events.head / CHUNK_RECORDS) + state.logs.processed.head
}

interface IndexedThread extends ThreadPlace {
  readonly tenant: string
}

/** The threads of all tenants from the index; per tenant, most recently changed last. */
export function* indexedThreads(recency: Table): Generator<IndexedThread> {
  for (const keys of recency.batches({ start: [0] }, READ_AT_ONCE)) {
    yield* keys.map(parseRecency).filter((place) => place !== undefined)
  }
}

function parseRecency(key: unknown): IndexedThread | undefined {
  if (!Array.isArray(key)) return undefined
  const [tenant, updatedAt, threadId] = key.length === 2 ? [DEFAULT_TENANT, ...key] : key
  return { tenant: String(tenant), updatedAt: Number(updatedAt), threadId: String(threadId) }
}
