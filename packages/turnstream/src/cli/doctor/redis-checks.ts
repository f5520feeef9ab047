import { type Check, checkNamed, isAtLeast } from '@turnstream/conformance/internal/endpoint/check'
import {
  failureReason,
  LOOK_LIMIT_MS,
  tooLate,
} from '@turnstream/conformance/internal/endpoint/http'
import { type Clock, within } from '@turnstream/core/internal/async/clock'
import { FORMAT, RedisKeys } from '../../log/redis/keys.ts'
import { publicUrl, type StoreChoice } from '../serve/store.ts'
import { messageOf } from '../text.ts'
import type { ClockReading } from './machine-checks.ts'

const STORE = checkNamed('store')

type RedisFacts = Awaited<ReturnType<typeof readFacts>>
type Send = (...args: string[]) => Promise<unknown>

/** Checks a Redis and reads its clock, within the time limit of a check. Writes nothing. */
export async function checkRedis(
  { url, prefix }: Extract<StoreChoice, { kind: 'redis' }>,
  clock: Clock,
): Promise<{ checks: Check[]; time?: ClockReading }> {
  const { createClient } = await import('@redis/client')
  const socket = { reconnectStrategy: () => false as const, connectTimeout: LOOK_LIMIT_MS }
  const client = createClient({ url, socket, disableOfflineQueue: true })
  // The failing call reports the same error.
  client.on('error', () => {})
  const reading = client
    .connect()
    .then(() => readFacts((...args) => client.sendCommand(args), prefix, clock))
  try {
    const facts = await within(reading, LOOK_LIMIT_MS, clock, lateError)
    return { checks: redisChecks(facts, url), time: facts.time }
  } catch (error) {
    return { checks: [unreachableCheck(error, url)] }
  } finally {
    client.destroy()
  }
}

const lateError = () => new Error(tooLate(LOOK_LIMIT_MS).reason)

/** The fastest of several tells of the network, a single one also of what else the machine does. */
const ROUND_TRIPS = 5

async function readFacts(send: Send, prefix: string, clock: Clock) {
  const { format: formatKey } = new RedisKeys(prefix)
  let roundTripMs = Number.POSITIVE_INFINITY
  for (let count = 0; count < ROUND_TRIPS; count++) {
    const before = performance.now()
    await send('PING')
    roundTripMs = Math.min(roundTripMs, performance.now() - before)
  }
  const from = clock.now()
  const [seconds, micros] = (await send('TIME')) as [string, string]
  const theirs = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
  const time: ClockReading = { source: 'Redis', theirs, from, to: clock.now(), stepMs: 1 }
  const info = String(await send('INFO')).matchAll(/^(\w+):(.*?)\r?$/gm)
  const format = await send('GET', formatKey)
  return {
    info: new Map(Array.from(info, ([, name = '', value = '']) => [name, value])),
    roundTripMs,
    time,
    /** The format of the keys with this prefix; undefined when there are none. */
    format: typeof format === 'string' ? format : undefined,
    /** Why a write was refused; undefined when it was not. */
    refusal: await writeRefusal(send, formatKey),
  }
}

/** Puts a write into a transaction, where it is refused if it is not possible, and discards it. */
async function writeRefusal(send: Send, key: string): Promise<string | undefined> {
  try {
    await send('MULTI')
    await send('SET', key, '0')
    return undefined
  } catch (error) {
    return messageOf(error)
  } finally {
    await send('DISCARD').catch(() => {}) // the connection ends with the check, and what was queued with it
  }
}

function unreachableCheck(error: unknown, url: string): Check {
  const reason = failureReason(error)
  const found = `Redis at ${publicUrl(url)} is unusable: ${reason}`
  const { hostname, port } = new URL(url)
  const fix = /^(WRONGPASS|NOAUTH|NOPERM)|password|authenticat/i.test(reason)
    ? 'Set TURNSTREAM_STORE=redis://<user>:<password>@<host>:<port> with the right password, or TURNSTREAM_STORE_FILE'
    : `Start it, or correct --store; this should print PONG: redis-cli -h ${hostname} -p ${port || '6379'} ping`
  return STORE.fail(found, fix)
}

export function redisChecks(facts: RedisFacts, url: string): Check[] {
  const checks = [versionCheck, writesCheck, formatCheck, evictionCheck, persistenceCheck]
  return [latencyCheck(facts, url), ...checks.map((check) => check(facts))]
}

/** Every append and every reader waits for one round trip. */
const SLOW_MS = 20

function latencyCheck({ roundTripMs }: RedisFacts, url: string): Check {
  const found = `Redis at ${publicUrl(url)}, round trip ${roundTripMs.toFixed(1)} ms`
  if (roundTripMs <= SLOW_MS) return STORE.ok(found)
  return STORE.warn(found, 'Run turnstream closer to Redis; measure with: redis-cli --latency')
}

/** The first version with sharded pub/sub, which notifies readers. */
const LEAST_VERSION = [7, 0] as const

function versionCheck({ info }: RedisFacts): Check {
  const { ok, fail } = checkNamed('store version')
  const valkey = info.get('valkey_version')
  const version = info.get('redis_version') ?? ''
  const found = valkey === undefined ? `Redis ${version}` : `Valkey ${valkey}`
  if (isAtLeast(version, LEAST_VERSION)) return ok(found)
  return fail(found, 'Install Redis 7.0 or newer, or Valkey: apt install redis')
}

function writesCheck({ info, refusal }: RedisFacts): Check {
  const { ok, fail } = checkNamed('store writes')
  if (refusal === undefined) return ok('accepted')
  if (info.get('role') === 'slave') {
    const master = `${info.get('master_host') ?? '<host>'}:${info.get('master_port') ?? '<port>'}`
    const found = `this Redis is a read-only replica of ${master}`
    return fail(found, `Use the primary: --store redis://${master}`)
  }
  const fix = refusal.startsWith('OOM')
    ? 'Give it more memory: redis-cli config set maxmemory <bytes>'
    : 'Allow its user to write: redis-cli acl setuser <user> ~* &* +@all'
  return fail(refusal, fix)
}

function formatCheck({ format }: RedisFacts): Check {
  const { ok, fail } = checkNamed('store format')
  if (format === undefined) return ok('nothing written yet')
  if (Number(format) === FORMAT) return ok(format)
  const fix =
    'Run the version that wrote them (npm install -g turnstream@latest), or use another prefix with --store-prefix <word>'
  return fail(`the keys have format ${format}; this version reads ${FORMAT}`, fix)
}

function evictionCheck({ info }: RedisFacts): Check {
  const { ok, warn, fail } = checkNamed('store eviction')
  const policy = info.get('maxmemory_policy')
  const fix = 'redis-cli config set maxmemory-policy noeviction, and the same in redis.conf'
  if (policy === 'noeviction') return ok(policy)
  if (policy === undefined) return warn('the server does not report its policy', fix)
  const isBounded = (info.get('maxmemory') ?? '0') !== '0'
  if (isBounded) return fail(`${policy}: turns are evicted when memory is full`, fix)
  return warn(`${policy}: turns would be evicted once maxmemory is set`, fix)
}

function persistenceCheck({ info }: RedisFacts): Check {
  const { ok, warn } = checkNamed('store persistence')
  if (info.get('aof_enabled') === '1') return ok('append-only file')
  const fix = 'redis-cli config set appendonly yes, and the same in redis.conf'
  return warn('no append-only file: turns are lost if Redis crashes', fix)
}
