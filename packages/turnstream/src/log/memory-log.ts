import {
  type Clock,
  monotonicNow,
  steadyTime,
  systemClock,
} from '@turnstream/core/internal/async/clock'
import type * as log from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import { LocalLog } from './local-log.ts'
import { MemoryKeyedRecords } from './memory-keyed-records.ts'
import { MemoryTurn } from './memory-turn.ts'
import {
  compareThreads,
  formatThreadPlace,
  pageLimit,
  pageOf,
  parseOrdinal,
  parseThreadPlace,
} from './paging.ts'
import { checkId, checkTurn } from './records.ts'
import {
  checkReplaceable,
  firstState,
  isSealed,
  leaseOf,
  mayReplace,
  newThread,
  RECORDS_OUTLIVE_LOGS,
  storeClosed,
  TurnExistsError,
  turnGone,
} from './rules.ts'
import { Tenants } from './tenants.ts'
import { StoreWriter, type Taken } from './writer.ts'

export interface MemoryLogOptions {
  /** How long to store the logs of a turn after its end. One day by default. */
  readonly retentionMs?: number
  readonly clock?: Clock
}

const MINUTE_MS = 60 * 1000
const DAY_MS = 24 * 60 * MINUTE_MS

// Checking every turn on every call is too expensive. Expired turns are removed within a hundredth of the
// retention, or a minute.
const SWEEPS_PER_RETENTION = 100

// Turns and threads checked per call. A large sweep must not block the event loop.
const SWEPT_PER_CALL = 1000

interface MemoryThread {
  record: log.ThreadRecord
  readonly turns: MemoryTurn[]
  made: number
}

/** The reference implementation: the complete contract, nothing durable. */
export class MemoryLog extends LocalLog<MemoryTurn> implements log.TurnLog {
  readonly retentionMs: number
  readonly keyedRecords: log.KeyedRecords
  readonly #keyedRecords: MemoryKeyedRecords
  readonly #clock: Clock
  /** Setting the system clock forward must not expire every turn at once. */
  readonly #steadyNow: () => number
  readonly #runs = new Map<string, MemoryTurn>()
  readonly #threads = new Map<string, MemoryThread>()
  readonly #tenants: Tenants<MemoryLog>
  #closed = false
  #nextSweepAt = 0
  /** The current sweep of all tenants. Only the log of `default` has one. */
  #sweeping: Iterator<unknown> | undefined

  constructor(options: MemoryLogOptions = {}, tenants?: Tenants<MemoryLog>) {
    const { retentionMs = DAY_MS, clock = systemClock } = options
    super(clock)
    this.#clock = clock
    this.#steadyNow = steadyTime(clock)
    this.retentionMs = retentionMs
    const ofDefault = tenants === undefined ? undefined : tenants.of(DEFAULT_TENANT).#keyedRecords
    this.#keyedRecords = new MemoryKeyedRecords(this.accessToTurns, this.#steadyNow, ofDefault)
    this.keyedRecords = this.#keyedRecords
    this.#tenants = tenants ?? new Tenants<MemoryLog>(this, (_, all) => new MemoryLog(options, all))
  }

  ofTenant(tenant: string): MemoryLog {
    this.checkOpen()
    return this.#tenants.of(tenant)
  }

