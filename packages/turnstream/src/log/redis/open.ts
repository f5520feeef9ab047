import type { RedisClientOptions, RedisClusterOptions, RedisSentinelOptions } from '@redis/client'
import { type Clock, systemClock } from '@turnstream/core/internal/async/clock'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import { storeClosed } from '../rules.ts'
import { ChangeNotifier } from './change-notifier.ts'
import { RedisClient } from './client.ts'
import { connect, type RedisConnection } from './connection.ts'
import { createRetention, FORMAT, RedisKeys } from './keys.ts'
import { createLeaseIndex } from './leases.ts'
import { RedisLog } from './redis-log.ts'
import { storeError } from './replies.ts'
import { SharedReaders } from './shared-readers.ts'
import { AppendQueue } from './writer.ts'

/** How to reach the server: a URL, or the options of `@redis/client`, passed on unchanged. */
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
  /** How long a ping may be unanswered before the connection is replaced and calls are retried. 3 s by default. */
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
export async function openRedisLog(options: RedisLogOptions = {}): Promise<TurnLog> {
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
  return new RedisLog(store, DEFAULT_TENANT)
}

interface StoreOptions extends ReturnType<typeof checkOptions> {
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

export type RedisStore = ReturnType<typeof createStore>

/** Shared by the logs of all tenants on a server. */
function createStore(connection: RedisConnection, options: StoreOptions) {
  const { prefix, retentionMs, unavailableAfterMs, clock, onError } = options
  const client = new RedisClient(connection, unavailableAfterMs, clock)
  const notifier = new ChangeNotifier(connection, clock, onError)
  const retention = createRetention(retentionMs)
  const readers = new SharedReaders({ client, notifier, onError })
  const writers = new Set<{ interrupted(): void; flush(): Promise<void> }>()
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
    leases: createLeaseIndex(new RedisKeys(prefix).leases, client, retention),
    checkOpen: () => {
      if (closed !== undefined) throw storeClosed()
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
