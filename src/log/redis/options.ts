import type { RedisClientOptions, RedisClusterOptions, RedisSentinelOptions } from '@redis/client'
import type { Clock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'

/**
 * How the server is reached. Everything but a plain URL is said in the options of `@redis/client`, which
 * are passed on as they are: TLS, users, sockets, Sentinel, Cluster, and whatever they gain. Valkey is
 * reached like Redis.
 */
export type RedisServer =
  | { readonly url?: string; readonly client?: undefined }
  | { readonly client: RedisClientOptions }
  | { readonly sentinel: RedisSentinelOptions }
  | { readonly cluster: RedisClusterOptions }

export type RedisLogOptions = RedisServer & {
  /** What all keys begin with: `codex` unless given. */
  readonly prefix?: string
  /** How long the logs of a turn are kept after its end: a day unless given. */
  readonly retentionMs?: number
  /** For how long a call is repeated while the server is away: 5 s unless given. Then STORE_UNAVAILABLE. */
  readonly unavailableAfterMs?: number
  /**
   * How long a connection may leave a ping unanswered before it is replaced: 3 s by default. Calls in flight
   * are repeated on the new connection.
   */
  readonly silentAfterMs?: number
  /** Hears what goes wrong beside any call: lost connections, and upkeep that failed and will be repeated. */
  readonly onError?: (error: unknown) => void
  readonly clock?: Clock
}

const DAY_MS = 24 * 60 * 60 * 1000
const UNAVAILABLE_AFTER_MS = 5000
/** Shorter than the time of a call: a call on a silent connection succeeds on the next one. */
const SILENT_AFTER_MS = 3000

/** A prefix stands before the hash tag of every key and must not have one itself. */
const PREFIX = /^[^\s{}\p{Cc}\p{Cs}]{1,100}$/u

export function checkedOptions(options: RedisLogOptions) {
  const {
    prefix = 'codex',
    retentionMs = DAY_MS,
    unavailableAfterMs = UNAVAILABLE_AFTER_MS,
    silentAfterMs = SILENT_AFTER_MS,
  } = options
  if (!PREFIX.test(prefix)) {
    const detail = 'prefix must have 1 to 100 characters, without white space and braces'
    throw new TurnstreamError('OPTION_INVALID', detail)
  }
  for (const [name, ms] of Object.entries({ retentionMs, unavailableAfterMs, silentAfterMs })) {
    if (!Number.isSafeInteger(ms) || ms < 1) {
      throw new TurnstreamError('OPTION_INVALID', `${name} is ${ms}`)
    }
  }
  return { prefix, retentionMs, unavailableAfterMs, silentAfterMs }
}
