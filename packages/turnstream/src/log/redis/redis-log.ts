import type { RedisClientOptions, RedisClusterOptions, RedisSentinelOptions } from '@redis/client'
import { type Clock, systemClock } from '@turnstream/core/internal/async/clock'
import type { StopSignal } from '@turnstream/core/internal/async/on-abort'
import type * as log from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import { checkTurn } from '../records.ts'
import { type LogSource, LogTail } from '../tail.ts'
import { Tenants } from '../tenants.ts'
import { ChangeNotifier } from './change-notifier.ts'
import { RedisClient } from './client.ts'
import { connect, type RedisConnection } from './connection.ts'
import { RedisKeyedRecords } from './keyed-records.ts'
import { FORMAT, RedisKeys, Retention } from './keys.ts'
import { storeError } from './replies.ts'
import { SharedReaders } from './shared-readers.ts'
import { checkNotExpired } from './turn-records.ts'
import { findOrphans, LeaseIndex, Turns } from './turns.ts'
import { AppendQueue, openWriter, type WriterStore } from './writer.ts'

/**
 * How to reach the server: a URL, or the options of `@redis/client`, passed on unchanged: TLS, users, sockets,
 * Sentinel, Cluster. Valkey works like Redis.
 */
export type RedisServer =
  | { readonly url?: string; readonly client?: undefined }
  | { readonly client: RedisClientOptions }
  | { readonly sentinel: RedisSentinelOptions }
  | { readonly cluster: RedisClusterOptions }

export type RedisLogOptions = RedisServer & {
  /** Prefix of all keys. `codex` by default. */
  readonly prefix?: string
  /** How long to store the logs of a turn after its end. One day by default. */
  readonly retentionMs?: number
  /** How long to retry a call while the server is unavailable, before STORE_UNAVAILABLE. 5 s by default. */
  readonly unavailableAfterMs?: number
  /**
   * How long a ping may be unanswered before the connection is replaced. 3 s by default. Calls in flight are retried on
   * the new connection.
   */
  readonly silentAfterMs?: number
  /** Callback for background failures: lost connections, and maintenance that will be retried. */
  readonly onError?: (error: unknown) => void
  readonly clock?: Clock
}

const DAY_MS = 24 * 60 * 60 * 1000
const UNAVAILABLE_AFTER_MS = 5000
/** Shorter than the call timeout, so that a call on a silent connection succeeds on the next one. */
const SILENT_AFTER_MS = 3000

/** The prefix precedes the hash tag of every key and must not contain one. */
const PREFIX = /^[^\s{}\p{Cc}\p{Cs}]{1,100}$/u

function checkOptions(options: RedisLogOptions) {
  const {
    prefix = 'codex',
    retentionMs = DAY_MS,
    unavailableAfterMs = UNAVAILABLE_AFTER_MS,
    silentAfterMs = SILENT_AFTER_MS,
  } = options
  if (!PREFIX.test(prefix)) {
    const detail = 'prefix must have 1 to 100 characters, without whitespace or braces'
    throw new TurnstreamError('OPTION_INVALID', detail)
  }
  for (const [name, ms] of Object.entries({ retentionMs, unavailableAfterMs, silentAfterMs })) {
    if (!Number.isSafeInteger(ms) || ms < 1) {
      throw new TurnstreamError('OPTION_INVALID', `${name} is ${ms}`)
    }
  }
  return { prefix, retentionMs, unavailableAfterMs, silentAfterMs }
}

/**
 * Opens a log in Redis 7.0 or newer, Valkey, or a Cluster of either. STORE_UNAVAILABLE if the server cannot be reached,
 * STORE_VERSION if a newer turnstream has written to it.
 */
export async function openRedisLog(options: RedisLogOptions = {}): Promise<log.TurnLog> {
  const checked = checkOptions(options)
  const { clock = systemClock } = options
  const onError = (error: unknown) => options.onError?.(storeError(error))
  let store: RedisStore | undefined
  const connection = await connect(options, {
    clock,
    limitMs: checked.unavailableAfterMs,
    silentAfterMs: checked.silentAfterMs,
    onError,
    onReady: () => store?.notifier.lookAgain(),
    // The next append of each turn checks that the previous record still exists.
    onLost: () => {
      for (const writer of store?.writers ?? []) writer.interrupted()
    },
  })
  store = createStore(connection, { ...checked, clock, onError })
  await checkFormat(store)
  return new RedisLog(store)
}

