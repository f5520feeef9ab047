import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type * as log from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isRecord, parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import type { Key } from 'lmdb'
import { LocalLog } from '../local-log.ts'
import {
  formatThreadPlace,
  pageLimit,
  pageOf,
  parseThreadPlace,
  type ThreadPlace,
} from '../paging.ts'
import { checkId } from '../records.ts'
import { corrupt, mayReplace, newThread } from '../rules.ts'
import type { EmbeddedStore } from './embedded-store.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import { type Table, unlessDamaged, type Write } from './environment.ts'
import { formatPlace, parsePlace, type TenantKeys, type TurnPlace } from './stored-turn.ts'

/** Threads are counted in steps of this many, about a millisecond each. */
const COUNT_STEP = 1000

/** The creation id of a thread whose record is unreadable. */
const UNREADABLE = 'unreadable'

interface StoredThread {
  readonly record: log.ThreadRecord
  readonly made: number
}

const PLACES_AT_ONCE = 64

/** A place with its position. `damage` is set if it cannot be read; then the turn id is a substitute. */
export interface PlaceInThread extends TurnPlace {
  readonly ordinal: number
  readonly damage?: TurnstreamError
}

/** The threads of the log of a tenant: records, their order by last change, and the places of their turns. */
export abstract class ThreadLog extends LocalLog<EmbeddedTurn> {
  readonly keys: TenantKeys
  protected readonly store: EmbeddedStore

  constructor(keys: TenantKeys, store: EmbeddedStore) {
    super(store.clock)
    this.keys = keys
    this.store = store
  }

  protected override checkOpen(): void {
    this.store.checkOpen()
  }

  /** Whether a thread has turns left, as decided. */
  protected abstract hasTurns(threadId: string): boolean

  /** Decides a new turn of a thread, creating the thread if necessary. Returns the turn's ordinal. */
  protected addTurn({ threadId, threadTitle: title }: log.NewTurn, now: number) {
    const before = this.#replaceable(threadId)
    const { record } = this.#live(before.thread) ?? { record: newThread(threadId, now, title) }
    // An expired thread may have turns not swept yet: they keep their ordinals.
    const after = { record: { ...record, updatedAt: now }, made: before.made + 1 }
    return { ordinal: after.made, write: this.#replace(before.thread, after) }
  }

  async putThread(thread: log.NewThread, replaces?: log.Replaced): Promise<log.ThreadRecord> {
    this.checkOpen()
    const { threadId } = thread
    checkId('threadId', threadId)
    const now = this.store.clock.now()
    const before = this.#replaceable(threadId)
    const live = this.#live(before.thread)?.record
    if (!mayReplace(live, replaces)) {
      // Reading the thread again returns the change that was first.
      await this.store.commits.store(undefined)
      throw new TurnstreamError('THREAD_CHANGED', threadId)
    }
    const { creation, version, createdAt } = live ?? newThread(threadId, now)
    const record = { ...thread, creation, version: version + 1, createdAt, updatedAt: now }
    const write = this.#replace(before.thread, { record, made: before.made })
    await this.store.commits.store(undefined, { write })
    return record
  }

  /** A new record may replace a damaged one, of whose turns only the places are known. */
  #replaceable(threadId: string): { readonly thread?: StoredThread; readonly made: number } {
    const thread = unlessDamaged(() => this.#found(threadId), UNREADABLE)
    if (thread !== UNREADABLE) return thread ? { thread, made: thread.made } : { made: 0 }
    return { made: this.#newestPlace(this.keys.of(threadId)) }
  }

  /** The ordinal of the newest turn of a thread; 0 if there is none. */
  #newestPlace(key: string): number {
    const range = { start: [key, Infinity], end: [key, 0], reverse: true, limit: 1 }
    const [newest] = this.store.env.tables.threadTurns.getKeys(range)
    return Array.isArray(newest) ? Number(newest[1]) : 0
  }

  /** A thread goes with its turns: one that has some, but no record, lost it. */
  #checkLost(threadId: string, text: string | undefined): void {
    if (text !== undefined || this.#newestPlace(this.keys.of(threadId)) === 0) return
    throw corrupt(`the record of thread ${threadId} is missing`)
  }

  #replace(before: StoredThread | undefined, after: StoredThread): (writes: Write[]) => void {
    const { threads, recency } = this.store.env.tables
    const key = this.keys.of(after.record.threadId)
    this.store.commits.stage(threads, key, JSON.stringify(after))
    return (writes) => {
      if (before !== undefined) {
        writes.push({ table: recency, key: this.keys.recency(before.record) })
      }
      writes.push({ table: recency, key: this.keys.recency(after.record), value: '' })
    }
  }

