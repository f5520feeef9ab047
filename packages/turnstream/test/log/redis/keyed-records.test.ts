import { createClient } from '@redis/client'
import { afterEach, describe, expect, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { seededRandom } from '../../../../core/test/formats/random.ts'
import { answerApproval } from '../../../src/turns/approvals.ts'
import { Proxy } from './proxy.ts'
import { OpenLogs } from './support.ts'

const TTL_MS = 100_000
const UNAVAILABLE_MS = 20_000

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

async function start() {
  const server = await startRedis()
  ends.push(() => server.stop())
  const redis = createClient({ url: server.url })
  await redis.connect()
  ends.push(() => redis.destroy())
  return { server, redis }
}

function logsOn(url: string): OpenLogs {
  const logs = new OpenLogs({ url }, { prefix: 'codex', unavailableAfterMs: UNAVAILABLE_MS })
  ends.push(() => logs.close())
  return logs
}

describe('keyed records in Redis', () => {
  test('are a list with a hash tag and the longest time to live of its values', async () => {
    const { server, redis } = await start()
    const log = await logsOn(server.url).open()
    await log.keyedRecords.add('key', 'value', TTL_MS)
    await log.keyedRecords.add('key', 'brief', 1000)
    await log.ofTenant('acme').keyedRecords.add('key', 'theirs', TTL_MS)
    expect(await redis.lLen('codex:note:{key}')).toBe(2)
    for (const name of ['codex:note:{key}', 'codex:acme:note:{key}']) {
      expect(await redis.pTTL(name)).toBeGreaterThan(TTL_MS - 10_000)
    }
    for (const name of await redis.keys('*')) expect(await redis.pTTL(name)).toBeGreaterThan(0)
    await log.keyedRecords.consume('key')
    expect(await redis.pTTL('codex:note:{key}')).toBeGreaterThan(TTL_MS - 10_000)
    await log.keyedRecords.consume('key')
    expect(await redis.exists('codex:note:{key}')).toBe(0)
    const calls = await redis.keys('codex:note:{key}:call:*')
    expect(calls).toHaveLength(4)
    for (const name of calls) {
      expect(await redis.pTTL(name)).toBeLessThanOrEqual(2 * UNAVAILABLE_MS)
    }
  })

  test('are added and consumed once when connections are cut and calls retried', async () => {
    const { server } = await start()
    const proxy = await Proxy.start(server)
    ends.push(() => proxy.stop())
    const log = await logsOn(proxy.url).open()
    const random = seededRandom(3)
    proxy.cutEvery(() => 600 + Math.floor(random() * 1500))
    const consumed = []
    for (let at = 0; at < 60; at++) {
      await log.keyedRecords.add('key', `value-${at}`, TTL_MS)
      consumed.push(await log.keyedRecords.consume('key'))
    }
    expect(proxy.cuts).toBeGreaterThan(3)
    expect(consumed).toEqual(consumed.map((_, at) => `value-${at}`))
    expect(await log.keyedRecords.consume('key')).toBeUndefined()
  })

  test('of a turn are the answers to approvals that an earlier version stores', async () => {
    const { server, redis } = await start()
    const log = await logsOn(server.url).open()
    const lease = await log.create({ turnId: 't', threadId: 'thread', owner: 'owner' }, TTL_MS)
    const waiting = log.keyedRecords.watch(lease, 'approval-1', AbortSignal.timeout(10_000))
    const answer = { approved: false, reason: 'no', by: 'ops', at: 7 }
    const stored = JSON.stringify({ ...answer, nonce: 'a-nonce' })
    await redis.hSet('codex:turn:{t}:approvals', 'approval-1', stored)
    expect(await waiting).toBe(stored)
    const late = await answerApproval(log, 't', 'approval-1', { approved: true, at: 8 })
    expect(late).toEqual({ stored: false, answer })
    // What the earlier version reads.
    await answerApproval(log, 't', 'approval-2', answer)
    const found = await redis.hGet('codex:turn:{t}:approvals', 'approval-2')
    expect(JSON.parse(found ?? '')).toEqual(answer)
    for (const name of await redis.keys('*')) expect(await redis.pTTL(name)).toBeGreaterThan(0)
  })
})