interface StoreOptions extends ReturnType<typeof checkOptions> {
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

type RedisStore = ReturnType<typeof createStore>

/** Shared by the logs of all tenants on a server. */
function createStore(connection: RedisConnection, options: StoreOptions) {
  const { prefix, retentionMs, unavailableAfterMs, clock, onError } = options
  const client = new RedisClient(connection, unavailableAfterMs, clock)
  const notifier = new ChangeNotifier(connection, clock, onError)
  const retention = new Retention(retentionMs)
  const readers = new SharedReaders({ client, notifier, onError })
  const writers: WriterStore['writers'] = new Set()
  let closed: Promise<void> | undefined
  const close = async () => {
    await Promise.allSettled([...writers].map((writer) => writer.flush()))
    readers.close()
    const calls = client.close()
    notifier.close()
    await calls
    await connection.close()
  }
  return {
    prefix,
    unavailableAfterMs,
    clock,
    onError,
    connection,
    client,
    notifier,
    retention,
    readers,
    writers,
    appends: new AppendQueue(client, connection),
    leases: new LeaseIndex(new RedisKeys(prefix).leases, client, retention),
    checkOpen: () => {
      if (closed !== undefined) throw new TurnstreamError('STORE_CLOSED', 'the log was closed')
    },
    close: () => {
      closed ??= close()
      return closed
    },
  }
}

/** Marks the keys with our format. STORE_VERSION for another format, after closing the connection. */
async function checkFormat({ prefix, client, retention, connection }: RedisStore): Promise<void> {
  const { format: key } = new RedisKeys(prefix)
  try {
    const found = await client.command('GET', key)
    if (typeof found === 'string' && Number(found) !== FORMAT) {
      const advice = 'run the version that wrote them, or use another prefix'
      const detail = `the keys have format ${found}, but this version reads format ${FORMAT}: ${advice}`
      throw new TurnstreamError('STORE_VERSION', detail)
    }
    // Stored as long as anything written now.
    const keepMs = String(retention.indexMs)
    await client.command('SET', key, String(FORMAT), 'PX', keepMs)
  } catch (error) {
    await connection.close()
    throw error
  }
}

class RedisLog implements log.TurnLog {
  readonly keyedRecords: RedisKeyedRecords
  readonly #store: RedisStore
  readonly #tenants: Tenants<RedisLog>
  readonly #keys: RedisKeys
  readonly #turns: Turns
  readonly #writerStore: WriterStore

  constructor(store: RedisStore, tenant = DEFAULT_TENANT, tenants?: Tenants<RedisLog>) {
    const { client, appends, clock, onError, checkOpen, writers } = store
    const keys = new RedisKeys(store.prefix, tenant)
    const turns = new Turns(keys, store)
    const settle = (turnId: string) => turns.settle(turnId)
    this.#store = store
    this.#tenants =
      tenants ?? new Tenants<RedisLog>(this, (name, all) => new RedisLog(store, name, all))
    this.#keys = keys
    this.#turns = turns
    this.keyedRecords = new RedisKeyedRecords({ ...store, keys, turns: turns.records })
    this.#writerStore = { keys, client, appends, clock, onError, settle, checkOpen, writers }
  }

  get retentionMs(): number {
    return this.#store.retention.logMs
  }

  ofTenant(tenant: string): log.TurnLog {
    this.#store.checkOpen()
    return this.#tenants.of(tenant)
  }

  async create(turn: log.NewTurn, leaseMs: number): Promise<log.Lease> {
    this.#store.client.checkOpen()
    checkTurn(turn)
    return this.#turns.create(turn, leaseMs)
  }

  claim(turnId: string, owner: string, leaseMs: number): Promise<log.Lease> {
    return this.#turns.claim(turnId, owner, leaseMs)
  }

  renew(lease: log.Lease, leaseMs: number): Promise<void> {
    return this.#turns.renew(lease, leaseMs)
  }