  protected placeOf({
    threadId,
    ordinal,
  }: Pick<log.TurnRecord, 'threadId' | 'ordinal'>): TurnPlace | undefined {
    const text = this.store.env.tables.threadTurns.get([this.keys.of(threadId), ordinal])
    return text === undefined ? undefined : parsePlace(text)
  }

  /** Marks the turns of a thread from one to before another as replaced by that one. */
  protected replaceTurns(
    writes: Write[],
    { threadId, ordinal: first }: Pick<log.TurnRecord, 'threadId' | 'ordinal'>,
    { turnId: replacedBy, ordinal }: Pick<log.TurnRecord, 'turnId' | 'ordinal'>,
  ): void {
    const key = this.keys.of(threadId)
    const table = this.store.env.tables.threadTurns
    for (const place of table.getRange({ start: [key, first], end: [key, ordinal] })) {
      const { turnId, replacedBy: earlier } = parsePlace(place.value)
      if (earlier !== undefined) continue
      writes.push({ table, key: place.key, value: formatPlace({ turnId, replacedBy }) })
    }
  }

  /** The turns of a thread, including expired and replaced ones, after an ordinal if given. */
  *places(threadId: string, isReverse = false, from?: number): Generator<PlaceInThread> {
    const key = this.keys.of(threadId)
    const table = this.store.env.tables.threadTurns
    const oldest: Key = [key, 0]
    const newest: Key = [key, Infinity]
    const end = isReverse ? oldest : newest
    const start: Key = from === undefined ? (isReverse ? newest : oldest) : [key, from]
    for (const places of table.batches({ start, end, reverse: isReverse }, PLACES_AT_ONCE)) {
      for (const place of places) {
        const ordinal = Array.isArray(place) ? Number(place[1]) : Number.NaN
        const text = readPlace(table, place)
        if (typeof text === 'string') yield { ...parsePlace(text), ordinal }
        else yield { turnId: `unreadable-${ordinal}`, ordinal, damage: text }
      }
    }
  }

  async getThread(threadId: string): Promise<log.ThreadRecord | undefined> {
    this.checkOpen()
    return this.#stored(threadId)
  }

