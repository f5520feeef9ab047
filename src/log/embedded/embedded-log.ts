import { join } from 'node:path'
import { type Clock, monotonicNow, systemClock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { DEFAULT_TENANT } from '../../protocol/tenant.ts'
import { checkId, checkIds } from '../records.ts'
import {
  checkEpoch,
  claimed,
  firstState,
  leaseOf,
  renewed,
  TurnExistsError,
  turnGone,
} from '../rules.ts'
import { LogTail } from '../tail.ts'
import { Tenants } from '../tenants.ts'
import type * as log from '../turn-log.ts'
import type { TurnLog } from '../turn-log.ts'
import { migrate } from './compact.ts'
import { DATA_FILE, removeCopy, storeError } from './data-file.ts'
import { checkWritable, DirectoryGuard, makeDirectory, StoreFiles } from './directory.ts'
import { EmbeddedStore, recover } from './embedded-store.ts'
import type { EmbeddedThreads } from './embedded-threads.ts'
import { EmbeddedTurn, EmbeddedWriter } from './embedded-turn.ts'
import { Environment, type SyncPolicy } from './environment.ts'
import { GroupCommit, Journal } from './group-commit.ts'
import { AllTurns, type LoadedTurns, TurnRecords } from './loaded-turns.ts'
import { indexedThreads, threadsOf } from './removal.ts'
import { newFacts } from './stored-turn.ts'
import { Chunks } from './turn-events.ts'

/** So many turns of a thread are deleted in one commit. */
const TURNS_PER_COMMIT = 16

/**
 * Turns of one tenant in one directory of one process. What may be written is decided in memory, by the rules
 * that all backends share, and then stored by group commit; nobody sees or is told of anything before it is
 * stored.
 */
export class EmbeddedLog implements log.TurnLog {
  readonly #store: EmbeddedStore
  readonly #tenants: Tenants<EmbeddedLog>
  readonly #turns: LoadedTurns
  readonly #threads: EmbeddedThreads
  readonly #records: TurnRecords
  readonly #writerStore

  constructor(store: EmbeddedStore, tenant = DEFAULT_TENANT, tenants?: Tenants<EmbeddedLog>) {
    this.#store = store
    this.#tenants =
      tenants ?? new Tenants<EmbeddedLog>(this, (name, all) => new EmbeddedLog(store, name, all))
    this.#turns = store.turns.of(tenant)
    this.#records = new TurnRecords(store, this.#turns)
    this.#threads = threadsOf(store, this.#turns)
    this.#writerStore = {
      commits: store.commits,
      clock: store.clock,
      checkOpen: () => store.checkOpen(),
      release: (turn: EmbeddedTurn) => this.#turns.forgetIdle(turn),
    }
  }

  ofTenant(tenant: string): log.TurnLog {
    this.#store.checkOpen()
    return this.#tenants.of(tenant)
  }

  async create(turn: log.NewTurn, leaseMs: number): Promise<log.Lease> {
    this.#checkOpen()
    checkIds(turn)
    const { commits, env, clock } = this.#store
    const { turnId, threadId, runId = turnId, owner, request } = turn
    const { keys } = this.#turns
    this.#checkNew(turnId, runId)
    this.#turns.checkFree(threadId)
    const now = clock.now()
    const { ordinal, write } = this.#threads.addTurn(threadId, now)
    const number = this.#store.takeNumber()
    const names = { turnId, runId, threadId, owner, request }
    const facts = newFacts(names, { number, ordinal, createdAt: now })
    const added = EmbeddedTurn.create(facts, firstState(0), keys)
    added.until = monotonicNow(clock) + leaseMs
    this.#turns.add(added)
    if (runId !== turnId) commits.stage(env.tables.runs, keys.of(runId), turnId)
    await commits.store(added, {
      write: (writes) => {
        write(writes)
        const key = [keys.of(threadId), ordinal]
        writes.push({ table: env.tables.threadTurns, key, value: turnId })
      },
      undo: () => this.#turns.remove(added),
    })
    return leaseOf(added.ids, firstState(now + leaseMs))
  }

  #checkNew(turnId: string, runId: string): void {
    const existing = this.#decided(turnId) ?? this.#decided(this.#turnOfRun(runId) ?? '')
    if (existing === undefined) return
    throw new TurnExistsError(this.#records.recordOf(existing.decided))
  }

  /** Only where a run has another id than its turn is there an entry for it. */
  #turnOfRun(runId: string): string | undefined {
    const { commits, env } = this.#store
    const turnId = commits.get(env.tables.runs, this.#turns.keys.of(runId)) ?? runId
    return this.#decided(turnId)?.facts.runId === runId ? turnId : undefined
  }

  async claim(turnId: string, owner: string, leaseMs: number): Promise<log.Lease> {
    const turn = this.#turn(turnId)
    const { commits, clock } = this.#store
    const state = claimed(turn.state, turnId, monotonicNow(clock), leaseMs)
    const { until } = turn
    turn.decide({ owner }, state)
    turn.until = state.until
    const undo = () => {
      turn.until = until
    }
    await commits.store(turn, { undo })
    return leaseOf(turn.ids, state)
  }

  async renew(lease: log.Lease, leaseMs: number): Promise<void> {
    const turn = this.#leased(lease)
    // Once a turn has ended, only who held its lease last may know until when.
    const state = turn.isSealed ? { ...turn.state, until: lease.until } : turn.state
    const { until } = renewed(state, { lease, leaseMs, now: monotonicNow(this.#store.clock) })
    turn.until = until
    lease.until = until
  }

  open<Name extends log.LogName>(
    lease: log.Lease,
    name: Name,
    options?: log.WriterOptions<log.Entries[Name]>,
  ): log.LogWriter<log.Entries[Name]> {
    const turn = this.#decided(lease.turnId)
    const own = turn?.creation === lease.creation ? turn : undefined
    return new EmbeddedWriter(lease, name, own, this.#writerStore, options)
  }

  tail<Name extends log.LogName>(
    turnId: string,
    name: Name,
    after: string,
    signal: AbortSignal,
  ): log.Tail<log.Records[Name]> {
    return new LogTail(name, () => this.#source(turnId, name), after, signal)
  }

  #source<Name extends log.LogName>(turnId: string, name: Name) {
    const { chunks, env } = this.#store
    const turn = this.#shown(turnId)
    if (name === 'processed') turn.load(env.tables)
    return turn.source(name, chunks, this.#turns.hold(turn))
  }

  async snapshot(turnId: string): Promise<log.TurnSnapshot> {
    const turn = this.#shown(turnId)
    turn.load(this.#store.env.tables)
    return turn.snapshot()
  }

  async getResponse(turnId: string): Promise<string | undefined> {
    this.#checkOpen()
    return this.#records.response(turnId)
  }

  async expired(limit: number): Promise<string[]> {
    this.#checkOpen()
    return this.#turns.orphans(monotonicNow(this.#store.clock), limit)
  }

  async orphans(limit: number): Promise<log.Orphan[]> {
    this.#checkOpen()
    const { turns, clock } = this.#store
    return turns.orphans(monotonicNow(clock), limit)
  }

  async requestCancel(turnId: string, reason: string): Promise<boolean> {
    const turn = this.#turn(turnId)
    if (turn.state.logs.events.sealed) return false
    if (turn.facts.cancelReason === undefined) turn.decide({ cancelReason: reason })
    await this.#store.commits.store(turn)
    return true
  }

  async cancelled(lease: log.Lease, signal: AbortSignal): Promise<string> {
    const release = this.#turns.hold(this.#leased(lease))
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

  async putThread(
    thread: log.NewThread,
    replaces?: log.ThreadRecord | null,
  ): Promise<log.ThreadRecord> {
    this.#checkOpen()
    checkId('threadId', thread.threadId)
    return await this.#threads.put(thread, replaces)
  }

  async getThread(threadId: string): Promise<log.ThreadRecord | undefined> {
    this.#checkOpen()
    return this.#threads.get(threadId)
  }

  async listThreads(options: log.PageOptions = {}): Promise<log.Page<log.ThreadRecord>> {
    this.#checkOpen()
    return this.#threads.list(options)
  }

  /** The threads of all tenants, those changed last at the end of each tenant; also those whose record is damaged. */
  *allThreads(): Generator<{ readonly tenant: string; readonly threadId: string }> {
    this.#checkOpen()
    yield* indexedThreads(this.#store.env.tables.recency)
  }

  /** The ids of a thread's turns in order. For one whose id is damaged, the error. */
  *turnIds(threadId: string): Generator<string | TurnstreamError> {
    this.#checkOpen()
    yield* this.#records.readableIds(threadId)
  }

  async countThreads(): Promise<number> {
    this.#checkOpen()
    return this.#threads.count()
  }

  async deleteTurn(turnId: string): Promise<boolean> {
    this.#checkOpen()
    const turn = this.#decided(turnId)
    if (turn === undefined) return false
    await this.#remove(turn)
    return true
  }

  async deleteThread(threadId: string): Promise<boolean> {
    this.#checkOpen()
    const creation = this.#threads.creationOf(threadId)
    if (creation === undefined) return false
    // Others take their turn between two commits; the thread goes in one commit with its last turns, so that
    // a turn that is created meanwhile is deleted with it or makes a thread of its own.
    while (this.#threads.creationOf(threadId) === creation) {
      const turns = this.#turnsOf(threadId, TURNS_PER_COMMIT + 1)
      const isLast = turns.length <= TURNS_PER_COMMIT
      const removed = turns.slice(0, TURNS_PER_COMMIT).map((turn) => this.#remove(turn))
      await Promise.all(isLast ? [...removed, this.#threads.remove(threadId)] : removed)
    }
    return true
  }

  #remove(turn: EmbeddedTurn): Promise<void> {
    return this.#store.removal.remove(turn, new TurnstreamError('TURN_DELETED', turn.facts.turnId))
  }

  /** Some turns of a thread as decided, also those that only the sweeper has not come to yet. */
  #turnsOf(threadId: string, limit: number): EmbeddedTurn[] {
    const open = this.#turns.openOf(threadId)
    const turns = open === undefined ? [] : [open]
    for (const turnId of this.#records.idsOf(threadId)) {
      if (turns.length === limit) break
      const turn = this.#turns.find(turnId)
      if (turn !== undefined && turn.facts.turnId !== open?.facts.turnId) turns.push(turn)
    }
    return turns
  }

  async bytesKept(): Promise<number> {
    this.#checkOpen()
    return this.#store.bytesKept()
  }

  close(): Promise<void> {
    return this.#store.close()
  }

  #checkOpen(): void {
    this.#store.checkOpen()
  }

  /** The turn as decided, unless its time is over. */
  #decided(turnId: string): EmbeddedTurn | undefined {
    const turn = this.#turns.find(turnId)
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
  #leased(lease: log.Lease): EmbeddedTurn {
    this.#checkOpen()
    const turn = this.#decided(lease.turnId)
    if (turn?.creation === lease.creation) return turn
    throw turnGone(lease.turnId)
  }
}

export interface EmbeddedLogOptions {
  /** Where everything is kept; made if it is not there. One process at a time. */
  readonly directory: string
  /** How long the logs of a turn are kept after its end: seven days unless given. */
  readonly retentionMs?: number
  /** What an acknowledged record survives: `commit`, a power cut (the default); `system`, `kill -9`. */
  readonly sync?: SyncPolicy
  /** How far apart commits are under load, in real time: 30 ms unless given. */
  readonly commitIntervalMs?: number
  /** How often to sweep expired turns and threads: every minute unless given. */
  readonly sweepMs?: number
  /** Callback for failures of the sweep: records that cannot be read, a full disk. */
  readonly onError?: (error: unknown) => void
  /** What leases and retention are told by. */
  readonly clock?: Clock
}

const WEEK_MS = 7 * 24 * 60 * 60 * 1000
const MINUTE_MS = 60 * 1000
// A commit costs half a millisecond of CPU, and nobody who reads along notices twenty.
const COMMIT_INTERVAL_MS = 30

/**
 * Opens the log in a directory. STORE_LOCKED when another process has it, STORE_READ_ONLY when it cannot be
 * written, STORE_VERSION when a newer version wrote it. The leases of open turns count as run out: who held
 * them is gone.
 */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<TurnLog> {
  const { directory, sync = 'commit', commitIntervalMs = COMMIT_INTERVAL_MS } = options
  const { retentionMs = WEEK_MS, sweepMs = MINUTE_MS, clock = systemClock } = options
  const { onError = () => {} } = options
  if (directory === '') throw new TurnstreamError('OPTION_INVALID', 'directory is empty')
  await makeDirectory(directory)
  await checkWritable(directory)
  const guard = await DirectoryGuard.take(directory)
  try {
    await removeCopy(directory)
    await migrate(directory)
    const env = await Environment.open(join(directory, DATA_FILE), sync)
    const chunks = new Chunks(env.tables.chunks)
    const journal = new Journal(env.tables.journal)
    const files = new StoreFiles(directory)
    const commits = new GroupCommit({ env, files, journal, chunks, intervalMs: commitIntervalMs })
    const turns = new AllTurns(env, commits)
    await recover({ env, journal, chunks, turns })
    const release = () => guard.release()
    const parts = {
      env,
      files,
      chunks,
      journal,
      commits,
      turns,
      clock,
      retentionMs,
      sweepMs,
      onError,
      release,
    }
    return new EmbeddedLog(new EmbeddedStore(parts))
  } catch (error) {
    await guard.release()
    throw await storeError(error, directory)
  }
}
