import { createClient } from '@redis/client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas, eventsUpTo, outputsOf } from '../../../../conformance/src/turn-log/texts.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { RedisKeys } from '../../../src/log/redis/keys.ts'
import { OpenLogs, until } from './support.ts'

const LEASE_MS = 600_000

const server = await startRedis()
const redis = createClient({ url: server.url })
let logs: OpenLogs
let log: TurnLog

beforeAll(async () => {
  await redis.connect()
})

afterAll(async () => {
  redis.destroy()
  await server.stop()
})

beforeEach(async () => {
  await redis.flushAll()
  logs = new OpenLogs({ url: server.url }, { prefix: 'codex' })
  log = await logs.open()
})

afterEach(async () => {
  await logs.close()
})

const turn = { turnId: 'turn', threadId: 'thread', runId: 'run', owner: 'owner' }

async function keys(): Promise<string[]> {
  return (await redis.keys('*')).toSorted()
}

async function members(): Promise<string[]> {
  return (await redis.zRange('codex:leases', 0, -1)).toSorted()
}

/** How often the server was asked for each command. */
async function callsOf(): Promise<Map<string, number>> {
  const stats = await redis.info('commandstats')
  const rows = [...stats.matchAll(/^cmdstat_(\S+):calls=(\d+)/gm)]
  return new Map(rows.map(([, name = '', calls]) => [name, Number(calls)]))
}

describe('tenant keys in Redis', () => {
  test('L13 of another tenant contain its name, except shared keys', async () => {
    const acme = log.ofTenant('acme')
    const lease = await acme.create(turn, LEASE_MS)
    await appendTo(acme, lease, 'events', deltas('run', 1, 256))
    await appendTo(acme, lease, 'processed', outputsOf('turn', 'ab').slice(0, 3))
    expect(await keys()).toEqual([
      'codex:acme:run:{run}:chunks',
      'codex:acme:run:{run}:events',
      'codex:acme:run:{run}:meta',
      'codex:acme:run:{run}:state',
      'codex:acme:thread:{thread}',
      'codex:acme:thread:{thread}:turns',
      'codex:acme:threads',
      'codex:acme:turn:{turn}:items',
      'codex:acme:turn:{turn}:meta',
      'codex:acme:turn:{turn}:processed',
      'codex:acme:turn:{turn}:state',
      'codex:format',
      'codex:leases',
    ])
  })

  test('L9 L13 entries of processed have the same four fields in every tenant', async () => {
    for (const [tenant, prefix] of [
      ['default', 'codex'],
      ['acme', 'codex:acme'],
    ] as const) {
      const own = log.ofTenant(tenant)
      const lease = await own.create(turn, LEASE_MS)
      const output = { ...outputsOf('turn', 'a')[0], seq: 1, eventId: 'given', timestamp: 7 }
      await appendTo(own, lease, 'processed', [{ ...output, data: output.data ?? '' }])
      const [entry] = (await redis.xRange(`${prefix}:turn:{turn}:processed`, '-', '+')) ?? []
      const fields = { eventId: 'given', timestamp: '7', turnId: 'turn', payload: output.data }
      expect({ ...entry?.message }).toEqual(fields)
      expect(Object.keys(entry?.message ?? {})).toEqual(Object.keys(fields))
    }
  })

  test('L13 one index holds the open turns of all tenants', async () => {
    for (const tenant of ['default', 'acme', 'beta']) {
      await log.ofTenant(tenant).create(turn, LEASE_MS)
    }
    expect(await members()).toEqual(['acme turn', 'beta turn', 'turn'])
    await log.ofTenant('beta').deleteTurn('turn')
    expect(await members()).toEqual(['acme turn', 'turn'])
    const acme = log.ofTenant('acme')
    const lease = await acme.create({ ...turn, turnId: 'next', runId: 'next', threadId: 'b' }, 1)
    const claimed = await until(async () => (await acme.expired(5)).includes('next')).then(() =>
      acme.claim('next', 'heir', LEASE_MS),
    )
    expect(lease.epoch).toBe(1)
    await appendTo(acme, claimed, 'events', eventsUpTo('next', 2), { seal: true })
    await appendTo(acme, claimed, 'processed', outputsOf('next', 'a'), { seal: true })
    expect(await members()).toEqual(['acme turn', 'turn'])
  })

  test('L13 keys of different tenants never collide, whatever the ids', () => {
    const tenants = ['default', 'acme', 'run', 'turn', 'thread', 'threads', 'leases', 'format']
    const ids = ['a', 'run:{a', 'acme:run:{a}', '}:state', '{a}', ' a', '', '\ud800', 'a}:turns']
    const owners = new Map<string, string>()
    for (const tenant of tenants) {
      const own = new RedisKeys('codex', tenant)
      const named = ids.flatMap((id) => {
        const groups = [own.run(id), own.turn(id), own.thread(id)]
        return groups.flatMap((group) => Object.values(group as unknown as Record<string, string>))
      })
      for (const key of [...named, own.threads]) {
        expect(owners.get(key) ?? tenant, key).toBe(tenant)
        owners.set(key, tenant)
      }
      expect([own.leases, own.format]).toEqual(['codex:leases', 'codex:format'])
    }
    for (const shared of ['codex:leases', 'codex:format']) expect(owners.has(shared)).toBe(false)
  })
})

