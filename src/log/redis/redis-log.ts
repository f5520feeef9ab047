import { type Clock, systemClock } from '../../async/clock.ts'
import { ERROR_CODES, TurnstreamError } from '../../protocol/errors.ts'
import { parseOffset } from '../offsets.ts'
import { checkIds, checkRecords } from '../records.ts'
import { LogTail } from '../tail.ts'
import type * as log from '../turn-log.ts'
import { Waiters } from '../waiters.ts'
import { Batches } from './batches.ts'
import { Calls } from './calls.ts'
import { connect, type RedisConnection } from './connection.ts'
import { storeError } from './failures.ts'
import { Feeds } from './feeds.ts'
import { checkFormat } from './format.ts'
import { Hints } from './hints.ts'
import { RedisKeys } from './keys.ts'
import { Lanes } from './lanes.ts'
import { checkedOptions, type RedisLogOptions } from './options.ts'
import { Retention } from './retention.ts'
import { Threads } from './threads.ts'
import { recordOf, TurnRecords } from './turn-records.ts'
import { Turns } from './turns.ts'

/**
 * Opens a log that is kept in Redis 7.0 or newer, in Valkey, or in a Cluster of either. Rejects with
 * STORE_UNAVAILABLE if there is none, and with STORE_VERSION if a newer turnstream has written to it.
 */
export async function openRedisLog(options: RedisLogOptions = {}): Promise<log.TurnLog> {
  const { prefix, retentionMs, unavailableAfterMs } = checkedOptions(options)
  const { clock = systemClock, onError = () => {} } = options
  let hints: Hints | undefined
  let opened: RedisLog | undefined
  const connection = await connect(options, {
    clock,
    limitMs: unavailableAfterMs,
    onError,
    onReady: () => hints?.lookAgain(),
    onLost: () => opened?.connectionLost(),
  })
  const calls = new Calls(connection, { unavailableAfterMs, clock })
  const keys = new RedisKeys(prefix)
  const retention = new Retention(retentionMs)
  try {
    await checkFormat(calls, keys.format, retention.threadMs)
  } catch (error) {
    await connection.close()
    throw error
  }
  hints = new Hints(connection, { clock, onError })
  opened = new RedisLog({ connection, calls, keys, hints, retention, clock, onError })
  return opened
}

interface Parts {
  readonly connection: RedisConnection
  readonly calls: Calls
  readonly keys: RedisKeys
  readonly hints: Hints
  readonly retention: Retention
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

class RedisLog implements log.TurnLog {
  readonly #connection: RedisConnection
  readonly #calls: Calls
  readonly #keys: RedisKeys
  readonly #hints: Hints
  readonly #onError: (error: unknown) => void
  readonly #records: TurnRecords
  readonly #threads: Threads
  readonly #turns: Turns
  readonly #lanes: Lanes
  readonly #feeds: Feeds
  #closed: Promise<void> | undefined

  constructor({ connection, calls, keys, hints, retention, clock, onError }: Parts) {
    this.#connection = connection
    this.#calls = calls
    this.#keys = keys
    this.#hints = hints
    this.#onError = onError
    this.#records = new TurnRecords(keys, calls)
    this.#threads = new Threads({ keys, calls, retention, records: this.#records })
    const turns = new Turns({
      keys,
      calls,
      retention,
      records: this.#records,
      threads: this.#threads,
    })
    this.#turns = turns
    const settle = (turnId: string) => turns.settle(turnId)
    const batches = new Batches(calls, connection)
    this.#lanes = new Lanes({ keys, calls, batches, clock, onError, settle })
    this.#feeds = new Feeds({ keys, calls, hints, onError })
  }

  /** The next append of each turn looks whether what came before it is still there. */
  connectionLost(): void {
    this.#lanes.interrupt()
  }

  async create(turn: log.NewTurn, leaseMs: number): Promise<log.Lease> {
    this.#calls.checkOpen()
    checkIds(turn)
    return this.#turns.create(turn, leaseMs)
  }

  async claim(turnId: string, owner: string, leaseMs: number): Promise<log.Lease> {
    return this.#turns.claim(turnId, owner, leaseMs)
  }

  async renew(lease: log.Lease, leaseMs: number): Promise<void> {
    return this.#turns.renew(lease, leaseMs)
  }

  append(
    lease: log.Lease,
    name: log.LogName,
    records: readonly log.NewRecord[],
    { seal = false }: { readonly seal?: boolean } = {},
  ): Promise<string> {
    try {
      this.#checkOpen()
      checkRecords(records, seal)
      return this.#lanes.of(lease, name).append(records, seal)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  tail(turnId: string, name: log.LogName, after: string, signal: AbortSignal): log.Tail {
    const open = async () => {
      this.#checkOpen()
      const runId = name === 'events' ? await this.#runOf(turnId) : turnId
      return this.#feeds.open({ turnId, runId }, name, parseOffset(after))
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

  async expired(limit: number): Promise<string[]> {
    return this.#turns.expired(limit)
  }

  async requestCancel(turnId: string, reason: string): Promise<boolean> {
    return this.#turns.requestCancel(turnId, reason)
  }

  async cancelled(lease: log.Lease, signal: AbortSignal): Promise<string> {
    this.#checkOpen()
    const waiters = new Waiters()
    const wake = () => waiters.wake()
    const { meta } = this.#keys.turn(lease.turnId)
    const unfollow = await this.#hints.follow(meta, wake, true)
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
      this.#onError(error)
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

  async putThread(thread: log.NewThread): Promise<log.ThreadRecord> {
    return this.#threads.put(thread)
  }

  async getThread(threadId: string): Promise<log.ThreadRecord | undefined> {
    return this.#threads.get(threadId)
  }

  async listThreads(options?: log.PageOptions): Promise<log.Page<log.ThreadRecord>> {
    return this.#threads.list(options)
  }

  async deleteTurn(turnId: string): Promise<boolean> {
    return this.#turns.remove(turnId)
  }

  async deleteThread(threadId: string): Promise<boolean> {
    for (const turnId of await this.#threads.turnIds(threadId)) await this.#turns.remove(turnId)
    return this.#threads.remove(threadId)
  }

  /** What the data takes in the memory of all masters, also what is not of this log. */
  async bytesKept(): Promise<number> {
    this.#checkOpen()
    const infos = await this.#connection.sendToAll(['INFO', 'memory']).catch((error: unknown) => {
      throw storeError(error)
    })
    const bytes = infos.map((info) =>
      Number(/used_memory_dataset:(\d+)/.exec(String(info))?.[1] ?? 0),
    )
    return bytes.reduce((sum, each) => sum + each, 0)
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    await this.#lanes.idle()
    this.#feeds.close()
    const calls = this.#calls.close()
    this.#hints.close()
    await calls
    await this.#connection.close()
  }

  #checkOpen(): void {
    if (this.#closed !== undefined) throw new TurnstreamError('STORE_CLOSED', 'the log was closed')
    this.#calls.checkOpen()
  }
}
