import { createClient } from '@redis/client'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import {
  deltas,
  eventsUpTo,
  message,
  outputsOf,
} from '../../../../conformance/src/turn-log/texts.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { endOrphan } from '../../../src/server.ts'
import { OpenLogs, until } from './support.ts'

const LEASE_MS = 600_000
const RETENTION_MS = 1_000_000

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

async function open(): Promise<void> {
  await redis.flushAll()
  logs = new OpenLogs({ url: server.url }, { prefix: 'codex', retentionMs: RETENTION_MS })
  log = await logs.open()
}

afterEach(async () => {
  await logs.close()
})

/** All keys with what is left of their time. */
async function timesToLive(): Promise<Record<string, number>> {
  const times: Record<string, number> = {}
  for (const key of (await redis.keys('*')).toSorted()) times[key] = await redis.pTTL(key)
  return times
}

async function entries(key: string): Promise<[string, Record<string, string>][]> {
  const found = await redis.xRange(key, '-', '+')
  return (found ?? []).map(({ id, message: fields }) => [id, { ...fields }])
}

describe('the keys in Redis', () => {
  test('L9 events and processed are streams under the names of run and turn', async () => {
    await open()
    const ids = { turnId: 'turn', threadId: 'thread', runId: 'run', owner: 'owner' }
    const lease = await log.create(ids, LEASE_MS)
    await appendTo(log, lease, 'events', deltas('run', 1, 2))
    await appendTo(log, lease, 'processed', outputsOf('turn', 'ab').slice(0, 3))
    expect(await redis.type('codex:run:{run}:events')).toBe('stream')
    expect(await redis.type('codex:turn:{turn}:processed')).toBe('stream')
    expect(Object.keys(await timesToLive())).toEqual([
      'codex:format',
      'codex:leases',
      'codex:run:{run}:events',
      'codex:run:{run}:meta',
      'codex:run:{run}:state',
      'codex:thread:{thread}',
      'codex:thread:{thread}:turns',
      'codex:threads',
      'codex:turn:{turn}:items',
      'codex:turn:{turn}:meta',
      'codex:turn:{turn}:processed',
      'codex:turn:{turn}:state',
    ])
  })

  test('L1 threads of the same time are paged in byte order', async () => {
    await open()
    // In UTF-16 the last two are the other way round.
    const threadIds = ['a', '\uff5e', '\u{1f600}']
    for (const threadId of threadIds) await log.putThread({ threadId })
    const members = threadIds.map((value) => ({ value, score: 1000 }))
    await redis.zAdd('codex:threads', members)
    const found: string[] = []
    let cursor: string | undefined
    do {
      const page = await log.listThreads({ limit: 1, ...(cursor !== undefined && { cursor }) })
      found.push(...page.items.map(({ threadId }) => threadId))
      cursor = page.nextCursor
    } while (cursor !== undefined)
    expect(found).toEqual(threadIds.toReversed())
  })

  test('L9 entries of processed have four fields and the offset as id, and no older ones stay', async () => {
    await open()
    const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'owner' }, LEASE_MS)
    const outputs = outputsOf('turn', 'aba')
    const given = { eventId: 'given', timestamp: 7 }
    for (const output of outputs) {
      const seal = output.seq === outputs.length
      await appendTo(log, lease, 'processed', [{ ...output, ...given }], { seal })
    }
    const found = await entries('codex:turn:{turn}:processed')
    expect(found.map(([id]) => id)).toEqual(['1-1', '1-3', '1-4', '1-5'])
    for (const [index, seq] of [1, 3, 4, 5].entries()) {
      const payload = outputs[seq - 1]?.data
      const fields = { eventId: 'given', timestamp: '7', turnId: 'turn', payload }
      expect(found[index]?.[1]).toEqual(fields)
      expect(Object.keys(found[index]?.[1] ?? {})).toEqual(Object.keys(fields))
    }
  })

  test('L10 the seal of a log starts the limit of its content, whatever follows', async () => {
    await open()
    const contentMs = 60_000
    const turn = { turnId: 'turn', threadId: 'thread', owner: 'owner', contentMs }
    const lease = await log.create(turn, LEASE_MS)
    const content = [
      'codex:run:{turn}:events',
      'codex:run:{turn}:response',
      'codex:turn:{turn}:items',
      'codex:turn:{turn}:processed',
    ]
    const brief = async () =>
      Object.entries(await timesToLive()).flatMap(([key, ms]) => (ms <= contentMs ? key : []))
    await appendTo(log, lease, 'events', eventsUpTo('turn', 300), { seal: true, response: '{}' })
    expect(await brief()).toEqual(content.slice(0, 2))
    // As if the process died between the seal and the rest: what settles the turn fails.
    await redis.rename('codex:run:{turn}:meta', 'aside')
    await appendTo(log, lease, 'processed', outputsOf('turn', 'ab'), { seal: true })
    expect(await brief()).toEqual(content)
    await redis.rename('aside', 'codex:run:{turn}:meta')
    await log.keyedRecords.addOnce('turn', 'one', 'value')
    expect(await log.orphans(10)).toEqual([])
    expect(await brief()).toEqual(content)
    expect(await log.getTurn('turn')).toMatchObject({ sealed: true, expired: false, contentMs })
    await redis.del(content)
    expect(await log.getTurn('turn')).toMatchObject({ sealed: true, expired: true, contentMs })
  })

  test('L10 a turn whose events expired before its snapshots were sealed is ended', async () => {
    await open()
    const turn = { turnId: 'turn', threadId: 'thread', owner: 'owner', contentMs: 60_000 }
    const lease = await log.create(turn, 1)
    await appendTo(log, lease, 'events', eventsUpTo('turn', 300), { seal: true, response: '{}' })
    await appendTo(log, lease, 'processed', outputsOf('turn', 'ab').slice(0, 2))
    await redis.del(['codex:run:{turn}:events', 'codex:run:{turn}:response'])
    await until(async () => (await log.orphans(1)).length === 1)
    expect(await endOrphan(log, 'turn', { owner: 'heir', leaseMs: LEASE_MS })).toBe('ended')
    expect(await log.getTurn('turn')).toMatchObject({ sealed: true, expired: true })
    expect(await redis.pTTL('codex:turn:{turn}:processed')).toBeLessThanOrEqual(60_000)
    await log.create({ turnId: 'next', threadId: 'thread', owner: 'owner' }, LEASE_MS)
  })

  test('L7 one record per append becomes chunks of 256, and at the seal few entries, with the ids of their last records', async () => {
    await open()
    const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'owner' }, LEASE_MS)
    const records = eventsUpTo('turn', 600)
    const ids = async (key: string) => (await entries(key)).map(([id]) => id)
    for (const record of records) {
      await appendTo(log, lease, 'events', [record], { seal: record.seq === 600 })
      if (record.seq !== 520) continue
      expect(await ids('codex:run:{turn}:chunks')).toEqual(['1-256', '1-512'])
      expect(await ids('codex:run:{turn}:events')).toEqual(
        [513, 514, 515, 516, 517, 518, 519, 520].map((seq) => `1-${seq}`),
      )
    }
    const found = await entries('codex:run:{turn}:events')
    expect(found.map(([id]) => id)).toEqual(['1-600'])
    expect(found.map(([, fields]) => Object.keys(fields))).toEqual([['lines']])
    expect(found.map(([, fields]) => fields['lines']?.split('\n').length)).toEqual([600])
    expect(await redis.exists('codex:run:{turn}:chunks')).toBe(0)
  })

  test('L7 an entry of a sealed log stays below 16 KiB, unless a single chunk is larger', async () => {
    await open()
    const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'owner' }, LEASE_MS)
    const records = eventsUpTo('turn', 5000)
    for (let at = 0; at < records.length; at += 250) {
      await appendTo(log, lease, 'events', records.slice(at, at + 250), { seal: at + 250 === 5000 })
    }
    const found = await entries('codex:run:{turn}:events')
    const sizes = found.map(([, fields]) => fields['lines']?.length ?? 0)
    expect(Math.max(...sizes)).toBeLessThan(16 * 1024)
    expect(found.length).toBeLessThan(2 + sizes.reduce((sum, size) => sum + size, 0) / 12_000)
    const seqs = found.map(([id]) => Number(id.slice(2)))
    expect(seqs).toEqual(seqs.toSorted((a, b) => a - b))
    expect(seqs.at(-1)).toBe(5000)
  })

  test('L7 a claim ends a chunk: no chunk has records of two epochs', async () => {
    await open()
    const first = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'a' }, 1)
    await appendTo(log, first, 'events', deltas('turn', 1, 200))
    await appendTo(log, first, 'events', deltas('turn', 201, 300))
    const second = await log.claim('turn', 'b', LEASE_MS)
    await appendTo(log, second, 'events', deltas('turn', 301, 400))
    await appendTo(log, second, 'events', eventsUpTo('turn', 520, 401), { seal: true })
    const found = await entries('codex:run:{turn}:events')
    expect(found.map(([id]) => id)).toEqual(['1-300', '2-520'])
  })

  test.each([
    ['default', 'codex'],
    ['acme', 'codex:acme'],
  ])('L10 every key has a TTL at every stage (tenant %s)', async (tenant, prefix) => {
    await open()
    log = log.ofTenant(tenant)
    const check = async (stage: string) => {
      const eternal = Object.entries(await timesToLive()).filter(([, ms]) => ms < 0)
      expect(eternal, stage).toEqual([])
    }
    await log.putThread({ threadId: 'alone', title: 'a' })
    await check('put')
    const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'a' }, 1)
    await check('create')
    for (const record of deltas('turn', 1, 256)) await appendTo(log, lease, 'events', [record])
    await appendTo(log, lease, 'events', deltas('turn', 257, 260))
    await check('events')
    await appendTo(log, lease, 'processed', outputsOf('turn', 'ab').slice(0, 3))
    await check('processed')
    const claimed = await log.claim('turn', 'b', LEASE_MS)
    await check('claim')
    await log.renew(claimed, LEASE_MS)
    await log.requestCancel('turn', 'enough')
    await check('renew')
    await appendTo(log, claimed, 'events', eventsUpTo('turn', 261, 261), { seal: true })
    await check('the first seal')
    const outputs = outputsOf('turn', 'ab').slice(3)
    await appendTo(log, claimed, 'processed', outputs, { seal: true })
    await check('the second seal')
    const times = await timesToLive()
    for (const key of [`${prefix}:run:{turn}:events`, `${prefix}:turn:{turn}:processed`]) {
      expect(times[key]).toBeLessThanOrEqual(RETENTION_MS)
    }
    for (const key of [`${prefix}:run:{turn}:meta`, `${prefix}:turn:{turn}:meta`]) {
      expect(times[key]).toBeLessThanOrEqual(RETENTION_MS * 4)
      expect(times[key]).toBeGreaterThan(RETENTION_MS * 3)
    }
    expect(await redis.zRange('codex:leases', 0, -1)).toEqual([])
    await log.deleteThread('thread')
    await check('the deletion')
    const left = (await redis.keys('*')).toSorted()
    // The first owner may not know that the turn was claimed and has ended.
    const fence = `${prefix}:run:{turn}:fence`
    const own = [fence, `${prefix}:thread:{alone}`, `${prefix}:threads`]
    expect(left).toEqual(['codex:format', ...own].toSorted())
  })

  test('L7 a finished turn takes little more than its text, also in single deltas', {
    timeout: 60_000,
    tags: ['slow'],
  }, async () => {
    await open()
    const words = ['the ', 'quick ', 'brown ', 'fox ', 'jumps ', 'over ', 'a ', 'lazy ', 'dog. ']
    let text = ''
    const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'a' }, LEASE_MS)
    let snapshots = 0
    for (let seq = 1; seq <= 10_000; seq += 1) {
      const word = words[seq % words.length] ?? ''
      text += word
      const [record] = deltas('turn', seq, seq)
      const data = record?.data.replace(`word ${seq} `, word) ?? ''
      const isShown = seq % 25 === 0
      if (isShown) snapshots += 1
      const shown = { seq: snapshots, data: message('turn', 'turn:1', text) }
      await Promise.all([
        appendTo(log, lease, 'events', [{ seq, data }]),
        isShown ? appendTo(log, lease, 'processed', [shown]) : undefined,
      ])
    }
    await appendTo(log, lease, 'events', eventsUpTo('turn', 10_001, 10_001), { seal: true })
    const last = { seq: snapshots + 1, data: outputsOf('turn', '').at(-1)?.data ?? '' }
    await appendTo(log, lease, 'processed', [last], { seal: true })
    const bytes = async (pattern: string) => {
      const sizes = (await redis.keys(pattern)).map((key) => redis.memoryUsage(key))
      return (await Promise.all(sizes)).reduce<number>((sum, each) => sum + (each ?? 0), 0)
    }
    expect((await bytes('codex:turn:*')) / text.length).toBeLessThan(1.3)
    expect((await bytes('codex:run:*')) / text.length).toBeLessThan(4)
  })
})
