import { systemClock } from '../../async/clock.ts'
import { ERROR_CODES, TurnstreamError } from '../../protocol/errors.ts'
import { DEFAULT_TENANT } from '../../protocol/tenant.ts'
import { checkIds } from '../records.ts'
import { LogTail, Waiters } from '../tail.ts'
import { Tenants } from '../tenants.ts'
import type * as log from '../turn-log.ts'
import { connect } from './connection.ts'
import { storeError } from './failures.ts'
import { Feeds } from './feeds.ts'
import { RedisKeys } from './keys.ts'
import { checkedOptions, type RedisLogOptions } from './options.ts'
import { Orphans } from './orphans.ts'
import { RedisStore } from './redis-store.ts'
import { Threads } from './threads.ts'
import { recordOf, TurnRecords } from './turn-records.ts'
import { TurnRemoval } from './turn-removal.ts'
import { Turns } from './turns.ts'
import { openWriter, type WriterStore } from './writer.ts'

/**
 * Opens a log that is kept in Redis 7.0 or newer, in Valkey, or in a Cluster of either. Rejects with
 * STORE_UNAVAILABLE if there is none, and with STORE_VERSION if a newer turnstream has written to it.
 */
export async function openRedisLog(options: RedisLogOptions = {}): Promise<log.TurnLog> {
  const checked = checkedOptions(options)
  const { clock = systemClock } = options
  const onError = (error: unknown) => options.onError?.(storeError(error))
  let store: RedisStore | undefined
  let opened: RedisLog | undefined
  const connection = await connect(options, {
    clock,
    limitMs: checked.unavailableAfterMs,
    silentAfterMs: checked.silentAfterMs,
    onError,
    onReady: () => store?.hints.lookAgain(),
    onLost: () => opened?.connectionLost(),
  })
  store = new RedisStore(connection, { ...checked, clock, onError })
  await store.checkFormat()
  opened = new RedisLog(store)
  return opened
}

/** The log of one tenant. */
class RedisLog implements log.TurnLog {
  readonly #store: RedisStore
  readonly #tenants: Tenants<RedisLog>
  readonly #keys: RedisKeys
  readonly #records: TurnRecords
  readonly #threads: Threads
  readonly #turns: Turns
  readonly #removal: TurnRemoval
  readonly #orphans: Orphans
  readonly #writerStore: WriterStore
  readonly #feeds: Feeds

  constructor(store: RedisStore, tenant = DEFAULT_TENANT, tenants?: Tenants<RedisLog>) {
    const { calls, batches, hints, leases, retention, clock, onError } = store
    const keys = new RedisKeys(store.prefix, tenant)
    this.#store = store
    this.#keys = keys
    this.#tenants =
      tenants ?? new Tenants<RedisLog>(this, (name, all) => new RedisLog(store, name, all))
    const records = new TurnRecords(keys, calls)
    const threads = new Threads({ keys, calls, retention, records })
    const removal = new TurnRemoval({ keys, calls, leases, records, threads })
    const turns = new Turns({ keys, calls, leases, retention, records, threads, removal })
    this.#records = records
    this.#threads = threads
    this.#turns = turns
    this.#removal = removal
    this.#orphans = new Orphans(leases, (name) => this.#tenants.of(name).#turns)
    const settle = (turnId: string) => turns.settle(turnId)
    const checkOpen = () => store.checkOpen()
    const writers: WriterStore['writers'] = new Set()
    this.#writerStore = { keys, calls, batches, clock, onError, settle, checkOpen, writers }
    this.#feeds = new Feeds({ keys, calls, hints, onError })
  }

  ofTenant(tenant: string): log.TurnLog {
    this.#store.checkOpen()
    return this.#tenants.of(tenant)
  }

