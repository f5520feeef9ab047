import { monotonicNow } from '@turnstream/core/internal/async/clock'
import type { StopSignal } from '@turnstream/core/internal/async/on-abort'
import type * as log from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import { checkId, checkTurn } from '../records.ts'
import {
  checkEpoch,
  checkReplaceable,
  claimed,
  firstState,
  leaseOf,
  TurnExistsError,
} from '../rules.ts'
import { LogTail } from '../tail.ts'
import { Tenants } from '../tenants.ts'
import type { EmbeddedStore } from './embedded-store.ts'
import type { EmbeddedThreads } from './embedded-threads.ts'
import { EmbeddedTurn, EmbeddedWriter } from './embedded-turn.ts'
import { indexedThreads, removeDamaged, removeTurn } from './removal.ts'
import { formatPlace, NOT_ENDED, type StoredFacts, type TurnPlace } from './stored-turn.ts'
import type { TenantTurns } from './tenant-turns.ts'

/** How many turns of a thread to delete in one commit. */
const TURNS_PER_COMMIT = 16

/**
 * The turns of one tenant in one directory of one process. Writes are decided in memory, by the rules shared by all
 * backends, and stored by group commit. Nothing is visible or acknowledged before it is stored.
 */
export class EmbeddedLog implements log.TurnLog {
  readonly #store: EmbeddedStore
  readonly #tenants: Tenants<EmbeddedLog>
  readonly #turns: TenantTurns
  readonly #threads: EmbeddedThreads

  constructor(store: EmbeddedStore, tenant = DEFAULT_TENANT, tenants?: Tenants<EmbeddedLog>) {
    this.#store = store
    this.#tenants =
      tenants ?? new Tenants<EmbeddedLog>(this, (name, all) => new EmbeddedLog(store, name, all))
    this.#turns = store.turnsOf(tenant)
    this.#threads = this.#turns.threads
  }

  get keyedRecords(): log.KeyedRecords {
    return this.#turns.keyedRecords
  }

  get retentionMs(): number {
    return this.#store.retentionMs
  }

  ofTenant(tenant: string): log.TurnLog {
    this.#store.checkOpen()
    return this.#tenants.of(tenant)
  }

