import { FORMAT } from '../../log/redis/format.ts'
import { publicUrl } from '../serve/store.ts'
import { type Check, fail, ok, warn } from './check.ts'
import { reasonOf } from './http-look.ts'
import type { RedisFacts } from './redis-facts.ts'

/** Sharded channels, on which readers hear of news, came with it. */
const LEAST_VERSION = [7, 0] as const

/** Each append waits for one round trip, and so does every reader. */
const SLOW_MS = 20

/** What is wrong with a Redis, and with how it is set up. */
export function redisChecks(facts: RedisFacts, url: string): Check[] {
  return [
    reachedCheck(facts, url),
    versionCheck(facts),
    writesCheck(facts),
    formatCheck(facts),
    evictionCheck(facts),
    persistenceCheck(facts),
  ]
}

function reachedCheck({ roundTripMs }: RedisFacts, url: string): Check {
  const found = `Redis at ${publicUrl(url)}, round trip ${roundTripMs.toFixed(1)} ms`
  if (roundTripMs <= SLOW_MS) return ok('store', found)
  return warn(
    'store',
    found,
    'Run turnstream nearer to its Redis; measure with: redis-cli --latency',
  )
}

/** Why nothing could be asked. */
export function unreachedCheck(error: unknown, url: string): Check {
  const reason = reasonOf(error)
  const found = `Redis at ${publicUrl(url)} cannot be used: ${reason}`
  const isRefused = /^(WRONGPASS|NOAUTH|NOPERM)|password|authenticat/i.test(reason)
  if (isRefused) {
    return fail(
      'store',
      found,
      'Set TURNSTREAM_STORE=redis://<user>:<password>@<host>:<port> to the right password, or name a file with TURNSTREAM_STORE_FILE',
    )
  }
  const { hostname, port } = new URL(url)
  return fail(
    'store',
    found,
    `Start it, or correct --store; this should say PONG: redis-cli -h ${hostname} -p ${port || '6379'} ping`,
  )
}

function versionCheck({ info }: RedisFacts): Check {
  const name = 'store version'
  const valkey = info.get('valkey_version')
  const version = info.get('redis_version') ?? ''
  const found = valkey === undefined ? `Redis ${version}` : `Valkey ${valkey}`
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [leastMajor, leastMinor] = LEAST_VERSION
  const isEnough = major > leastMajor || (major === leastMajor && minor >= leastMinor)
  if (isEnough) return ok(name, found)
  return fail(name, found, 'Install Redis 7.0 or newer, or Valkey; the package: apt install redis')
}

function writesCheck({ info, refusal }: RedisFacts): Check {
  const name = 'store writes'
  if (refusal === undefined) return ok(name, 'accepted')
  const master = `${info.get('master_host') ?? '<host>'}:${info.get('master_port') ?? '<port>'}`
  if (info.get('role') === 'slave') {
    return fail(
      name,
      `this Redis is a replica of ${master}, and refuses writes`,
      `Use the one that it follows: --store redis://${master}`,
    )
  }
  if (refusal.startsWith('OOM')) {
    return fail(name, refusal, 'Give it more memory: redis-cli config set maxmemory <bytes>')
  }
  return fail(
    name,
    refusal,
    'Let its user write these keys: redis-cli acl setuser <user> ~* &* +@all',
  )
}

function formatCheck({ format }: RedisFacts): Check {
  const name = 'store format'
  if (format === undefined) return ok(name, 'nothing written yet')
  if (Number(format) === FORMAT) return ok(name, format)
  return fail(
    name,
    `the keys have format ${format}, and this version reads ${FORMAT}`,
    'Run the version that wrote them (npm install -g turnstream@latest), or use keys of your own with --store-prefix <word>',
  )
}

function evictionCheck({ info }: RedisFacts): Check {
  const name = 'store eviction'
  const policy = info.get('maxmemory_policy') ?? 'not told'
  const fix = 'redis-cli config set maxmemory-policy noeviction, and the same in redis.conf'
  if (policy === 'noeviction') return ok(name, policy)
  if (policy === 'not told') return warn(name, 'the server does not say its policy', fix)
  const isBounded = (info.get('maxmemory') ?? '0') !== '0'
  if (isBounded) return fail(name, `${policy}: turns are dropped when memory is full`, fix)
  return warn(name, `${policy}: turns would be dropped as soon as maxmemory is set`, fix)
}

function persistenceCheck({ info }: RedisFacts): Check {
  const name = 'store persistence'
  if (info.get('aof_enabled') === '1') return ok(name, 'append only file')
  return warn(
    name,
    'no append only file: turns are gone when this Redis dies',
    'redis-cli config set appendonly yes, and the same in redis.conf',
  )
}