  open<Name extends log.LogName>(
    lease: log.Lease,
    name: Name,
    options?: log.WriterOptions<log.NewRecord<Name>>,
  ): log.LogWriter<log.NewRecord<Name>> {
    return openWriter(lease, name, this.#writerStore, options)
  }

  tail<Name extends log.LogName>(
    turnId: string,
    name: Name,
    after: string,
    signal: StopSignal,
  ): log.Tail<log.LogRecord<Name>> {
    const open = async () => {
      this.#store.checkOpen()
      const { readers } = this.#store
      const source: LogSource<log.LogRecord> =
        name === 'events'
          ? await readers.openEvents(turnId, this.#keys.run(await this.#runOf(turnId)))
          : await readers.openProcessed(turnId, this.#keys.turn(turnId))
      return source as LogSource<log.LogRecord<Name>>
    }
    return new LogTail(name, open, after, signal)
  }

  async #runOf(turnId: string): Promise<string> {
    const meta = await this.#turns.records.existing(turnId)
    checkNotExpired(turnId, meta)
    return meta.runId
  }

  async snapshot(turnId: string): Promise<log.TurnSnapshot> {
    this.#store.checkOpen()
    return this.#store.readers.snapshot(turnId, this.#keys.turn(turnId))
  }

  async getResponse(turnId: string): Promise<string | undefined> {
    this.#store.checkOpen()
    return this.#turns.records.response(turnId)
  }

  async expired(limit: number): Promise<string[]> {
    const orphans = await this.#findOrphans(limit, this.#keys.tenant)
    return orphans.map(({ turnId }) => turnId)
  }

  orphans(limit: number): Promise<log.Orphan[]> {
    return this.#findOrphans(limit)
  }

  #findOrphans(limit: number, tenant?: string): Promise<log.Orphan[]> {
    const turnsOf = (name: string) => this.#tenants.of(name).#turns
    return findOrphans(this.#store.leases, turnsOf, limit, tenant)
  }

  requestCancel(turnId: string, reason: string): Promise<boolean> {
    return this.#turns.requestCancel(turnId, reason)
  }

  async cancelled(lease: log.Lease, signal: AbortSignal): Promise<string> {
    this.#store.checkOpen()
    const { meta } = this.#keys.turn(lease.turnId)
    return this.#store.notifier.waitFor(meta, signal, () => this.#turns.cancelReason(lease))
  }

  getTurn(turnId: string): Promise<log.TurnRecord | undefined> {
    return this.#turns.records.get(turnId)
  }

  async getTurnOfRun(runId: string): Promise<log.TurnRecord | undefined> {
    const run = await this.#turns.records.events(runId)
    const turnId = run?.fields['turn']
    return turnId === undefined ? undefined : this.#turns.records.get(turnId)
  }

  listTurns(threadId: string, options?: log.TurnPageOptions): Promise<log.Page<log.ListedTurn>> {
    return this.#turns.threads.turns(threadId, options)
  }

  putThread(thread: log.NewThread, replaces?: log.ThreadRecord | null): Promise<log.ThreadRecord> {
    return this.#turns.threads.put(thread, replaces)
  }

  getThread(threadId: string): Promise<log.ThreadRecord | undefined> {
    return this.#turns.threads.get(threadId)
  }

  listThreads(options?: log.PageOptions): Promise<log.Page<log.ThreadRecord>> {
    return this.#turns.threads.list(options)
  }

  countThreads(): Promise<number> {
    return this.#turns.threads.count()
  }

  deleteTurn(turnId: string): Promise<boolean> {
    return this.#turns.remove(turnId)
  }

  deleteThread(threadId: string): Promise<boolean> {
    return this.#turns.threads.remove(threadId, (turnId) => this.#turns.remove(turnId))
  }

  /** Memory used on all masters, including other data. */
  async bytesKept(): Promise<number> {
    const { connection, checkOpen } = this.#store
    checkOpen()
    const infos = await connection.sendToAll(['INFO', 'memory']).catch((error: unknown) => {
      throw storeError(error)
    })
    const bytes = infos.map((info) =>
      Number(/used_memory_dataset:(\d+)/.exec(String(info))?.[1] ?? 0),
    )
    return bytes.reduce((sum, each) => sum + each, 0)
  }

  close(): Promise<void> {
    return this.#store.close()
  }
}