describe('orphans of tenants in Redis', () => {
  test('L13 are found with one command, however many tenants have open turns', async () => {
    const tenants = Array.from({ length: 50 }, (_, at) => `tenant-${at}`)
    await Promise.all(tenants.map((tenant) => log.ofTenant(tenant).create(turn, LEASE_MS)))
    // The first time the server has to be told the script.
    await log.orphans(1)
    const before = await callsOf()
    expect(await log.orphans(100)).toEqual([])
    const after = await callsOf()
    const sent = (name: string) => (after.get(name) ?? 0) - (before.get(name) ?? 0)
    expect(sent('evalsha') + sent('eval')).toBe(1)
    for (const name of ['keys', 'scan']) expect(sent(name)).toBe(0)
  })

  test('L13 of tenants that this process never used are found', async () => {
    await log.ofTenant('acme').create(turn, 1)
    const other = await logs.open()
    await until(async () => (await other.orphans(5)).length === 1)
    expect(await other.orphans(5)).toEqual([{ tenant: 'acme', turnId: 'turn' }])
    expect(await other.expired(5)).toEqual([])
    expect(await other.ofTenant('acme').expired(5)).toEqual(['turn'])
  })

  test('L13 of a tenant are found behind any number of others', async () => {
    const crowd = log.ofTenant('crowd')
    const ids = Array.from({ length: 250 }, (_, at) => `turn-${at}`)
    await Promise.all(
      ids.map((turnId) => crowd.create({ turnId, threadId: turnId, owner: 'owner' }, 1)),
    )
    await log.ofTenant('acme').create(turn, 1)
    await until(async () => (await log.orphans(300)).length === 251)
    expect(await log.ofTenant('acme').expired(1)).toEqual(['turn'])
    expect(await log.expired(1)).toEqual([])
    expect(await crowd.expired(300)).toHaveLength(250)
  })

  test('L13 with a malformed index entry are repaired, even if no version wrote it', async () => {
    const acme = log.ofTenant('acme')
    const lease = await acme.create(turn, LEASE_MS)
    await log.create(turn, LEASE_MS)
    // Not so long that the index would let go of them by itself.
    const ago = lease.until - LEASE_MS - 1000
    const wrong = ['acme gone', 'acme turn', 'gone', 'default turn', 'No tenant', ' turn', 'acme ']
    await redis.zAdd(
      'codex:leases',
      wrong.map((value, at) => ({ score: ago + at, value })),
    )
    for (const limit of [1, 2, 10]) expect(await log.orphans(limit)).toEqual([])
    expect(await members()).toEqual(['acme turn', 'turn'])
    expect(await redis.zScore('codex:leases', 'acme turn')).toBe(lease.until)
    // A turn whose owner died after its second seal.
    await appendTo(acme, lease, 'events', eventsUpTo('run', 2), { seal: true })
    await appendTo(acme, lease, 'processed', outputsOf('turn', 'a'), { seal: true })
    await redis.zAdd('codex:leases', { score: ago, value: 'acme turn' })
    expect(await log.orphans(1)).toEqual([])
    expect(await members()).toEqual(['turn'])
  })
})

test('L13 keys with a tenant prefix can be removed manually without other changes', async () => {
  const [acme, beta] = [log.ofTenant('acme'), log.ofTenant('beta')]
  for (const own of [log, acme, beta]) await own.create(turn, 1)
  const before = await beta.getTurn('turn')
  await until(async () => (await log.orphans(5)).length === 3)
  for await (const found of redis.scanIterator({ MATCH: 'codex:acme:*' })) {
    // A page of SCAN may be empty.
    if (found.length > 0) await redis.unlink(found)
  }
  expect((await keys()).filter((key) => key.startsWith('codex:acme'))).toEqual([])
  expect(await acme.getTurn('turn')).toBeUndefined()
  expect(await acme.listThreads()).toEqual({ items: [] })
  expect(await beta.getTurn('turn')).toEqual(before)
  const left = (await log.orphans(5)).map(({ tenant }) => tenant)
  expect(left.toSorted()).toEqual(['beta', 'default'])
  expect(await members()).toEqual(['beta turn', 'turn'])
  await acme.create(turn, LEASE_MS)
})