  /** The next append of each turn, of whichever tenant, looks whether what came before it is still there. */
  connectionLost(): void {
    for (const [, each] of this.#tenants.entries()) {
      for (const writer of each.#writerStore.writers) writer.interrupted()
    }
  }

  async create(turn: log.NewTurn, leaseMs: number): Promise<log.Lease> {
    this.#store.calls.checkOpen()
    checkIds(turn)
    return this.#turns.create(turn, leaseMs)
  }

  async claim(turnId: string, owner: string, leaseMs: number): Promise<log.Lease> {
    return this.#turns.claim(turnId, owner, leaseMs)
  }

  async renew(lease: log.Lease, leaseMs: number): Promise<void> {
    return this.#turns.renew(lease, leaseMs)
  }

  open<Name extends log.LogName>(
    lease: log.Lease,
    name: Name,
    options?: log.WriterOptions<log.Entries[Name]>,
  ): log.LogWriter<log.Entries[Name]> {
    return openWriter(lease, name, this.#writerStore, options)
  }

  tail<Name extends log.LogName>(
    turnId: string,
    name: Name,
    after: string,
    signal: AbortSignal,
  ): log.Tail<log.Records[Name]> {
    const open = async () => {
      this.#checkOpen()
      const runId = name === 'events' ? await this.#runOf(turnId) : turnId
      return this.#feeds.open({ turnId, runId }, name)
    }
    return new LogTail(name, open, after, signal)
  }

  async #runOf(turnId: string): Promise<string> {
    const meta = await this.#records.meta(turnId)
    if (meta === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    if (recordOf(turnId, meta).expired) throw new TurnstreamError('TURN_EXPIRED', turnId)
    return meta.runId
  }

  async snapshot(turnId: string): Promise<log.TurnSnapshot> {
    this.#checkOpen()
    return this.#feeds.snapshot(turnId)
  }

  async getResponse(turnId: string): Promise<string | undefined> {
    this.#checkOpen()
    return this.#records.response(turnId)
  }

  async expired(limit: number): Promise<string[]> {
    return this.#orphans.of(this.#keys.tenant, limit)
  }

  async orphans(limit: number): Promise<log.Orphan[]> {
    return this.#orphans.ofAll(limit)
  }

  async requestCancel(turnId: string, reason: string): Promise<boolean> {
    return this.#turns.requestCancel(turnId, reason)
  }

  async cancelled(lease: log.Lease, signal: AbortSignal): Promise<string> {
    this.#checkOpen()
    const waiters = new Waiters()
    const wake = () => waiters.wake()
    const { meta } = this.#keys.turn(lease.turnId)
    const unfollow = await this.#store.hints.follow(meta, wake, true)
    try {
      while (!signal.aborted) {
        this.#checkOpen()
        const changed = waiters.wait(signal)
        const reason = await this.#cancelReason(lease)
        if (reason !== undefined) return reason
        await changed
      }
    } finally {
      // So that nothing listens to the signal any more.
      wake()
      unfollow()
    }
    throw new TurnstreamError('ABORTED', 'nobody waits for a cancel any more')
  }

  /** A store that is away for a while is no reason to stop waiting. */
  async #cancelReason(lease: log.Lease): Promise<string | undefined> {
    try {
      return await this.#turns.cancelReason(lease)
    } catch (error) {
      const isPassing = error instanceof TurnstreamError && ERROR_CODES[error.code].retryable
      if (!isPassing) throw error
      this.#store.onError(error)
      return undefined
    }
  }

  async getTurn(turnId: string): Promise<log.TurnRecord | undefined> {
    return this.#records.get(turnId)
  }

  async getTurnOfRun(runId: string): Promise<log.TurnRecord | undefined> {
    const run = await this.#records.events(runId)
    const turnId = run?.fields['turn']
    return turnId === undefined ? undefined : this.#records.get(turnId)
  }

  async listTurns(
    threadId: string,
    options?: log.TurnPageOptions,
  ): Promise<log.Page<log.TurnRecord>> {
    return this.#threads.turns(threadId, options)
  }

  async putThread(
    thread: log.NewThread,
    replaces?: log.ThreadRecord | null,
  ): Promise<log.ThreadRecord> {
    return this.#threads.put(thread, replaces)
  }

  async getThread(threadId: string): Promise<log.ThreadRecord | undefined> {
    return this.#threads.get(threadId)
  }

  async listThreads(options?: log.PageOptions): Promise<log.Page<log.ThreadRecord>> {
    return this.#threads.list(options)
  }

  countThreads(): Promise<number> {
    return this.#threads.count()
  }

  async deleteTurn(turnId: string): Promise<boolean> {
    return this.#removal.remove(turnId)
  }

  async deleteThread(threadId: string): Promise<boolean> {
    return this.#threads.remove(threadId, (turnId) => this.#removal.remove(turnId))
  }

  bytesKept(): Promise<number> {
    return this.#store.bytesKept()
  }

  close(): Promise<void> {
    return this.#store.close(async () => {
      const all = [...this.#tenants.entries()].map(([, each]) => each)
      const writers = all.flatMap((each) => [...each.#writerStore.writers])
      await Promise.allSettled(writers.map((writer) => writer.flush()))
      for (const each of all) each.#feeds.close()
    })
  }

  #checkOpen(): void {
    this.#store.checkOpen()
  }
}
