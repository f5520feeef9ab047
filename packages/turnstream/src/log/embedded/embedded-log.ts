import { monotonicNow } from '@turnstream/core/internal/async/clock'
import type * as log from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { pageLimit, pageOf, parseOrdinal } from '../paging.ts'
import { checkTurn, damagedTurn, turnRecord } from '../records.ts'
import {
  checkReplaceable,
  corrupt,
  firstState,
  isSealed,
  leaseOf,
  RECORDS_OUTLIVE_LOGS,
  TurnExistsError,
} from '../rules.ts'
import { checkTenant } from '../tenants.ts'
import type { EmbeddedStore } from './embedded-store.ts'
import { type PlaceInThread, ThreadLog } from './embedded-threads.ts'
import { EmbeddedTurn, EmbeddedWriter } from './embedded-turn.ts'
import { unlessDamaged } from './environment.ts'
import { EmbeddedKeyedRecords } from './keyed-records.ts'
import { deleteThread, deleteTurn, indexedThreads } from './removal.ts'
import {
  formatPlace,
  NOT_ENDED,
  parseTurn,
  type StoredFacts,
  type StoredTurn,
  TenantKeys,
  type TurnPlace,
} from './stored-turn.ts'

/**
 * One tenant in one directory of one process. Writes are decided in memory and stored by group commit; nothing is
 * visible or acknowledged before it is stored. Open turns and those with readers are in memory, once each and by id:
 * building a store key for every token would be too expensive.
 */
export class EmbeddedLog extends ThreadLog implements log.TurnLog {
  readonly keyedRecords: log.KeyedRecords
  readonly retentionMs: number
  /** The open turn of a thread, as decided. */
  readonly #openOfThread = new Map<string, EmbeddedTurn>()

  constructor(store: EmbeddedStore, tenant: string) {
    super(new TenantKeys(tenant), store)
    this.retentionMs = store.retentionMs
    this.keyedRecords = new EmbeddedKeyedRecords(this.accessToTurns, this.keys, store)
  }

  protected override persist(turn: EmbeddedTurn, undo = () => {}): Promise<void> {
    return this.store.commits.store(turn, { undo })
  }

  ofTenant(tenant: string): log.TurnLog {
    this.checkOpen()
    checkTenant(tenant)
    return this.store.logOf(tenant)
  }

  async create(turn: log.NewTurn, leaseMs: number): Promise<log.Lease> {
    this.checkOpen()
    checkTurn(turn)
    const { commits, env, clock } = this.store
    const { turnId, threadId, runId = turnId, owner, request, replaces, contentMs } = turn
    const { keys } = this
    this.#checkNew(turnId, runId)
    const open = this.openTurn(threadId)
    if (open !== undefined) throw new TurnstreamError('THREAD_BUSY', `turn ${open.facts.turnId}`)
    const replaced = replaces === undefined ? undefined : this.#replaceable(turn, replaces)
    const now = clock.now()
    const { ordinal, write } = this.addTurn(turn, now)
    const number = this.store.takeNumber()
    const ids = { turnId, runId, threadId, number, ordinal }
    const facts = { ...ids, owner, createdAt: now, request, replaces, contentMs, ...NOT_ENDED }
    const added = new EmbeddedTurn(this.store, keys, facts, firstState(0), false)
    added.until = monotonicNow(clock) + leaseMs
    this.add(added)
    if (runId !== turnId) commits.stage(env.tables.runs, keys.of(runId), turnId)
    await commits.store(added, {
      write: (writes) => {
        write(writes)
        const key = [keys.of(threadId), ordinal]
        const value = formatPlace({ turnId, replacedBy: turn.replacedBy })
        writes.push({ table: env.tables.threadTurns, key, value })
        if (replaced !== undefined) this.replaceTurns(writes, replaced, { turnId, ordinal })
      },
      undo: () => this.remove(added),
    })
    return leaseOf(added, added.state, now + leaseMs)
  }

