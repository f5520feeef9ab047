import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startRedis } from '../../../scripts/redis-server.mjs'
import type { Lease, LogRecord, TurnLog } from '../../../src/log/turn-log.ts'
import {
  deltas,
  eventsUpTo,
  message,
  responseDone,
  turnComplete,
} from '../../../src/testing/turn-log/texts.ts'
import { seededRandom } from '../../adapters/random.ts'
import { OpenLogs } from './support.ts'

const LEASE_MS = 600_000

const server = await startRedis()
let logs: OpenLogs
let log: TurnLog
let lease: Lease

beforeEach(async () => {
  logs = new OpenLogs({ url: server.url })
  log = await logs.open()
  lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'owner' }, LEASE_MS)
})

afterEach(async () => {
  await logs.close()
})

afterAll(async () => {
  await server.stop()
})

async function read(name: 'events' | 'processed', count: number): Promise<LogRecord[]> {
  const records: LogRecord[] = []
  const end = new AbortController()
  for await (const each of log.tail('turn', name, '0-0', end.signal)) {
    if (!('resync' in each)) records.push(each)
    if (records.length === count) break
  }
  end.abort()
  return records
}

describe('writers of one log', () => {
  test.each([1, 2, 3])(
    'L7 lines of two processes with the same lease can be read, however they take turns (seed %i)',
    async (seed) => {
      const both = [log, await logs.open()] as const
      const random = seededRandom(seed)
      const count = 700
      for (let seq = 1; seq <= count; ) {
        const writer = both[random() < 0.5 ? 0 : 1]
        // Some of it is there already, and some is new.
        const first = Math.max(1, seq - Math.floor(random() * 4))
        const last = Math.min(count, seq + Math.floor(random() * 9))
        const offset = await writer.append(lease, 'events', deltas('turn', first, last))
        expect(offset).toBe(`1-${last}`)
        seq = last + 1
      }
      const expected = deltas('turn', 1, count).map(({ data }) => data)
      expect((await read('events', count)).map(({ data }) => data)).toEqual(expected)
      await log.append(lease, 'events', eventsUpTo('turn', count + 1, count + 1), { seal: true })
      expect((await read('events', count + 1)).slice(0, count).map(({ data }) => data)).toEqual(
        expected,
      )
    },
  )

  test('L6 of two processes with the same lease each supersedes what the other wrote', async () => {
    const other = await logs.open()
    for (let seq = 1; seq <= 20; seq += 1) {
      const data = message('turn', seq % 3 === 0 ? 'a' : 'b', `text ${seq}`)
      await (seq % 2 === 0 ? log : other).append(lease, 'processed', [{ seq, data }])
    }
    const { records, offset } = await log.snapshot('turn')
    expect(records.map((each) => [each.key, each.offset])).toEqual([
      ['b', '1-20'],
      ['a', '1-18'],
    ])
    expect(offset).toBe('1-20')
  })

  test('L6 a key that the output does not say is kept, with its place and its newest record', async () => {
    const data = '{"any":"thing"}'
    const other = await logs.open()
    const end = new AbortController()
    const live = other.tail('turn', 'processed', '0-0', end.signal)[Symbol.asyncIterator]()
    const keys = ['x', 'y', 'x', 'z', 'y']
    for (const [at, key] of keys.entries()) {
      await log.append(lease, 'processed', [{ seq: at + 1, data, key }])
    }
    const seen: string[] = []
    while (!seen.includes('y 1-5')) {
      const { value } = await live.next()
      if (value !== undefined && 'key' in value) seen.push(`${value.key} ${value.offset}`)
    }
    end.abort()
    const { records } = await log.snapshot('turn')
    expect(records.map((each) => [each.key, each.offset])).toEqual([
      ['x', '1-3'],
      ['y', '1-5'],
      ['z', '1-4'],
    ])
  })

  test('L4 a seal of records that are there already seals the log, once', async () => {
    const records = eventsUpTo('turn', 3)
    await log.append(lease, 'events', records)
    expect(await log.append(lease, 'events', records, { seal: true })).toBe('1-3')
    expect(await log.append(lease, 'events', records, { seal: true })).toBe('1-3')
    expect(await log.getTurn('turn')).toMatchObject({ status: 'complete', sealed: false })
    const outputs = [{ seq: 1, data: turnComplete('turn') }]
    await log.append(lease, 'processed', outputs)
    expect(await log.append(lease, 'processed', outputs, { seal: true })).toBe('1-1')
    expect(await log.getTurn('turn')).toMatchObject({ status: 'complete', sealed: true })
  })

  test('L3 a record that cannot be kept is refused alone, of several appends at once', async () => {
    const [one, two, three] = deltas('turn', 1, 3)
    if (!one || !two || !three) throw new Error('three records')
    const results = await Promise.allSettled([
      log.append(lease, 'events', [one]),
      log.append(lease, 'events', [{ seq: 2, data: '{}' }]),
      log.append(lease, 'events', [two]),
      log.append(lease, 'events', [three]),
      log.append(lease, 'processed', [{ seq: 1, data: 'no json' }]),
      log.append(lease, 'processed', [{ seq: 1, data: turnComplete('turn') }]),
    ])
    expect(
      results.map((each) => (each.status === 'fulfilled' ? each.value : each.reason.code)),
    ).toEqual(['1-1', 'RECORD_INVALID', '1-2', '1-3', 'RECORD_INVALID', '1-1'])
  })

  test('L3 what is called at once takes effect in order, as far as it can', async () => {
    const record = (seq: number) => deltas('turn', seq, seq)
    const end = [{ seq: 4, data: responseDone('turn', 4) }]
    const results = await Promise.allSettled([
      log.append(lease, 'events', record(1)),
      log.append(lease, 'events', record(2)),
      log.append(lease, 'events', record(2)),
      log.append(lease, 'events', []),
      log.append(lease, 'events', record(5)),
      log.append(lease, 'events', record(3)),
      log.append(lease, 'events', end, { seal: true }),
      log.append(lease, 'events', record(5)),
      log.append(lease, 'events', []),
    ])
    expect(
      results.map((each) => (each.status === 'fulfilled' ? each.value : each.reason.code)),
    ).toEqual([
      '1-1',
      '1-2',
      '1-2',
      '1-2',
      'LOG_SEQUENCE_GAP',
      '1-3',
      '1-4',
      'LOG_SEALED',
      'LOG_SEALED',
    ])
  })
})
