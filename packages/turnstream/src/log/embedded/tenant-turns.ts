import type {
  Lease,
  ListedTurn,
  Page,
  TurnPageOptions,
  TurnRecord,
} from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { Key } from 'lmdb'
import { pageLimit, pageOf, parseOrdinal } from '../paging.ts'
import { damagedTurn, turnRecord } from '../records.ts'
import { checkEpoch, hasRunOut, isSealed, RECORDS_OUTLIVE_LOGS, turnGone } from '../rules.ts'
import type { EmbeddedStore } from './embedded-store.ts'
import { EmbeddedThreads } from './embedded-threads.ts'
import { EmbeddedTurn } from './embedded-turn.ts'
import type { Table, Write } from './environment.ts'
import { EmbeddedKeyedRecords } from './keyed-records.ts'
import {
  formatPlace,
  parsePlace,
  parseTurn,
  type StoredTurn,
  TenantKeys,
  type TurnPlace,
} from './stored-turn.ts'

/** How many places of a thread are read at once. */
const PLACES_AT_ONCE = 64

/** A place with its position. `damage` is set if it cannot be read; then the turn id is a substitute. */
interface PlaceInThread extends TurnPlace {
  readonly ordinal: number
  readonly damage?: TurnstreamError
}

/**
 * The turns, threads and keyed records of a tenant. Open turns and those with readers are in memory, once each and by id: building a
 * store key for every token would be too expensive.
 */
export class TenantTurns {
  readonly keys: TenantKeys
  readonly threads: EmbeddedThreads
  readonly keyedRecords: EmbeddedKeyedRecords
  readonly #store: EmbeddedStore
  readonly #turns = new Map<string, EmbeddedTurn>()
  /** The open turn of a thread, as decided. */
  readonly #openOfThread = new Map<string, EmbeddedTurn>()

  constructor(tenant: string, store: EmbeddedStore) {
    this.keys = new TenantKeys(tenant)
    this.#store = store
    this.threads = new EmbeddedThreads(this.keys, store, (threadId) => this.hasTurns(threadId))
    this.keyedRecords = new EmbeddedKeyedRecords(this, store)
  }

  add(turn: EmbeddedTurn): void {
    const { turnId, threadId } = turn.facts
    this.#turns.set(turnId, turn)
    this.#openOfThread.set(threadId, turn)
  }

