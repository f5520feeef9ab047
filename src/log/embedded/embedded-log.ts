import type { Clock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { TurnExistsError } from '../errors.ts'
import { checkId, checkIds, checkRecords } from '../records.ts'
import { checkEpoch, claimed, firstState, leaseOf, renewed } from '../rules.ts'
import { LogTail } from '../tail.ts'
import type * as log from '../turn-log.ts'
import type { Chunks } from './chunks.ts'
import { EmbeddedThreads } from './embedded-threads.ts'
import { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import type { Journal } from './journal.ts'
import type { LoadedTurns } from './loaded-turns.ts'
import { Removal, Sweeper } from './removal.ts'
import { newFacts } from './stored-turn.ts'
import { TurnRecords } from './turn-records.ts'

const STORED = Promise.resolve()

/** What an embedded log is made of. */
export interface EmbeddedParts {
  readonly env: Environment
  readonly chunks: Chunks
  readonly journal: Journal
  readonly commits: GroupCommit
  readonly turns: LoadedTurns
  readonly clock: Clock
  readonly retentionMs: number
  readonly sweepMs: number
  /** Lets go of the directory. */
  readonly release: () => Promise<void>
}

/**
 * Turns in one directory of one process. What may be written is decided in memory, by the rules that all
 * backends share, and then stored by group commit; nobody sees or is told of anything before it is stored.
 */
export class EmbeddedLog implements log.TurnLog {
  readonly #parts: EmbeddedParts
  readonly #threads: EmbeddedThreads
  readonly #records: TurnRecords
  readonly #removal: Removal
  readonly #sweeper: Sweeper
  #closing: Promise<void> | undefined
  #nextNumber: number

  constructor(parts: EmbeddedParts) {
    const { env, commits, clock, retentionMs, sweepMs } = parts
    this.#parts = parts
    this.#threads = new EmbeddedThreads(env, commits)
    this.#records = new TurnRecords(parts)
    this.#removal = new Removal(parts)
    this.#nextNumber = Number(env.tables.store.get('nextNumber') ?? 1)
    const step = () => this.#removal.sweep(clock.now(), retentionMs)
    this.#sweeper = new Sweeper(step, clock, sweepMs)
  }

  async create(turn: log.NewTurn, leaseMs: number): Promise<log.Lease> {
    this.#checkOpen()
    checkIds(turn)
    const { commits, env, turns, clock } = this.#parts
    const { turnId, threadId, runId = turnId, owner, request } = turn
    this.#checkNew(turnId, runId)
    turns.checkFree(threadId)
    const now = clock.now()
    const { ordinal, write } = this.#threads.addTurn(threadId, now)
    const number = this.#nextNumber++
    const names = { turnId, runId, threadId, owner, request }
    const facts = newFacts(names, { number, ordinal, createdAt: now })
    const added = EmbeddedTurn.create(facts, firstState(0))
    added.until = now + leaseMs
    turns.add(added)
    if (runId !== turnId) commits.stage(env.tables.runs, runId, turnId)
    commits.stage(env.tables.store, 'nextNumber', String(this.#nextNumber))
    await commits.store(added, {
      write: (writes) => {
        write(writes)
        writes.push({ table: env.tables.threadTurns, key: [threadId, ordinal], value: turnId })
      },
      undo: () => turns.remove(added),
    })
    return leaseOf({ turnId, runId }, firstState(now + leaseMs))
  }

  #checkNew(turnId: string, runId: string): void {
    const existing = this.#decided(turnId) ?? this.#decided(this.#turnOfRun(runId) ?? '')
    if (existing === undefined) return
    throw new TurnExistsError(this.#records.recordOf(existing.decided))
  }

  /** Only where a run has another id than its turn is there an entry for it. */
  #turnOfRun(runId: string): string | undefined {
    const { commits, env } = this.#parts
    const turnId = commits.get(env.tables.runs, runId) ?? runId
    return this.#decided(turnId)?.facts.runId === runId ? turnId : undefined
  }

  async claim(turnId: string, owner: string, leaseMs: number): Promise<log.Lease> {
    const turn = this.#turn(turnId)
    const { commits, clock } = this.#parts
    const state = claimed(turn.state, turnId, clock.now(), leaseMs)
    const { until } = turn
    turn.decide({ owner }, state)
    turn.until = state.until
    const undo = () => {
      turn.until = until
    }
    await commits.store(turn, { undo })
    return leaseOf(turn.facts, state)
  }

  async renew(lease: log.Lease, leaseMs: number): Promise<void> {
    const turn = this.#leased(lease)
    const { until } = renewed(turn.state, { lease, leaseMs, now: this.#parts.clock.now() })
    turn.until = until
    lease.until = until
  }

  append(
    lease: log.Lease,
    name: log.LogName,
    records: readonly log.NewRecord[],
    options?: { readonly seal?: boolean },
  ): Promise<string> {
    try {
      const seal = options?.seal === true
      checkRecords(records, seal)
      const { commits, clock, turns } = this.#parts
      const turn = this.#leased(lease)
      const { offset, isStored } = turn.append({ lease, log: name, records, seal }, clock.now())
      const stored = isStored ? STORED : commits.store(turn)
      // One promise instead of an `async` function's several: this runs once per token.
      return stored.then(() => {
        if (seal) turns.forgetIdle(turn)
        return offset
      })
    } catch (error) {
      return Promise.reject(error)
    }
  }

  tail(turnId: string, name: log.LogName, after: string, signal: AbortSignal): log.Tail {
    return new LogTail(name, () => this.#source(turnId, name), after, signal)
  }

  #source(turnId: string, name: log.LogName) {
    const { turns, chunks, env } = this.#parts
    const turn = this.#shown(turnId)
    if (name === 'processed') turn.load(env.tables)
    return turn.source(name, chunks, turns.hold(turn))
  }

  async snapshot(turnId: string): Promise<log.TurnSnapshot> {
    const turn = this.#shown(turnId)
    turn.load(this.#parts.env.tables)
    return turn.snapshot()
  }

  async expired(limit: number): Promise<string[]> {
    this.#checkOpen()
    return this.#parts.turns.orphans(this.#parts.clock.now(), limit)
  }

  async requestCancel(turnId: string, reason: string): Promise<boolean> {
    const turn = this.#turn(turnId)
    if (turn.state.logs.events.sealed) return false
    if (turn.facts.cancelReason === undefined) turn.decide({ cancelReason: reason })
    await this.#parts.commits.store(turn)
    return true
  }

  async cancelled(lease: log.Lease, signal: AbortSignal): Promise<string> {
    const release = this.#parts.turns.hold(this.#leased(lease))
    try {
      while (!signal.aborted) {
        const turn = this.#leased(lease)
        checkEpoch(turn.state, lease)
        const reason = turn.committed?.cancelReason
        if (reason !== undefined) return reason
        await turn.ownership.wait(signal)
      }
    } finally {
      release()
    }
    throw new TurnstreamError('ABORTED', 'nobody waits for a cancel any more')
  }

  async getTurn(turnId: string): Promise<log.TurnRecord | undefined> {
    this.#checkOpen()
    return this.#records.get(turnId)
  }

  async getTurnOfRun(runId: string): Promise<log.TurnRecord | undefined> {
    this.#checkOpen()
    return this.#records.ofRun(runId)
  }

  async listTurns(
    threadId: string,
    options: log.TurnPageOptions = {},
  ): Promise<log.Page<log.TurnRecord>> {
    this.#checkOpen()
    return this.#records.list(threadId, options)
  }

  async putThread(thread: log.NewThread): Promise<log.ThreadRecord> {
    this.#checkOpen()
    checkId('threadId', thread.threadId)
    return await this.#threads.put(thread, this.#parts.clock.now())
  }

  async getThread(threadId: string): Promise<log.ThreadRecord | undefined> {
    this.#checkOpen()
    return this.#threads.get(threadId)
  }

  async listThreads(options: log.PageOptions = {}): Promise<log.Page<log.ThreadRecord>> {
    this.#checkOpen()
    return this.#threads.list(options)
  }

  async deleteTurn(turnId: string): Promise<boolean> {
    this.#checkOpen()
    const turn = this.#decided(turnId)
    if (turn === undefined) return false
    await this.#removal.remove(turn, new TurnstreamError('TURN_DELETED', turnId))
    return true
  }

  async deleteThread(threadId: string): Promise<boolean> {
    this.#checkOpen()
    if (!this.#threads.exists(threadId)) return false
    const open = this.#parts.turns.openOf(threadId)
    if (open !== undefined) await this.deleteTurn(open.facts.turnId)
    for (const turnId of this.#records.idsOf(threadId)) {
      await this.deleteTurn(turnId)
    }
    return await this.#threads.remove(threadId)
  }

  async bytesKept(): Promise<number> {
    this.#checkOpen()
    const { env, journal } = this.#parts
    return env.bytesUsed() + journal.bytesNeeded()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const { commits, turns, env, release } = this.#parts
    await this.#sweeper.stop()
    await commits.idle()
    for (const turn of turns.values()) {
      turn.end(new TurnstreamError('STORE_CLOSED', 'the log was closed'))
    }
    await env.close()
    await release()
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) {
      throw new TurnstreamError('STORE_CLOSED', 'the log was closed')
    }
  }

  /** The turn as decided, unless its time is over. */
  #decided(turnId: string): EmbeddedTurn | undefined {
    const turn = this.#parts.turns.find(turnId)
    if (turn?.isSealed !== true) return turn
    return this.#records.remains(turn.decided) === 'nothing' ? undefined : turn
  }

  #turn(turnId: string): EmbeddedTurn {
    this.#checkOpen()
    const turn = this.#decided(turnId)
    if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    if (this.#records.remains(turn.decided) === 'record')
      throw new TurnstreamError('TURN_EXPIRED', turnId)
    return turn
  }

  /** For readers: what is not stored yet does not exist. */
  #shown(turnId: string): EmbeddedTurn {
    const turn = this.#turn(turnId)
    if (turn.committed === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    return turn
  }

  /** For the owner, a turn that is gone is a lease that is lost. */
  #leased({ turnId }: log.Lease): EmbeddedTurn {
    this.#checkOpen()
    const turn = this.#decided(turnId)
    if (turn === undefined) throw new TurnstreamError('LEASE_LOST', `turn ${turnId} is gone`)
    return turn
  }
}
