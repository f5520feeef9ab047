import { createClient } from '@redis/client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { appendTo, type TextRecord } from '../../../../conformance/src/turn-log/append.ts'
import {
  deltas,
  eventsUpTo,
  message,
  turnComplete,
} from '../../../../conformance/src/turn-log/texts.ts'
import type { Lease, LogName, TurnLog } from '../../../../core/src/log/turn-log.ts'
import { RedisKeys } from '../../../src/log/redis/keys.ts'
import { OpenLogs } from './support.ts'

const LEASE_MS = 600_000

const server = await startRedis()
const redis = createClient({ url: server.url })
let logs: OpenLogs
let log: TurnLog
let keys: RedisKeys

beforeAll(async () => {
  await redis.connect()
})

beforeEach(async () => {
  logs = new OpenLogs({ url: server.url })
  log = await logs.open()
  keys = new RedisKeys(logs.prefix)
})

afterEach(async () => {
  await logs.close()
})

afterAll(async () => {
  redis.destroy()
  await server.stop()
})

function create(turnId: string): Promise<Lease> {
  return log.create({ turnId, threadId: `thread-of-${turnId}`, owner: 'owner' }, LEASE_MS)
}

/** What each of many appends, made in the same tick, comes to. */
async function outcomes(appends: readonly Promise<string>[]): Promise<unknown[]> {
  const results = await Promise.allSettled(appends)
  return results.map((each) => (each.status === 'fulfilled' ? each.value : each.reason.code))
}

async function scriptCalls(work: () => Promise<unknown>): Promise<number> {
  await redis.configResetStat()
  await work()
  const stats = await redis.info('commandstats')
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

const SECOND: Record<LogName, (turnId: string) => TextRecord> = {
  events: (turnId) => deltas(turnId, 2, 2)[0] as TextRecord,
  processed: (turnId) => ({ seq: 2, data: message(turnId, 'a', 'second') }),
}

const FIRST: Record<LogName, (turnId: string) => TextRecord> = {
  events: (turnId) => deltas(turnId, 1, 1)[0] as TextRecord,
  processed: (turnId) => ({ seq: 1, data: message(turnId, 'a', 'first') }),
}

/** Turns with one record in a log. */
async function started(name: LogName, turnIds: string[]): Promise<Record<string, Lease>> {
  const leases: Record<string, Lease> = {}
  for (const turnId of turnIds) {
    const lease = await create(turnId)
    await appendTo(log, lease, name, [FIRST[name](turnId)])
    leases[turnId] = lease
  }
  return leases
}

describe.each(['events', 'processed'] as const)(
  'appends of many turns in one tick (%s)',
  (name) => {
    const second = (leases: Record<string, Lease>) =>
      Object.entries(leases).map(([turnId, lease]) =>
        appendTo(log, lease, name, [SECOND[name](turnId)]),
      )

    test('L3 each gets its own result', async () => {
      const turnIds = ['first', 'gone', 'repeated', 'between', 'claimed', 'ahead', 'sealed', 'last']
      const leases = await started(name, turnIds)
      const other = await logs.open()
      const lease = (turnId: string) => leases[turnId] as Lease
      await other.deleteTurn('gone')
      await appendTo(other, lease('repeated'), name, [SECOND[name]('repeated')])
      // Its lease ran out long ago.
      await redis.hSet(keys.turn('claimed').meta, 'until', '1')
      await other.claim('claimed', 'other', LEASE_MS)
      const more = { seq: 3, data: SECOND[name]('ahead').data }
      await appendTo(other, lease('ahead'), name, [SECOND[name]('ahead'), more])
      const complete = [{ seq: 2, data: turnComplete('sealed') }]
      const end = name === 'events' ? eventsUpTo('sealed', 2, 2) : complete
      await appendTo(other, lease('sealed'), name, end, { seal: true })
      leases['gap'] = await create('gap')
      expect(await outcomes(second(leases))).toEqual([
        '1-2',
        'LEASE_LOST',
        '1-2',
        '1-2',
        'LEASE_LOST',
        '1-2',
        '1-2',
        '1-2',
        'LOG_SEQUENCE_GAP',
      ])
      for (const turnId of ['first', 'between', 'last']) {
        const third = { ...SECOND[name](turnId), seq: 3 }
        expect(await appendTo(log, lease(turnId), name, [third])).toBe('1-3')
      }
      expect(await outcomes([appendTo(log, lease('sealed'), name, [{ ...more, seq: 3 }])])).toEqual(
        ['LOG_SEALED'],
      )
    })

    test('L3 only the turn with damaged keys fails', async () => {
      const leases = await started(name, ['a', 'broken', 'c'])
      const stream = name === 'events' ? keys.run('broken').events : keys.turn('broken').processed
      await redis.set(stream, 'no stream')
      expect(await outcomes(second(leases))).toEqual(['1-2', 'STORE_CORRUPT', '1-2'])
      // Nor does it count as added when it is tried again.
      expect(await outcomes(second(leases))).toEqual(['1-2', 'STORE_CORRUPT', '1-2'])
    })

    test('they are sent with at most 64 per call', async () => {
      const turnIds = Array.from({ length: 100 }, (_, at) => `turn-${at}`)
      const leases = await started(name, turnIds)
      const calls = await scriptCalls(async () => {
        expect(new Set(await outcomes(second(leases)))).toEqual(new Set(['1-2']))
      })
      expect(calls).toBe(2)
    })
  },
)