  #stored(threadId: string): log.ThreadRecord | undefined {
    const text = this.store.env.tables.threads.get(this.keys.of(threadId))
    this.#checkLost(threadId, text)
    return this.#live(parseThread(text))?.record
  }

  /** The creation id of the thread, as decided; undefined if there is none. */
  creationOf(threadId: string): string | undefined {
    return unlessDamaged(() => this.#decided(threadId)?.record.creation, UNREADABLE)
  }

  async listThreads(options: log.PageOptions = {}): Promise<log.Page<log.ThreadRecord>> {
    this.checkOpen()
    const limit = pageLimit(options)
    const from = options.cursor === undefined ? undefined : parseThreadPlace(options.cursor)
    const found: log.ThreadRecord[] = []
    const range = { ...this.keys.newestFirst(from), snapshot: false }
    for (const key of this.store.env.tables.recency.getKeys(range)) {
      const record = Array.isArray(key) ? this.#listed(key) : undefined
      if (record !== undefined) found.push(record)
      if (found.length > limit) break
    }
    return pageOf(found, limit, formatThreadPlace)
  }

  #listed(key: Key & readonly unknown[]): log.ThreadRecord | undefined {
    const threadId = String(key.at(-1))
    const updatedAt = Number(key.at(-2))
    const times = { createdAt: updatedAt, updatedAt }
    const damaged = { threadId, creation: UNREADABLE, version: 0, ...times, damaged: true } as const
    const record = unlessDamaged(() => {
      this.store.env.tables.recency.getListed(key)
      return this.#stored(threadId)
    }, damaged)
    // What replaced a damaged record could not know its place, which the sweeper removes later.
    return record?.updatedAt === updatedAt ? record : undefined
  }

  /** Includes recently expired threads. */
  async countThreads(): Promise<number> {
    this.checkOpen()
    const { recency } = this.store.env.tables
    let count = 0
    for (const keys of recency.batches(this.keys.newestFirst(undefined), COUNT_STEP)) {
      count += keys.length
      if (isSliceOver()) await nextSlice()
    }
    return count
  }

  /** Removes the thread at an index position if it has expired, or is unreadable and without turns. */
  async sweepThread({ threadId, updatedAt }: ThreadPlace): Promise<void> {
    const key = this.keys.of(threadId)
    const { threads, recency } = this.store.env.tables
    let failure: unknown
    let thread: StoredThread | undefined
    try {
      thread = this.#found(threadId)
    } catch (error) {
      failure = error
    }
    const isElsewhere = thread !== undefined && thread.record.updatedAt !== updatedAt
    if (!isElsewhere && this.hasTurns(threadId)) {
      if (failure !== undefined) throw failure
      return
    }
    if (!isElsewhere) this.store.commits.stage(threads, key, undefined)
    await this.store.commits.store(undefined, {
      write: (writes) => {
        writes.push({ table: recency, key: this.keys.recency({ threadId, updatedAt }) })
        if (!isElsewhere) this.#removePlaces(writes, key)
      },
    })
    if (failure !== undefined) throw failure
  }

  /** The ordinals of unreadable turns are removed only now. */
  #removePlaces(writes: Write[], key: string): void {
    const table = this.store.env.tables.threadTurns
    const range = { start: [key, 0], end: [key, Infinity] }
    for (const place of table.getKeys(range)) writes.push({ table, key: place })
  }

  async removeThread(threadId: string): Promise<boolean> {
    const before = unlessDamaged(() => this.#decided(threadId), UNREADABLE)
    if (before === undefined) return false
    const { threads, recency } = this.store.env.tables
    this.store.commits.stage(threads, this.keys.of(threadId), undefined)
    await this.store.commits.store(undefined, {
      write: (writes) => {
        // Otherwise unknown. The sweeper removes it, and lists skip it.
        if (before !== UNREADABLE) {
          writes.push({ table: recency, key: this.keys.recency(before.record) })
        }
        this.#removePlaces(writes, this.keys.of(threadId))
      },
    })
    return true
  }

  #decided(threadId: string): StoredThread | undefined {
    return this.#live(this.#found(threadId))
  }

  /** As decided, including expired ones not swept yet. */
  #found(threadId: string): StoredThread | undefined {
    const { threads } = this.store.env.tables
    const key = this.keys.of(threadId)
    const text = this.store.commits.get(threads, key)
    if (!this.store.commits.isStaged(threads, key)) this.#checkLost(threadId, text)
    return parseThread(text)
  }

  #live(thread: StoredThread | undefined): StoredThread | undefined {
    if (thread === undefined) return undefined
    const { threadId, updatedAt } = thread.record
    const { clock, retentionMs } = this.store
    if (clock.now() - updatedAt < retentionMs || this.hasTurns(threadId)) return thread
    return undefined
  }
}

function readPlace(table: Table, key: Key): string | TurnstreamError {
  try {
    return table.getListed(key)
  } catch (error) {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
    return error
  }
}

function parseThread(text: string | undefined): StoredThread | undefined {
  if (text === undefined) return undefined
  const thread = parseJsonSafe(text)
  if (isRecord(thread) && isRecord(thread['record'])) {
    const { record, made } = thread as unknown as StoredThread
    // Threads of older stores lack these fields.
    const { creation = String(record.createdAt), version = 0 } = record as Partial<log.ThreadRecord>
    return { record: { ...record, creation, version }, made }
  }
  throw corrupt('a stored thread is malformed')
}