  async create(turn: log.NewTurn, leaseMs: number): Promise<log.Lease> {
    this.#store.checkOpen()
    checkTurn(turn)
    const { commits, env, clock } = this.#store
    const { turnId, threadId, runId = turnId, owner, request, replaces, contentMs } = turn
    const { keys } = this.#turns
    this.#checkNew(turnId, runId)
    const open = this.#turns.openTurn(threadId)
    if (open !== undefined) throw new TurnstreamError('THREAD_BUSY', `turn ${open.facts.turnId}`)
    const replaced = replaces === undefined ? undefined : this.#replaceable(turn, replaces)
    const now = clock.now()
    const { ordinal, write } = this.#threads.addTurn(turn, now)
    const number = this.#store.takeNumber()
    const ids = { turnId, runId, threadId, number, ordinal }
    const facts = { ...ids, owner, createdAt: now, request, replaces, contentMs, ...NOT_ENDED }
    const added = new EmbeddedTurn(this.#store, keys, facts, firstState(0), false)
    added.until = monotonicNow(clock) + leaseMs
    this.#turns.add(added)
    if (runId !== turnId) commits.stage(env.tables.runs, keys.of(runId), turnId)
    await commits.store(added, {
      write: (writes) => {
        write(writes)
        const key = [keys.of(threadId), ordinal]
        const value = formatPlace({ turnId, replacedBy: turn.replacedBy })
        writes.push({ table: env.tables.threadTurns, key, value })
        if (replaced !== undefined) this.#turns.replace(writes, replaced, { turnId, ordinal })
      },
      undo: () => this.#turns.remove(added),
    })
    return leaseOf(added, added.state, now + leaseMs)
  }

  /** The turn that a new one replaces. */
  #replaceable(turn: log.NewTurn, replaces: string): StoredFacts | undefined {
    const found = this.#turns.decided(replaces)?.facts
    const isInThread = found?.threadId === turn.threadId
    checkReplaceable(turn, isInThread ? this.#turns.placeOf(found) : undefined)
    return found
  }

  #checkNew(turnId: string, runId: string): void {
    const existing =
      this.#turns.decided(turnId) ?? this.#turns.decided(this.#turnOfRun(runId) ?? '')
    if (existing === undefined) return
    throw new TurnExistsError(this.#turns.toRecord(existing.decided))
  }

  /** A run has its own entry only if its id differs from its turn's. */
  #turnOfRun(runId: string): string | undefined {
    const { commits, env } = this.#store
    const turnId = commits.get(env.tables.runs, this.#turns.keys.of(runId)) ?? runId
    return this.#turns.decided(turnId)?.facts.runId === runId ? turnId : undefined
  }

  async claim(turnId: string, owner: string, leaseMs: number): Promise<log.Lease> {
    const turn = this.#turns.existing(turnId)
    const { commits, clock } = this.#store
    const state = claimed(turn.state, turnId, monotonicNow(clock), leaseMs)
    const { until } = turn
    turn.decide({ owner }, state)
    turn.until = state.until
    const undo = () => {
      turn.until = until
    }
    await commits.store(turn, { undo })
    return leaseOf(turn, state, clock.now() + leaseMs)
  }

  async renew(lease: log.Lease, leaseMs: number): Promise<void> {
    const turn = this.#turns.leased(lease)
    checkEpoch(turn.state, lease)
    const { clock } = this.#store
    turn.until = monotonicNow(clock) + leaseMs
    lease.until = clock.now() + leaseMs
  }

  open<Name extends log.LogName>(
    lease: log.Lease,
    name: Name,
    options?: log.WriterOptions<log.NewRecord<Name>>,
  ): log.LogWriter<log.NewRecord<Name>> {
    const turn = this.#turns.decided(lease.turnId)
    const own = turn?.creation === lease.creation ? turn : undefined
    return new EmbeddedWriter(lease, name, own, this.#store, options)
  }

  tail<Name extends log.LogName>(
    turnId: string,
    name: Name,
    after: string,
    signal: StopSignal,
  ): log.Tail<log.LogRecord<Name>> {
    return new LogTail(name, () => this.#source(turnId, name), after, signal)
  }

  #source<Name extends log.LogName>(turnId: string, name: Name) {
    const turn = this.#shown(turnId)
    if (name === 'processed') turn.load()
    return turn.source(name, this.#turns.hold(turn))
  }

  async snapshot(turnId: string): Promise<log.TurnSnapshot> {
    const turn = this.#shown(turnId)
    turn.load()
    return turn.snapshot()
  }

  async getResponse(turnId: string): Promise<string | undefined> {
    this.#store.checkOpen()
    return this.#turns.getResponse(turnId)
  }

  async expired(limit: number): Promise<string[]> {
    this.#store.checkOpen()
    return this.#turns.orphans(monotonicNow(this.#store.clock), limit)
  }

  async orphans(limit: number): Promise<log.Orphan[]> {
    this.#store.checkOpen()
    return this.#store.orphans(monotonicNow(this.#store.clock), limit)
  }

  async requestCancel(turnId: string, reason: string): Promise<boolean> {
    const turn = this.#turns.existing(turnId)
    if (turn.state.logs.events.sealed) return false
    if (turn.facts.cancelReason === undefined) turn.decide({ cancelReason: reason })
    await this.#store.commits.store(turn)
    return true
  }

  cancelled(lease: log.Lease, signal: AbortSignal): Promise<string> {
    return this.#turns.waitFor(lease, signal, ({ cancelReason }) => cancelReason)
  }

  async getTurn(turnId: string): Promise<log.TurnRecord | undefined> {
    this.#store.checkOpen()
    return this.#turns.getRecord(turnId)
  }

  async getTurnOfRun(runId: string): Promise<log.TurnRecord | undefined> {
    this.#store.checkOpen()
    return this.#turns.getRecordOfRun(runId)
  }

  async listTurns(
    threadId: string,
    options: log.TurnPageOptions = {},
  ): Promise<log.Page<log.ListedTurn>> {
    this.#store.checkOpen()
    return this.#turns.listRecords(threadId, options)
  }

  async putThread(thread: log.NewThread, replaces?: log.Replaced): Promise<log.ThreadRecord> {
    this.#store.checkOpen()
    checkId('threadId', thread.threadId)
    return await this.#threads.put(thread, replaces)
  }

  async getThread(threadId: string): Promise<log.ThreadRecord | undefined> {
    this.#store.checkOpen()
    return this.#threads.get(threadId)
  }

  async listThreads(options: log.PageOptions = {}): Promise<log.Page<log.ThreadRecord>> {
    this.#store.checkOpen()
    return this.#threads.list(options)
  }

  /** The threads of all tenants, including damaged records; per tenant, most recently changed last. */
  *allThreads(): Generator<{ readonly tenant: string; readonly threadId: string }> {
    this.#store.checkOpen()
    yield* indexedThreads(this.#store.env.tables.recency)
  }

  /** The ids of a thread's turns in order. Yields an error for a damaged id. */
  *turnPlaces(threadId: string): Generator<TurnPlace | TurnstreamError> {
    this.#store.checkOpen()
    for (const place of this.#turns.places(threadId)) yield place.damage ?? place
  }

  async countThreads(): Promise<number> {
    this.#store.checkOpen()
    return this.#threads.count()
  }

  async deleteTurn(turnId: string): Promise<boolean> {
    this.#store.checkOpen()
    if (this.#isDamaged(turnId)) {
      await removeDamaged(this.#store, this.#turns.keys, turnId)
      return true
    }
    const turn = this.#turns.decided(turnId)
    if (turn === undefined) return false
    await this.#remove(turn)
    return true
  }

  #isDamaged(turnId: string): boolean {
    try {
      this.#turns.find(turnId)
      return false
    } catch (error) {
      if (!hasCode(error, 'STORE_CORRUPT')) throw error
      return true
    }
  }

  async deleteThread(threadId: string): Promise<boolean> {
    this.#store.checkOpen()
    const creation = this.#threads.creationOf(threadId)
    if (creation === undefined) return false
    // Yields to others between commits. The thread is removed with its last turns, so a turn created meanwhile is
    // deleted with it or starts a new thread.
    while (this.#threads.creationOf(threadId) === creation) {
      const turns = this.#turnsOf(threadId, TURNS_PER_COMMIT + 1)
      const isLast = turns.length <= TURNS_PER_COMMIT
      const removed = turns
        .slice(0, TURNS_PER_COMMIT)
        .map((turn) =>
          typeof turn === 'string'
            ? removeDamaged(this.#store, this.#turns.keys, turn)
            : this.#remove(turn),
        )
      await Promise.all(isLast ? [...removed, this.#threads.remove(threadId)] : removed)
    }
    return true
  }

  #remove(turn: EmbeddedTurn): Promise<void> {
    return removeTurn(this.#store, turn, new TurnstreamError('TURN_DELETED', turn.facts.turnId))
  }

  /** Some turns of a thread as decided, including expired ones not swept yet; the ids of damaged ones. */
  #turnsOf(threadId: string, limit: number): (EmbeddedTurn | string)[] {
    const open = this.#turns.openTurn(threadId)
    const turns: (EmbeddedTurn | string)[] = open === undefined ? [] : [open]
    for (const { turnId, damage } of this.#turns.places(threadId)) {
      if (turns.length === limit) break
      // A damaged place is removed with the thread.
      if (damage !== undefined || turnId === open?.facts.turnId) continue
      const turn = this.#isDamaged(turnId) ? turnId : this.#turns.find(turnId)
      if (typeof turn === 'string' || turn?.facts.threadId === threadId) turns.push(turn)
    }
    return turns
  }

  async bytesKept(): Promise<number> {
    this.#store.checkOpen()
    return this.#store.bytesKept()
  }

  close(): Promise<void> {
    return this.#store.close()
  }

  /** For readers: unstored turns do not exist. */
  #shown(turnId: string): EmbeddedTurn {
    const turn = this.#turns.existing(turnId)
    if (turn.committed === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    return turn
  }
}