  async create(turn: log.NewTurn, leaseMs: number): Promise<log.Lease> {
    this.checkOpen()
    checkTurn(turn)
    this.#sweep()
    const { turnId, threadId, runId = turnId, owner, request, replaces, contentMs } = turn
    const existing = this.#turnOf(turnId) ?? this.#current(this.#runs.get(runId))
    if (existing !== undefined) throw new TurnExistsError(existing.toRecord())
    const before = this.#thread(threadId)
    const open = before?.turns.find(({ state }) => !isSealed(state))
    if (open !== undefined) throw new TurnstreamError('THREAD_BUSY', `turn ${open.facts.turnId}`)
    const first = before?.turns.findIndex(({ facts }) => facts.turnId === replaces) ?? -1
    const replaced = first === -1 ? [] : (before?.turns.slice(first) ?? [])
    if (replaces !== undefined) checkReplaceable(turn, replaced[0])
    const thread = before ?? this.#addThread(threadId, turn.threadTitle)
    for (const each of replaced) each.replacedBy ??= turnId
    const now = this.#clock.now()
    thread.made += 1
    thread.record = { ...thread.record, updatedAt: now }
    const ids = { turnId, runId, threadId, ordinal: thread.made }
    const state = firstState(monotonicNow(this.#clock) + leaseMs)
    const facts = { ...ids, owner, createdAt: now, request, replaces, contentMs }
    const created = new MemoryTurn(facts, state)
    created.replacedBy = turn.replacedBy
    thread.turns.push(created)
    this.turns.set(turnId, created)
    this.#runs.set(runId, created)
    return leaseOf(created, state, now + leaseMs)
  }

  open<Name extends log.LogName>(
    lease: log.Lease,
    name: Name,
    options?: log.WriterOptions<log.NewRecord<Name>>,
  ): log.LogWriter<log.NewRecord<Name>> {
    return new MemoryWriter(lease, name, this.#clock, options, (taken) => {
      this.checkOpen()
      const turn = this.ownTurn(lease)
      if (turn === undefined) throw turnGone(lease.turnId)
      turn.append(lease, name, taken, this.#clock)
    })
  }

  async getResponse(turnId: string): Promise<string | undefined> {
    this.#enter()
    return this.#turnOf(turnId)?.response
  }

  async orphans(limit: number): Promise<log.Orphan[]> {
    this.checkOpen()
    // Called periodically while a server runs, so that data of idle tenants expires too.
    this.#sweep()
    this.#keyedRecords.sweep()
    return LocalLog.orphansOf(this.#tenants.entries(), limit)
  }

  async getTurn(turnId: string): Promise<log.TurnRecord | undefined> {
    this.#enter()
    return this.#turnOf(turnId)?.toRecord()
  }

  async getTurnOfRun(runId: string): Promise<log.TurnRecord | undefined> {
    this.#enter()
    return this.#current(this.#runs.get(runId))?.toRecord()
  }

  async listTurns(
    threadId: string,
    options: log.TurnPageOptions = {},
  ): Promise<log.Page<log.ListedTurn>> {
    this.#enter()
    const limit = pageLimit(options)
    const newestFirst = options.first === 'newest'
    const turns = this.#threads.get(threadId)?.turns ?? []
    const ordered = newestFirst ? turns.toReversed() : turns
    const from = options.cursor === undefined ? undefined : parseOrdinal(options.cursor)
    const found = ordered.filter(({ facts: { ordinal }, replacedBy }) => {
      if (replacedBy !== undefined && options.replaced !== true) return false
      if (from === undefined) return true
      return newestFirst ? ordinal < from : ordinal > from
    })
    const records = found.slice(0, limit + 1).map((turn) => this.#current(turn).toListed())
    return pageOf(records, limit, ({ ordinal }) => String(ordinal))
  }

  async putThread(thread: log.NewThread, replaces?: log.Replaced): Promise<log.ThreadRecord> {
    this.checkOpen()
    checkId('threadId', thread.threadId)
    this.#sweep()
    const found = this.#thread(thread.threadId)
    if (!mayReplace(found?.record, replaces)) {
      throw new TurnstreamError('THREAD_CHANGED', thread.threadId)
    }
    const stored = found ?? this.#addThread(thread.threadId)
    const { creation, version, createdAt } = stored.record
    const updatedAt = this.#clock.now()
    stored.record = { ...thread, creation, version: version + 1, createdAt, updatedAt }
    return stored.record
  }

  async getThread(threadId: string): Promise<log.ThreadRecord | undefined> {
    this.#enter()
    return this.#thread(threadId)?.record
  }

  async listThreads(options: log.PageOptions = {}): Promise<log.Page<log.ThreadRecord>> {
    this.#enter()
    const limit = pageLimit(options)
    const from = options.cursor === undefined ? undefined : parseThreadPlace(options.cursor)
    const now = this.#clock.now()
    const found = [...this.#threads.values()]
      .filter((thread) => !this.#isOver(thread, now))
      .map(({ record }) => record)
      .filter((record) => from === undefined || compareThreads(record, from) > 0)
      .toSorted(compareThreads)
    return pageOf(found.slice(0, limit + 1), limit, formatThreadPlace)
  }

  async countThreads(): Promise<number> {
    this.#enter()
    return this.#threads.size
  }

  async deleteTurn(turnId: string): Promise<boolean> {
    this.checkOpen()
    const turn = this.turns.get(turnId)
    if (turn !== undefined) this.#delete(turn)
    return turn !== undefined
  }

  async deleteThread(threadId: string): Promise<boolean> {
    this.#enter()
    // Synchronously: a turn created in between would have no thread.
    for (const turn of this.#thread(threadId)?.turns.slice() ?? []) this.#delete(turn)
    return this.#threads.delete(threadId)
  }

  async storedBytes(): Promise<number> {
    this.checkOpen()
    let sum = 0
    for (const [, each] of this.#tenants.entries()) {
      for (const { bytes } of each.turns.values()) sum += bytes
      sum += each.#keyedRecords.bytes
    }
    return sum
  }

  async close(): Promise<void> {
    // Earlier writes are stored by then.
    await Promise.resolve()
    for (const [, each] of this.#tenants.entries()) {
      each.#closed = true
      for (const turn of each.turns.values()) turn.dropLogs(storeClosed())
    }
  }

  protected override checkOpen(): void {
    if (this.#closed) throw storeClosed()
  }

  /** Every call removes some expired data of all tenants, so no background sweeper is needed. */
  #enter(): void {
    this.checkOpen()
    this.#sweep()
  }

  protected override existing(turnId: string): MemoryTurn {
    this.#enter()
    const turn = this.#turnOf(turnId)
    if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    turn.checkThere()
    return turn
  }

  #turnOf(turnId: string): MemoryTurn | undefined {
    return this.#current(this.turns.get(turnId))
  }

  /** The turn, without its content if that has expired since the last sweep. */
  #current<Found extends MemoryTurn | undefined>(turn: Found): Found {
    if (turn?.isContentOver(monotonicNow(this.#clock))) this.#expire(turn)
    return turn
  }

  #expire(turn: MemoryTurn): void {
    turn.dropLogs(new TurnstreamError('TURN_EXPIRED', turn.facts.turnId))
  }

  protected override decided(turnId: string): MemoryTurn | undefined {
    return this.turns.get(turnId)
  }

  protected override async persist(): Promise<void> {}

  protected override hold(): () => void {
    return () => {}
  }

  #thread(threadId: string): MemoryThread | undefined {
    const thread = this.#threads.get(threadId)
    if (thread === undefined || !this.#isOver(thread, this.#steadyNow())) return thread
    this.#threads.delete(threadId)
    return undefined
  }

  #isOver({ record, turns }: MemoryThread, now: number): boolean {
    return turns.length === 0 && now - record.updatedAt >= this.retentionMs
  }

  #addThread(threadId: string, title?: string): MemoryThread {
    const record = newThread(threadId, this.#clock.now(), title)
    const thread = { record, turns: [], made: 0 }
    this.#threads.set(threadId, thread)
    return thread
  }

  #delete(turn: MemoryTurn): void {
    this.#forget(turn)
    turn.dropLogs(new TurnstreamError('TURN_DELETED', turn.facts.turnId))
  }

  #forget(turn: MemoryTurn): void {
    const { turnId, runId, threadId } = turn.facts
    this.turns.delete(turnId)
    this.#runs.delete(runId)
    const turns = this.#threads.get(threadId)?.turns ?? []
    turns.splice(turns.indexOf(turn), 1)
  }

  #sweep(): void {
    const root = this.#tenants.of(DEFAULT_TENANT)
    const now = this.#steadyNow()
    if (root.#sweeping === undefined && now < root.#nextSweepAt) return
    root.#sweeping ??= root.#sweepAll()
    for (let count = 0; count < SWEPT_PER_CALL; count++) {
      if (root.#sweeping.next().done !== true) continue
      root.#sweeping = undefined
      root.#nextSweepAt = now + Math.min(this.retentionMs / SWEEPS_PER_RETENTION, MINUTE_MS)
      return
    }
  }

  *#sweepAll(): Generator<unknown, void> {
    for (const [, each] of this.#tenants.entries()) {
      for (const turn of each.turns.values()) yield each.#sweepTurn(turn)
      for (const threadId of each.#threads.keys()) yield each.#thread(threadId)
    }
  }

  #sweepTurn(turn: MemoryTurn): void {
    if (!isSealed(turn.state)) return
    const now = this.#steadyNow()
    const age = now - (turn.facts.endedAt ?? now)
    if (age >= this.retentionMs * RECORDS_OUTLIVE_LOGS) this.#forget(turn)
    else if (age >= this.retentionMs && !turn.isGone) this.#expire(turn)
    else this.#current(turn)
  }
}

/** Stores everything written in the same tick together. */
class MemoryWriter<Name extends log.LogName> extends StoreWriter<Name> {
  readonly #append: (taken: Taken<Name>) => void
  #isWoken = false

  constructor(
    lease: log.Lease,
    name: Name,
    clock: Clock,
    options: log.WriterOptions<log.NewRecord<Name>> | undefined,
    append: (taken: Taken<Name>) => void,
  ) {
    super(lease, name, clock, options)
    this.#append = append
  }

  protected override wake(): void {
    if (this.#isWoken) return
    this.#isWoken = true
    queueMicrotask(() => {
      this.#isWoken = false
      const taken = this.drain()
      if (taken.count === 0) return
      try {
        this.#append(taken)
      } catch (error) {
        return this.failed(error)
      }
      this.stored(taken.count)
    })
  }
}
