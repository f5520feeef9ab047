import { describe, expect, test } from 'vitest'
import type {
  Lease,
  LogName,
  OutputRecord,
  Tail,
  Tailed,
  TurnLog,
  TurnSnapshot,
} from '../../core/src/log/turn-log.ts'
import { MemoryLog } from '../../turnstream/src/server.ts'
import { describeTurnLog, fakeClock } from '../src/index.ts'
import { type Break, broken, brokenRecords, brokenStore, brokenWriter, storeIn } from './broken.ts'
import { BROKEN_TENANTS } from './broken-tenants.ts'

/** Every tail of a log, changed on its way to the reader. */
function brokenTail(
  change: (all: AsyncIterable<Tailed>, name: LogName) => AsyncIterable<Tailed>,
): Break {
  return (log) => ({
    tail: ((turnId: string, name: LogName, after: string, signal: AbortSignal): Tail => {
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
    }) as TurnLog['tail'],
  })
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
    'L2 readers that join at any moment see every record once, in order',
    brokenTail(async function* (all) {
      let count = 0
      for await (const each of all) {
        count += 1
        if (count % 5 !== 0) yield each
      }
    }),
  ],
  'gives every fifth record twice': [
    'see every record once, in order',
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
    'L6 history is in order of appearance, from turn_started to the terminal',
    brokenTail((all, name) => (name === 'events' ? all : inOffsetOrder(all))),
  ],
  'begins anew without saying so': [
    'is foreign, and the whole log follows',
    brokenTail(async function* (all) {
      for await (const each of all) if (!('resync' in each)) yield each
    }),
  ],
  'gives each reader a record of its own': [
    'share the same record objects',
    brokenTail(async function* (all) {
      for await (const each of all) yield { ...each }
    }),
  ],
  'lets an old lease write': [
    'L3 an old epoch can neither write nor renew once the turn is claimed',
    brokenStore(async (log, lease, ...rest) =>
      storeIn(log, await renewedLease(log, lease), ...rest),
    ),
  ],
  'does not seal': [
    'L4 a sealed log rejects new records, and the other log stays open',
    brokenStore((log, lease, name, taken) =>
      storeIn(log, lease, name, { ...taken, seal: undefined }),
    ),
  ],
  'seals in a second step': [
    'L4 a reader that sees the last record of a log finds the log sealed',
    brokenStore(async (log, lease, name, taken) => {
      await storeIn(log, lease, name, { ...taken, seal: undefined })
      // Turns of the event loop, not time: a busy machine would use it up before the reader runs.
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
      await storeIn(log, lease, name, taken)
    }),
  ],
  'adds a repeated record again': [
    'L3 a repeated append changes nothing, even from another writer',
    (log) => {
      const heads = new Map<string, number>()
      return brokenStore(async (_log, lease, name, taken) => {
        const key = `${lease.turnId} ${name}`
        const head = heads.get(key) ?? 0
        const first = taken.first <= head ? head + 1 : taken.first
        await storeIn(log, lease, name, { ...taken, first })
        heads.set(key, first + taken.count - 1)
      })(log)
    },
  ],
  'acknowledges before it writes': [
    'L3 a record is visible everywhere once its flush resolves',
    brokenStore(async (log, lease, name, taken) => {
      setTimeout(() => {
        storeIn(log, lease, name, taken).catch(() => {})
      }, 20)
    }),
  ],
  'always has room': [
    'L7 a full writer reports it, gets room again and loses nothing',
    brokenWriter((writer) => ({
      write(entry) {
        writer.write(entry)
        return true
      },
    })),
  ],
  'never has room again': [
    'L7 a full writer reports it, gets room again and loses nothing',
    brokenWriter(() => ({ room: () => new Promise(() => {}) })),
  ],
  'reports records from within write': [
    'reported once, in order, when it is visible',
    brokenWriter(
      (writer, { onStored }) => ({
        write(entry) {
          onStored?.([entry])
          return writer.write(entry)
        },
      }),
      ({ onStored: _onStored, ...options }) => options,
    ),
  ],
  'reports records twice': [
    'L3 every record is reported once, in order, when it is visible',
    brokenWriter(
      () => ({}),
      ({ onStored, ...options }) => ({
        ...options,
        onStored(entries) {
          onStored?.(entries)
          onStored?.(entries)
        },
      }),
    ),
  ],
  'reports each failure twice': [
    'L3 a writer with a lost lease fails once and stores nothing more',
    brokenWriter(
      () => ({}),
      ({ onFailed, ...options }) => ({
        ...options,
        onFailed(error) {
          onFailed?.(error)
          onFailed?.(error)
        },
      }),
    ),
  ],
  'does not say that a flush failed': [
    'L3 a writer with a lost lease fails once and stores nothing more',
    brokenWriter((writer) => ({ flush: () => writer.flush().catch(() => {}) })),
  ],
  'drops what cannot be kept': [
    'L3 an invalid record is RECORD_INVALID immediately and changes nothing',
    brokenWriter((writer) => ({
      write(entry) {
        try {
          return writer.write(entry)
        } catch {
          return true
        }
      },
    })),
  ],
  'goes on after close': [
    'L3 a closed writer stores nothing more and calls no callback',
    brokenWriter(() => ({ close: () => {} })),
  ],
  'keeps the older snapshot': [
    'L6 a snapshot has the newest record of every key, in order of appearance',
    (log) => ({
      async snapshot(turnId): Promise<TurnSnapshot> {
        const snapshot = await log.snapshot(turnId)
        const older = ({ offset, key, eventId, timestamp, output, ...rest }: OutputRecord) => ({
          ...{ offset, key, eventId, timestamp, output, firstSeq: rest.firstSeq },
          data: rest.data.replace(/ \d+"/, ' 1"'),
        })
        return { ...snapshot, records: snapshot.records.map(older) }
      },
    }),
  ],
  'forgets where a key first appeared': [
    'a record knows the first record of its key, for every reader and cursor',
    (log) => ({
      async snapshot(turnId): Promise<TurnSnapshot> {
        const snapshot = await log.snapshot(turnId)
        const newest = ({ offset, key, eventId, timestamp, output, data }: OutputRecord) => ({
          ...{ offset, key, eventId, timestamp, output, data },
          firstSeq: Number(offset.split('-')[1]),
        })
        return { ...snapshot, records: snapshot.records.map(newest) }
      },
    }),
  ],
  'gives the lease to whoever asks': [
    'L1 one of 20 concurrent claims succeeds, also across processes',
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
    'L3 the lease of a deleted turn cannot write to a recreated one (events)',
    (log) => {
      const newest = new Map<string, Lease>()
      return {
        async create(turn, leaseMs) {
          const lease = await log.create(turn, leaseMs)
          newest.set(turn.turnId, lease)
          return lease
        },
        ...brokenStore((_log, lease, ...rest) => {
          const { creation } = newest.get(lease.turnId) ?? lease
          return storeIn(log, { ...lease, creation }, ...rest)
        })(log),
      }
    },
  ],
  'loses the Response when the second log is sealed': [
    'L15 the Response is returned character for character once events is sealed',
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
  'lists replaced turns as others': [
    'V14 a turn replaces another and all later ones',
    (log) => ({ listTurns: (id, options) => log.listTurns(id, { ...options, replaced: true }) }),
  ],
  'replaces nothing': [
    'V14 of several turns that replace the same one, one is created',
    (log) => ({ create: ({ replaces: _replaces, ...turn }, leaseMs) => log.create(turn, leaseMs) }),
  ],
  'accepts the last value of a key of a turn': [
    'of many values at the same time, from several processes, one is stored',
    brokenRecords((records) => ({
      addOnce: async (turnId, key, value) => {
        await records.addOnce(turnId, key, value)
        return { isAdded: true, value }
      },
    })),
  ],
  'returns a value without removing it': [
    'each value is consumed by one of many calls, from several processes',
    brokenRecords((records) => ({ consume: async (key) => (await records.read([key]))[0] })),
  ],
  'lets all values of a key expire with the last one': [
    'an expired value is not returned, and does not hide or displace another',
    brokenRecords((records) => ({ add: (key, value) => records.add(key, value, 1e9) })),
  ],
  'shares keyed records between tenants': [
    'values of the same key of two tenants are apart',
    (log) => ({ ofTenant: () => log }),
  ],
  'forgets the reason of a cancel': [
    'L1 the owner is notified of a cancel',
    (log) => ({
      requestCancel: async (turnId) => log.requestCancel(turnId, ''),
    }),
  ],
  'ignores the limit of content': [
    'L10 content with a limit expires, and its turn keeps its place',
    (log) => ({
      create: ({ contentMs: _contentMs, ...turn }, leaseMs) => log.create(turn, leaseMs),
    }),
  ],
  'never expires': [
    'L10 the logs of a sealed turn expire, its record later, and open turns never',
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

describe('the TurnLog suite', () => {
  const rows = Object.entries({ ...BROKEN, ...BROKEN_TENANTS })
  const isQuick = (_row: unknown, index: number) => index % 8 === 0

  test.each(rows.filter(isQuick))('fails for a log that %s', expectNoticed)

  test.each(rows.filter((row, index) => !isQuick(row, index)))(
    'fails for a log that %s',
    { tags: ['slow'] },
    expectNoticed,
  )

  async function expectNoticed(
    _what: string,
    [noticedBy, change]: readonly [noticedBy: string, change: Break],
  ): Promise<void> {
    const failures = await failuresOf(change, 700)
    expect(failures).toContainEqual(expect.stringContaining(noticedBy))
  }

  test('passes for MemoryLog, also behind the same wrapper', async () => {
    expect(await failuresOf(() => ({}), 20_000)).toEqual([])
  })
})