  remove(turn: EmbeddedTurn): void {
    const { turnId, threadId } = turn.facts
    if (this.#turns.get(turnId) === turn) this.#turns.delete(turnId)
    if (this.#openOfThread.get(threadId) === turn) this.#openOfThread.delete(threadId)
  }

  /** Restores a removed turn. */
  restore(turn: EmbeddedTurn): void {
    if (turn.isSealed) this.#turns.set(turn.facts.turnId, turn)
    else this.add(turn)
    this.forgetIdle(turn)
  }

  values(): Iterable<EmbeddedTurn> {
    return this.#turns.values()
  }

  /** The turn as decided, loaded if necessary; undefined if there is none. */
  find(turnId: string): EmbeddedTurn | undefined {
    const loaded = this.#turns.get(turnId)
    if (loaded !== undefined) return loaded
    const { commits, env } = this.#store
    const text = commits.get(env.tables.turns, this.#key(turnId))
    if (text === undefined) return undefined
    const turn = parseTurn(text)
    return new EmbeddedTurn(this.#store, this.keys, turn, turn.state, true)
  }

  /** The turn as decided, unless it has expired. */
  decided(turnId: string): EmbeddedTurn | undefined {
    const turn = this.find(turnId)
    if (turn?.isSealed !== true) return turn
    return this.remains(turn.decided) === 'nothing' ? undefined : turn
  }

  /** The same, or TURN_UNKNOWN or TURN_EXPIRED. */
  existing(turnId: string): EmbeddedTurn {
    this.#store.checkOpen()
    const turn = this.decided(turnId)
    if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    if (this.remains(turn.decided) === 'record') throw new TurnstreamError('TURN_EXPIRED', turnId)
    return turn
  }

  /** To its owner, a deleted turn is a lost lease. */
  leased(lease: Lease): EmbeddedTurn {
    this.#store.checkOpen()
    const turn = this.decided(lease.turnId)
    if (turn?.creation === lease.creation) return turn
    throw turnGone(lease.turnId)
  }

  /** Waits until a committed turn has what its owner waits for. */
  async waitFor<Found>(
    lease: Lease,
    signal: AbortSignal,
    find: (turn: StoredTurn) => Found | undefined,
  ): Promise<Found> {
    const release = this.hold(this.leased(lease))
    try {
      while (!signal.aborted) {
        const turn = this.leased(lease)
        checkEpoch(turn.state, lease)
        const { committed } = turn
        const found = committed && find(committed)
        if (found !== undefined) return found
        await turn.ownership.wait(signal)
      }
    } finally {
      release()
    }
    throw new TurnstreamError('ABORTED', 'the wait was aborted')
  }

  /** The turn as visible to readers. */
  #stored(turnId: string): StoredTurn | undefined {
    const loaded = this.#turns.get(turnId)?.committed
    if (loaded !== undefined) return loaded
    const text = this.#store.env.tables.turns.get(this.#key(turnId))
    return text === undefined ? undefined : parseTurn(text)
  }

  /** STORE_CORRUPT for a turn known to be damaged. */
  #key(turnId: string): string {
    const key = this.keys.of(turnId)
    if (!this.#store.damaged.has(key)) return key
    throw new TurnstreamError('STORE_CORRUPT', `turn ${turnId} is damaged`)
  }

  /** Keeps a turn in memory until the returned function is called, once. */
  hold(turn: EmbeddedTurn): () => void {
    const { turnId } = turn.facts
    if (!this.#turns.has(turnId)) this.#turns.set(turnId, turn)
    turn.readers += 1
    return () => {
      turn.readers -= 1
      this.forgetIdle(turn)
    }
  }

  /** An ended turn stays in memory only while it has readers. */
  forgetIdle(turn: EmbeddedTurn): void {
    if (turn.isIdle) this.remove(turn)
  }

  openTurn(threadId: string): EmbeddedTurn | undefined {
    const turn = this.#openOfThread.get(threadId)
    return turn?.isSealed === false ? turn : undefined
  }

  /** Open turns with an expired lease. */
  orphans(now: number, limit: number): string[] {
    const orphans: string[] = []
    for (const turn of this.#turns.values()) {
      if (orphans.length >= limit) break
      const { committed } = turn
      const isOpen = committed !== undefined && !isSealed(committed.state)
      if (isOpen && hasRunOut(turn.state, now)) orphans.push(turn.facts.turnId)
    }
    return orphans
  }

  getRecord(turnId: string): TurnRecord | undefined {
    const turn = this.#stored(turnId)
    return turn && this.remains(turn) !== 'nothing' ? this.toRecord(turn) : undefined
  }

  getResponse(turnId: string): string | undefined {
    const turn = this.#stored(turnId)
    if (turn === undefined || this.remains(turn) !== 'all') return undefined
    const response = this.#store.env.tables.responses.get(turn.number)
    if (response === undefined && turn.responseBytes !== undefined) {
      throw new TurnstreamError('STORE_CORRUPT', `the Response of turn ${turnId} is missing`)
    }
    return response
  }

  /** A run has its own entry only if its id differs from its turn's. */
  getRecordOfRun(runId: string): TurnRecord | undefined {
    const turnId = this.#store.env.tables.runs.get(this.keys.of(runId))
    const record = this.getRecord(turnId ?? runId)
    return record?.runId === runId ? record : undefined
  }

  listRecords(threadId: string, options: TurnPageOptions): Page<ListedTurn> {
    const limit = pageLimit(options)
    const from = options.cursor === undefined ? undefined : parseOrdinal(options.cursor)
    const found: ListedTurn[] = []
    for (const place of this.places(threadId, options.first === 'newest', from)) {
      const { replacedBy } = place
      if (replacedBy !== undefined && options.replaced !== true) continue
      const record = this.#listed(threadId, place)
      if (record !== undefined) found.push({ ...record, ...(replacedBy && { replacedBy }) })
      if (found.length > limit) break
    }
    return pageOf(found, limit, ({ ordinal }) => String(ordinal))
  }

  #listed(threadId: string, { turnId, ordinal, damage }: PlaceInThread): ListedTurn | undefined {
    if (damage !== undefined) return damagedTurn({ turnId, threadId, ordinal })
    try {
      // Places are removed with their turns: the key of the record was damaged.
      if (this.#stored(turnId) === undefined) return damagedTurn({ turnId, threadId, ordinal })
      const record = this.getRecord(turnId)
      // A damaged turn was deleted, and its id used again.
      const isElsewhere = record?.ordinal !== ordinal || record.threadId !== threadId
      return isElsewhere ? undefined : record
    } catch (error) {
      if (!hasCode(error, 'STORE_CORRUPT')) throw error
      return damagedTurn({ turnId, threadId, ordinal })
    }
  }

  placeOf({ threadId, ordinal }: Pick<TurnRecord, 'threadId' | 'ordinal'>): TurnPlace | undefined {
    const text = this.#store.env.tables.threadTurns.get([this.keys.of(threadId), ordinal])
    return text === undefined ? undefined : parsePlace(text)
  }

  /** Marks the turns of a thread from one to before another as replaced by that one. */
  replace(
    writes: Write[],
    { threadId, ordinal: first }: Pick<TurnRecord, 'threadId' | 'ordinal'>,
    { turnId: replacedBy, ordinal }: Pick<TurnRecord, 'turnId' | 'ordinal'>,
  ): void {
    const key = this.keys.of(threadId)
    const table = this.#store.env.tables.threadTurns
    for (const place of table.getRange({ start: [key, first], end: [key, ordinal] })) {
      const { turnId, replacedBy: earlier } = parsePlace(place.value)
      if (earlier !== undefined) continue
      writes.push({ table, key: place.key, value: formatPlace({ turnId, replacedBy }) })
    }
  }

  /** The turns of a thread, including expired and replaced ones, after an ordinal if given. */
  *places(threadId: string, isReverse = false, from?: number): Generator<PlaceInThread> {
    const key = this.keys.of(threadId)
    const table = this.#store.env.tables.threadTurns
    const oldest: Key = [key, 0]
    const newest: Key = [key, Infinity]
    const end = isReverse ? oldest : newest
    let start: Key = from === undefined ? (isReverse ? newest : oldest) : [key, from]
    for (;;) {
      const range = { start, end, reverse: isReverse, exclusiveStart: true, limit: PLACES_AT_ONCE }
      // An LMDB cursor must not stay open while turns are read.
      const found: Key[] = [...table.getKeys(range)]
      for (const place of found) {
        const ordinal = Array.isArray(place) ? Number(place[1]) : Number.NaN
        const text = readPlace(table, place)
        if (text instanceof TurnstreamError) {
          yield { turnId: `unreadable-${ordinal}`, ordinal, damage: text }
        } else yield { ...parsePlace(text), ordinal }
      }
      const last = found.at(-1)
      if (last === undefined || found.length < PLACES_AT_ONCE) return
      start = last
    }
  }

  /** Whether a thread has turns left, as decided. */
  hasTurns(threadId: string): boolean {
    if (this.openTurn(threadId) !== undefined) return true
    for (const { turnId, damage } of this.places(threadId)) {
      if (damage !== undefined) return true
      try {
        if (this.getRecord(turnId) !== undefined) return true
      } catch {
        // An unreadable turn exists until the sweeper removes it.
        return true
      }
    }
    return false
  }

  toRecord(turn: StoredTurn): TurnRecord {
    return turnRecord(turn, turn.state, this.remains(turn) !== 'all')
  }

  /** What is left of a turn at this age. The sweeper removes the rest later. */
  remains(turn: StoredTurn): 'all' | 'record' | 'nothing' {
    const { state, endedAt, expired, contentUntil = Infinity } = turn
    if (!isSealed(state) || endedAt === undefined) return 'all'
    const { clock, steadyNow, retentionMs } = this.#store
    const age = clock.now() - endedAt
    if (age >= retentionMs * RECORDS_OUTLIVE_LOGS) return 'nothing'
    return expired || age >= retentionMs || steadyNow() >= contentUntil ? 'record' : 'all'
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
