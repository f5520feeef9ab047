import { describe, expect, test } from 'vitest'
import { MemoryLog } from '../../src/log/memory-log.ts'
import type {
  Lease,
  LogName,
  LogRecord,
  NewRecord,
  Tail,
  Tailed,
  TurnLog,
  TurnSnapshot,
} from '../../src/log/turn-log.ts'
import { describeTurnLog, fakeClock } from '../../src/testing/index.ts'
import { type Break, broken } from './broken.ts'
import { BROKEN_TENANTS } from './broken-tenants.ts'

/** Every tail of a log, changed on its way to the reader. */
function brokenTail(
  change: (all: AsyncIterable<Tailed>, name: LogName) => AsyncIterable<Tailed>,
): Break {
  return (log) => ({
    tail(turnId, name, after, signal): Tail {
      const tail = log.tail(turnId, name, after, signal)
      return {
        get cursor() {
          return tail.cursor
        },
        get caughtUp() {
          return tail.caughtUp
        },
        [Symbol.asyncIterator]: () => change(tail, name)[Symbol.asyncIterator](),
      }
    },
  })
}

type Append = [Lease, LogName, readonly NewRecord[], { readonly seal?: boolean }?]

function brokenAppend(change: (log: TurnLog, ...append: Append) => Promise<string>): Break {
  return (log) => ({ append: (...append: Append) => change(log, ...append) })
}

/** A lease that may write again, whoever has claimed the turn since. */
async function renewedLease(log: TurnLog, lease: Lease): Promise<Lease> {
  const turn = await log.getTurn(lease.turnId)
  return { ...lease, epoch: turn?.epoch ?? lease.epoch }
}

async function* inOffsetOrder(all: AsyncIterable<Tailed>): AsyncGenerator<Tailed> {
  const seen: Tailed[] = []
  for await (const each of all) seen.push(each)
  const seq = (each: Tailed) => ('resync' in each ? 0 : Number(each.offset.split('-')[1]))
  yield* seen.toSorted((a, b) => seq(a) - seq(b))
}

