import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { redisCommand, startRedis } from '../../../../../scripts/redis-server.mjs'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import {
  counted,
  delta,
  deltas,
  eventsUpTo,
  message,
  responseDone,
  turnComplete,
} from '../../../../conformance/src/turn-log/texts.ts'
import type { StreamOutput } from '../../../../core/src/index.ts'
import type { Lease, LogRecord, TurnLog } from '../../../../core/src/log/turn-log.ts'
import { seededRandom } from '../../../../core/test/formats/random.ts'
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

/** How often the server ran a command while something was done. */
async function countOf(command: string, work: () => Promise<unknown>): Promise<number> {
  await redisCommand(server, 'CONFIG', 'RESETSTAT')
  await work()
  const stats = await redisCommand(server, 'INFO', 'commandstats')
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
}

describe('writers of one log', () => {
  test('L7 the only writer of a chunk finishes it without reading it', async () => {
    const records = eventsUpTo('turn', 600)
    const reads = await countOf('xrange', async () => {
      for (const record of records) {
        await appendTo(log, lease, 'events', [record], { seal: record.seq === 600 })
      }
    })
    // The seal joins the chunks.
    expect(reads).toBe(1)
    expect((await read('events', 600)).map(({ data }) => data)).toEqual(
      records.map(({ data }) => data),
    )
  })

  test.each([
    ['within chunks and across their ends', 100],
    ['a chunk at a time', 256],
    ['one record less than a chunk holds', 255],
  ])('L7 the only writer of a log, %s, does not read it', async (_name, size) => {
    const records = deltas('turn', 1, 1024)
    const reads = await countOf('xrange', async () => {
      for (let from = 0; from < records.length; from += size) {
        await appendTo(log, lease, 'events', records.slice(from, from + size))
      }
    })
    expect(reads).toBe(0)
    expect((await read('events', 1024)).map(({ data }) => data)).toEqual(
      records.map(({ data }) => data),
    )
  })

  test("L7 a chunk too large for the writer's memory is the same", async () => {
    const records = counted(1, 260, (seq) => delta('turn', seq, `${seq} `.repeat(40)))
    const reads = await countOf('xrange', async () => {
      for (const record of records) await appendTo(log, lease, 'events', [record])
    })
    expect(reads).toBe(1)
    expect((await read('events', 260)).map(({ data }) => data)).toEqual(
      records.map(({ data }) => data),
    )
  })

  test.each([1, 2, 3])(
    'L7 alternating writers neither lose nor repeat records (seed %i)',
    async (seed) => {
      const random = seededRandom(seed)
      const all = [log, await logs.open(), await logs.open()] as const
      const records = eventsUpTo('turn', 1100)
      let left = 0
      let writer: TurnLog = log
      for (const record of records) {
        if (left === 0) {
          left = 1 + Math.floor(random() ** 2 * 400)
          writer = all[Math.floor(random() * all.length)] ?? log
        }
        left -= 1
        await appendTo(writer, lease, 'events', [record], { seal: record.seq === 1100 })
      }
      expect((await read('events', 1100)).map(({ data }) => data)).toEqual(
        records.map(({ data }) => data),
      )
    },
  )

  test.each([1, 2, 3])(
    'L7 lines of two processes with one lease stay readable (seed %i)',
    async (seed) => {
      const both = [log, await logs.open()] as const
      const random = seededRandom(seed)
      const count = 700
      for (let seq = 1; seq <= count; ) {
        const writer = both[random() < 0.5 ? 0 : 1]
        // Some of it is there already, and some is new.
        const first = Math.max(1, seq - Math.floor(random() * 4))
        const last = Math.min(count, seq + Math.floor(random() * 9))
        await appendTo(writer, lease, 'events', deltas('turn', first, last))
        seq = last + 1
      }
      const expected = deltas('turn', 1, count).map(({ data }) => data)
      expect((await read('events', count)).map(({ data }) => data)).toEqual(expected)
      await appendTo(log, lease, 'events', eventsUpTo('turn', count + 1, count + 1), { seal: true })
      expect((await read('events', count + 1)).slice(0, count).map(({ data }) => data)).toEqual(
        expected,
      )
    },
  )

  test("L6 two processes with one lease supersede each other's records", async () => {
    const other = await logs.open()
    for (let seq = 1; seq <= 20; seq += 1) {
      const data = message('turn', seq % 3 === 0 ? 'a' : 'b', `text ${seq}`)
      await appendTo(seq % 2 === 0 ? log : other, lease, 'processed', [{ seq, data }])
    }
    const { records, offset } = await log.snapshot('turn')
    expect(records.map((each) => [each.key, each.offset])).toEqual([
      ['b', '1-20'],
      ['a', '1-18'],
    ])
    expect(offset).toBe('1-20')
  })

  test('L6 a key that only JSON parsing finds keeps its position and newest record', async () => {
    const other = await logs.open()
    const end = new AbortController()
    const live = other.tail('turn', 'processed', '0-0', end.signal)[Symbol.asyncIterator]()
    const keys = ['x', 'y', 'x', 'z', 'y']
    for (const [at, key] of keys.entries()) {
      const data = JSON.stringify({ any: 'thing', itemId: key })
      await appendTo(log, lease, 'processed', [{ seq: at + 1, data }])
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

  test('L4 a seal of already stored records seals the log, once', async () => {
    const records = eventsUpTo('turn', 3)
    await appendTo(log, lease, 'events', records)
    await appendTo(log, lease, 'events', records, { seal: true })
    await appendTo(log, lease, 'events', records, { seal: true })
    expect(await log.getTurn('turn')).toMatchObject({ status: 'complete', sealed: false })
    const outputs = [{ seq: 1, data: turnComplete('turn') }]
    await appendTo(log, lease, 'processed', outputs)
    await appendTo(log, lease, 'processed', outputs, { seal: true })
    expect(await log.getTurn('turn')).toMatchObject({ status: 'complete', sealed: true })
  })

  test('L3 concurrent batches of two writers take effect in order', async () => {
    const record = (seq: number) => deltas('turn', seq, seq)
    const end = [{ seq: 4, data: responseDone('turn', 4) }]
    const [first, second, third] = [log, await logs.open(), await logs.open()] as const
    const results = await Promise.allSettled([
      appendTo(first, lease, 'events', record(1)),
      appendTo(first, lease, 'events', record(2)),
      appendTo(first, lease, 'events', record(3)),
      appendTo(second, lease, 'events', record(1)),
    ])
    expect(results.every(({ status }) => status === 'fulfilled')).toBe(true)
    await expect(appendTo(second, lease, 'events', record(5))).rejects.toMatchObject({
      code: 'LOG_SEQUENCE_GAP',
    })
    await Promise.all([
      appendTo(first, lease, 'events', end, { seal: true }),
      appendTo(third, lease, 'events', [...deltas('turn', 2, 3), ...end], { seal: true }),
    ])
    for (const each of [first, second, third]) {
      const late = appendTo(each, lease, 'events', record(5))
      await expect(late).rejects.toMatchObject({ code: 'LOG_SEALED' })
    }
    expect((await read('events', 4)).map(({ offset }) => offset)).toEqual([
      '1-1',
      '1-2',
      '1-3',
      '1-4',
    ])
  })

  test('L3 a record without JSON ends only its writer', async () => {
    const circular: Record<string, unknown> = { type: 'message', itemId: 'a' }
    circular['self'] = circular
    const entry = { output: circular as unknown as StreamOutput, eventId: 'e', timestamp: 1 }
    const writer = log.open(lease, 'processed')
    writer.write(entry)
    await expect(writer.flush()).rejects.toThrow(TypeError)
    await appendTo(log, lease, 'processed', [{ seq: 1, data: turnComplete('turn') }])
    expect((await log.snapshot('turn')).offset).toBe('1-1')
  })
})