  #replaceable(turn: log.NewTurn, replaces: string): StoredFacts | undefined {
    const found = this.decided(replaces)?.facts
    const isInThread = found?.threadId === turn.threadId
    checkReplaceable(turn, isInThread ? this.placeOf(found) : undefined)
    return found
  }

  #checkNew(turnId: string, runId: string): void {
    const existing = this.decided(turnId) ?? this.decided(this.#turnOfRun(runId) ?? '')
    if (existing !== undefined) throw new TurnExistsError(this.#toRecord(existing.decided))
  }

  /** A run has its own entry only if its id differs from its turn's. */
  #turnOfRun(runId: string): string | undefined {
    const { commits, env } = this.store
    const turnId = commits.get(env.tables.runs, this.keys.of(runId)) ?? runId
    return this.decided(turnId)?.facts.runId === runId ? turnId : undefined
  }

  open<Name extends log.LogName>(
    lease: log.Lease,
    name: Name,
    options?: log.WriterOptions<log.NewRecord<Name>>,
  ): log.LogWriter<log.NewRecord<Name>> {
    return new EmbeddedWriter(lease, name, this.ownTurn(lease), this.store, options)
  }

  async getResponse(turnId: string): Promise<string | undefined> {
    this.checkOpen()
    const turn = this.#stored(turnId)
    if (turn === undefined || this.#remains(turn) !== 'all') return undefined
    const response = this.store.env.tables.responses.get(turn.number)
    if (response === undefined && turn.responseBytes !== undefined) {
      throw corrupt(`the Response of turn ${turnId} is missing`)
    }
    return response
  }

  async orphans(limit: number): Promise<log.Orphan[]> {
    this.checkOpen()
    return this.store.orphans(limit)
  }

  async getTurn(turnId: string): Promise<log.TurnRecord | undefined> {
    this.checkOpen()
    return this.#recordOf(turnId)
  }

  async getTurnOfRun(runId: string): Promise<log.TurnRecord | undefined> {
    this.checkOpen()
    const turnId = this.store.env.tables.runs.get(this.keys.of(runId))
    const record = this.#recordOf(turnId ?? runId)
    return record?.runId === runId ? record : undefined
  }

  async listTurns(threadId: string, options: log.TurnPageOptions = {}) {
    this.checkOpen()
    const limit = pageLimit(options)
    const from = options.cursor === undefined ? undefined : parseOrdinal(options.cursor)
    const found: log.ListedTurn[] = []
    for (const place of this.places(threadId, options.first === 'newest', from)) {
      const { replacedBy } = place
      if (replacedBy !== undefined && options.replaced !== true) continue
      const record = this.#listed(threadId, place)
      if (record !== undefined) found.push({ ...record, ...(replacedBy && { replacedBy }) })
      if (found.length > limit) break
    }
    return pageOf(found, limit, ({ ordinal }) => String(ordinal))
  }

  #listed(threadId: string, { turnId, ordinal, damage }: PlaceInThread) {
    const damaged = damagedTurn({ turnId, threadId, ordinal })
    if (damage !== undefined) return damaged
    return unlessDamaged(() => {
      // Places are removed with their turns: the key of the record was damaged.
      if (this.#stored(turnId) === undefined) return damaged
      const record = this.#recordOf(turnId)
      // A damaged turn was deleted, and its id used again.
      const isElsewhere = record?.ordinal !== ordinal || record.threadId !== threadId
      return isElsewhere ? undefined : record
    }, damaged)
  }

  /** The threads of all tenants, including damaged records; per tenant, most recently changed last. */
  *allThreads(): Generator<{ readonly tenant: string; readonly threadId: string }> {
    this.checkOpen()
    yield* indexedThreads(this.store.env.tables.recency)
  }

  /** The ids of a thread's turns in order. Yields an error for a damaged id. */
  *turnPlaces(threadId: string): Generator<TurnPlace | TurnstreamError> {
    this.checkOpen()
    for (const place of this.places(threadId)) yield place.damage ?? place
  }

  async deleteTurn(turnId: string): Promise<boolean> {
    this.checkOpen()
    return deleteTurn(this.store, this, turnId)
  }

  async deleteThread(threadId: string): Promise<boolean> {
    this.checkOpen()
    return deleteThread(this.store, this, threadId)
  }

  async storedBytes(): Promise<number> {
    this.checkOpen()
    return this.store.storedBytes()
  }

  close(): Promise<void> {
    return this.store.close()
  }

  add(turn: EmbeddedTurn): void {
    const { turnId, threadId } = turn.facts
    this.turns.set(turnId, turn)
    this.#openOfThread.set(threadId, turn)
  }

  remove(turn: EmbeddedTurn): void {
    const { turnId, threadId } = turn.facts
    if (this.turns.get(turnId) === turn) this.turns.delete(turnId)
    if (this.#openOfThread.get(threadId) === turn) this.#openOfThread.delete(threadId)
  }

  restore(turn: EmbeddedTurn): void {
    if (turn.isSealed) this.turns.set(turn.facts.turnId, turn)
    else this.add(turn)
    this.forgetIdle(turn)
  }

  protected override hold(turn: EmbeddedTurn): () => void {
    const { turnId } = turn.facts
    if (!this.turns.has(turnId)) this.turns.set(turnId, turn)
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

  endAll(reason: TurnstreamError): void {
    for (const turn of this.turns.values()) turn.end(reason)
  }

  openTurn(threadId: string): EmbeddedTurn | undefined {
    const turn = this.#openOfThread.get(threadId)
    return turn?.isSealed === false ? turn : undefined
  }

  /** The turn as decided, loaded if necessary; undefined if there is none. */
  find(turnId: string): EmbeddedTurn | undefined {
    const loaded = this.turns.get(turnId)
    if (loaded !== undefined) return loaded
    const { commits, env } = this.store
    const text = commits.get(env.tables.turns, this.#key(turnId))
    if (text === undefined) return undefined
    const turn = parseTurn(text)
    return new EmbeddedTurn(this.store, this.keys, turn, turn.state, true)
  }

  /** Unless it has expired. */
  override decided(turnId: string): EmbeddedTurn | undefined {
    const turn = this.find(turnId)
    if (turn?.isSealed !== true) return turn
    return this.#remains(turn.decided) === 'nothing' ? undefined : turn
  }

  protected override existing(turnId: string): EmbeddedTurn {
    this.checkOpen()
    const turn = this.decided(turnId)
    if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    if (this.#remains(turn.decided) === 'record') throw new TurnstreamError('TURN_EXPIRED', turnId)
    return turn
  }

  /** The turn as visible to readers. */
  #stored(turnId: string): StoredTurn | undefined {
    const loaded = this.turns.get(turnId)?.committed
    if (loaded !== undefined) return loaded
    const text = this.store.env.tables.turns.get(this.#key(turnId))
    return text === undefined ? undefined : parseTurn(text)
  }

  #recordOf(turnId: string): log.TurnRecord | undefined {
    const turn = this.#stored(turnId)
    return turn && this.#remains(turn) !== 'nothing' ? this.#toRecord(turn) : undefined
  }

  #toRecord(turn: StoredTurn): log.TurnRecord {
    const { state } = turn
    const expired = this.#remains(turn) !== 'all'
    return turnRecord(turn, { epoch: state.epoch, sealed: isSealed(state), expired })
  }

  /** STORE_CORRUPT for a turn known to be damaged. */
  #key(turnId: string): string {
    const key = this.keys.of(turnId)
    if (!this.store.damaged.has(key)) return key
    throw corrupt(`turn ${turnId} is damaged`)
  }

  protected override hasTurns(threadId: string): boolean {
    if (this.openTurn(threadId) !== undefined) return true
    for (const { turnId, damage } of this.places(threadId)) {
      // An unreadable turn exists until the sweeper removes it.
      if (damage !== undefined) return true
      try {
        if (this.#recordOf(turnId) !== undefined) return true
      } catch {
        return true
      }
    }
    return false
  }

  /** What is left of a turn at this age. The sweeper removes the rest later. */
  #remains(turn: StoredTurn): 'all' | 'record' | 'nothing' {
    const { state, endedAt, expired, contentUntil = Infinity } = turn
    if (!isSealed(state) || endedAt === undefined) return 'all'
    const { clock, steadyNow, retentionMs } = this.store
    const age = clock.now() - endedAt
    if (age >= retentionMs * RECORDS_OUTLIVE_LOGS) return 'nothing'
    return expired || age >= retentionMs || steadyNow() >= contentUntil ? 'record' : 'all'
  }
}