/** What is wrong with a log, a part of the name of a case that has to notice, and the log. */
const BROKEN: Record<string, readonly [noticedBy: string, change: Break]> = {
  'loses every fifth record on its way to a reader': [
    'L2 readers that come at any moment miss nothing',
    brokenTail(async function* (all) {
      let count = 0
      for await (const each of all) {
        count += 1
        if (count % 5 !== 0) yield each
      }
    }),
  ],
  'gives every fifth record twice': [
    'get nothing twice',
    brokenTail(async function* (all) {
      let count = 0
      for await (const each of all) {
        count += 1
        yield each
        if (count % 5 === 0) yield each
      }
    }),
  ],
  'gives the state of a turn in the order of offsets': [
    'L6 history comes in the order of first appearance',
    brokenTail((all, name) => (name === 'events' ? all : inOffsetOrder(all))),
  ],
  'begins anew without saying so': [
    'is foreign, and all of it follows',
    brokenTail(async function* (all) {
      for await (const each of all) if (!('resync' in each)) yield each
    }),
  ],
  'gives each reader a record of its own': [
    'get the same record, and not one each',
    brokenTail(async function* (all) {
      for await (const each of all) yield { ...each }
    }),
  ],
  'lets an old lease write': [
    'L3 an old epoch can write to neither log',
    brokenAppend(async (log, lease, ...rest) =>
      log.append(await renewedLease(log, lease), ...rest),
    ),
  ],
  'does not seal': [
    'L4 a sealed log takes nothing new',
    brokenAppend((log, lease, name, records) => log.append(lease, name, records)),
  ],
  'seals in a second step': [
    'L4 whoever sees the last record of a log finds the log sealed',
    brokenAppend(async (log, lease, name, records, options) => {
      await log.append(lease, name, records)
      await new Promise((resolve) => setTimeout(resolve, 5))
      return log.append(lease, name, records, options)
    }),
  ],
  'adds a repeated record again': [
    'L3 a repeated append changes nothing',
    (log) => {
      const heads = new Map<string, number>()
      return {
        async append(lease, name, records, options) {
          const key = `${lease.turnId} ${name}`
          const head = heads.get(key) ?? 0
          const repeated = (records[0]?.seq ?? Infinity) <= head
          const moved = records.map((record, index) => ({ ...record, seq: head + 1 + index }))
          const offset = await log.append(lease, name, repeated ? moved : records, options)
          heads.set(key, Number(offset.split('-')[1]))
          return offset
        },
      }
    },
  ],
  'acknowledges before it writes': [
    'L3 a record is visible everywhere',
    brokenAppend(async (log, lease, name, records, options) => {
      setTimeout(() => {
        log.append(lease, name, records, options).catch(() => {})
      }, 20)
      return `${lease.epoch}-${records.at(-1)?.seq ?? 0}`
    }),
  ],
  'keeps the older snapshot': [
    'L6 a snapshot holds the newest record of every key',
    (log) => ({
      async snapshot(turnId): Promise<TurnSnapshot> {
        const snapshot = await log.snapshot(turnId)
        const older = (record: LogRecord) => ({
          ...record,
          data: record.data.replace(/ \d+"/, ' 1"'),
        })
        return { ...snapshot, records: snapshot.records.map(older) }
      },
    }),
  ],
  'gives the lease to whoever asks': [
    'L1 of 20 claims at the same time one resolves',
    (log) => ({
      async claim(turnId, owner, leaseMs) {
        const turn = await log.getTurn(turnId)
        try {
          return await log.claim(turnId, owner, leaseMs)
        } catch (error) {
          if (turn === undefined) throw error
          const next = { events: 1, processed: 1 }
          const { runId, epoch } = turn
          return { turnId, runId, creation: 'any', epoch, until: leaseMs, next }
        }
      },
    }),
  ],
  'tells a turn by nothing but its id': [
    'L3 the lease of a deleted turn writes nothing to the next one with its id (events)',
    (log) => {
      const newest = new Map<string, Lease>()
      return {
        async create(turn, leaseMs) {
          const lease = await log.create(turn, leaseMs)
          newest.set(turn.turnId, lease)
          return lease
        },
        append: ({ ...lease }, ...rest) => {
          const { creation } = newest.get(lease.turnId) ?? lease
          return log.append({ ...lease, creation }, ...rest)
        },
      }
    },
  ],
  'loses the Response when the second log is sealed': [
    'L15 the Response is there once events is sealed',
    (log) => ({
      getResponse: async (turnId) => {
        const turn = await log.getTurn(turnId)
        return turn?.sealed === true ? undefined : log.getResponse(turnId)
      },
    }),
  ],
  'keeps the Response of an expired turn': [
    'L15 the Response expires with the logs of its turn',
    (log) => {
      const seen = new Map<string, string>()
      return {
        getResponse: async (turnId) => {
          const response = await log.getResponse(turnId)
          if (response !== undefined) seen.set(turnId, response)
          return seen.get(turnId)
        },
      }
    },
  ],
  'forgets the reason of a cancel': [
    'L1 the owner hears of a cancel',
    (log) => ({
      requestCancel: async (turnId) => log.requestCancel(turnId, ''),
    }),
  ],
  'never expires': [
    'L10 the logs of a sealed turn expire',
    (log) => ({
      getTurn: async (turnId) => {
        const turn = await log.getTurn(turnId)
        return turn && { ...turn, expired: false }
      },
    }),
  ],
}

/** Runs the suite at once, and tells which cases failed. */
async function failuresOf(change: Break, limitMs: number): Promise<string[]> {
  const cases: Promise<string | undefined>[] = []
  describeTurnLog(
    'a log',
    async ({ retentionMs }) => {
      const clock = fakeClock()
      const log = new MemoryLog({ retentionMs, clock })
      const elapse = (ms: number) => clock.advance(ms)
      return { log: broken(log, change), elapse, dispose: () => log.close() }
    },
    {
      describe: (_name, body) => body(),
      test: (name, body) => {
        cases.push(
          body().then(
            () => undefined,
            () => name,
          ),
        )
      },
    },
    { limitMs },
  )
  const names = await Promise.all(cases)
  return names.filter((name) => name !== undefined)
}

describe('the suite for logs', () => {
  test.each(Object.entries({ ...BROKEN, ...BROKEN_TENANTS }))(
    'fails for a log that %s',
    async (_what, [noticedBy, change]) => {
      const failures = await failuresOf(change, 700)
      expect(failures).toContainEqual(expect.stringContaining(noticedBy))
    },
  )

  test('passes for the log in memory, also behind the same wrapper', async () => {
    expect(await failuresOf(() => ({}), 20_000)).toEqual([])
  })
})
