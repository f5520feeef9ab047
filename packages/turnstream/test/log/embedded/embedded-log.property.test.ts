import { deepStrictEqual } from 'node:assert'
import fc from 'fast-check'
import { describe, test, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo, type TextRecord } from '../../../../conformance/src/turn-log/append.ts'
import {
  delta,
  message,
  responseDone,
  turnComplete,
} from '../../../../conformance/src/turn-log/texts.ts'
import { TurnstreamError } from '../../../../core/src/index.ts'
import type { Lease, LogName, Tailed, TurnLog } from '../../../../core/src/log/turn-log.ts'
import { Environment } from '../../../src/log/embedded/environment.ts'
import { MemoryLog, openEmbeddedLog } from '../../../src/server.ts'
import { LEASE_MS, temporaryFolder } from './support.ts'

/** Two tenants that have a turn of the same id, and so a thread. */
const TURNS = ['default/a', 'default/b', 'acme/a']

type Step =
  | { do: 'append'; turn: string; log: LogName; counts: number[]; seal: boolean }
  | { do: 'claim' | 'delete' | 'cancel'; turn: string }
  | { do: 'reopen' | 'fail' }

const turn = fc.constantFrom(...TURNS)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant('append' as const),
      turn,
      log: fc.constantFrom<LogName>('events', 'processed'),
      // Several appends at once; the large ones fill chunks.
      counts: fc.array(fc.constantFrom(1, 1, 2, 3, 100, 256), { minLength: 1, maxLength: 4 }),
      seal: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('claim', 'cancel'), turn }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), turn }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('reopen', 'fail') }) },
)

function creationKey(log: TurnLog, turn: string): string {
  return `${turn} ${log instanceof MemoryLog}`
}

/** Does the same to the reference and to the store, which may fail in between, and compares. */
class Pair {
  readonly clock = fakeClock()
  readonly memory = new MemoryLog({ clock: this.clock })
  readonly folder = temporaryFolder()
  readonly leases = new Map<string, Omit<Lease, 'creation'>>()
  /** Each log has its own way to tell the creations of a turn apart. */
  readonly creations = new Map<string, string>()
  readonly heads = new Map<string, number>()
  embedded!: TurnLog

  async open(): Promise<void> {
    const { folder: directory } = this.folder
    const fast = { sync: 'system', commitIntervalMs: 0 } as const
    this.embedded = await openEmbeddedLog({ directory, clock: this.clock, ...fast })
  }

  async close(): Promise<void> {
    await this.embedded.close()
    this.folder.remove()
  }

  /** A store that had no room is asked again; the same question gets the same answer. */
  async both<T>(turn: string, call: (log: TurnLog, id: string) => Promise<T>): Promise<T | string> {
    const [tenant = '', id = ''] = turn.split('/')
    const answer = (log: TurnLog) => call(log.ofTenant(tenant), id).catch(codeOf)
    const expected = await answer(this.memory)
    let found = await answer(this.embedded)
    while (found === 'STORE_FULL') found = await answer(this.embedded)
    deepStrictEqual(found, expected)
    return expected
  }

  async run(each: Step): Promise<void> {
    switch (each.do) {
      case 'append':
        return await this.append(each)
      case 'claim': {
        await this.clock.advance(LEASE_MS)
        return await this.lease(each.turn, (log, id) => log.claim(id, 'other', LEASE_MS))
      }
      case 'cancel':
        await this.both(each.turn, (log, id) => log.requestCancel(id, 'reason'))
        return
      case 'delete':
        await this.both(each.turn, (log, id) => log.deleteTurn(id))
        this.leases.delete(each.turn)
        return
      case 'fail':
        vi.spyOn(Environment.prototype, 'commit').mockRejectedValueOnce(
          new TurnstreamError('STORE_FULL', 'made up'),
        )
        return
      case 'reopen':
        // Whoever opens a store is another owner; so nobody's lease may be left in the reference either.
        await this.clock.advance(LEASE_MS)
        vi.restoreAllMocks()
        await this.embedded.close()
        await this.open()
    }
  }

  async lease(turn: string, call: (log: TurnLog, id: string) => Promise<Lease>): Promise<void> {
    const lease = await this.both(turn, async (log, id) => {
      const { creation, ...rest } = await call(log, id)
      this.creations.set(creationKey(log, turn), creation)
      return rest
    })
    if (typeof lease === 'string') return
    this.leases.set(turn, lease)
    for (const name of ['events', 'processed'] as const) {
      this.heads.set(`${turn} ${name}`, lease.next[name] - 1)
    }
  }

  async append({ turn, log: name, counts, seal }: Step & { do: 'append' }): Promise<void> {
    if (!this.leases.has(turn)) {
      const made = (turnId: string) => ({ turnId, threadId: `thread-${turnId}`, owner: 'test' })
      await this.lease(turn, (log, id) => log.create(made(id), LEASE_MS))
    }
    const lease = this.leases.get(turn)
    if (lease === undefined) return
    let head = this.heads.get(`${turn} ${name}`) ?? 0
    const isLast = seal && head > 600
    const batches = counts.map((count, index) => {
      const records = Array.from({ length: count }, (_, at) => recordOf(name, turn, head + at + 1))
      head += count
      const last = records.at(-1)
      const seals = isLast && index === counts.length - 1 && last !== undefined
      if (seals) records[records.length - 1] = { ...last, data: endOf(name, turn, last.seq) }
      return { records, seals }
    })
    const answer = await this.both(turn, async (log) => {
      const creation = this.creations.get(creationKey(log, turn)) ?? ''
      // One after the other is how they take effect; nobody waits in between.
      const appends = batches.map(({ records, seals }) =>
        appendTo(log, { ...lease, creation }, name, records, { seal: seals }),
      )
      return await Promise.all(appends)
    })
    if (typeof answer !== 'string') this.heads.set(`${turn} ${name}`, head)
  }

  async compare(): Promise<void> {
    for (const turn of TURNS) {
      await this.both(turn, (log, id) => log.getTurn(id))
      await this.both(turn, (log, id) => log.snapshot(id))
      await this.both(turn, (log, id) => log.listTurns(`thread-${id}`))
      await this.both(turn, async (log) => {
        const { items, ...page } = await log.listThreads()
        return { items: items.map(({ creation: _creation, ...thread }) => thread), ...page }
      })
      for (const name of ['events', 'processed'] as const) {
        const head = this.heads.get(`${turn} ${name}`) ?? 0
        const start = { name, head, after: '0-0' }
        const all = await this.both(turn, (log, id) => history(log, id, start))
        const middle = typeof all === 'string' ? undefined : all[Math.floor(all.length / 2)]
        if (middle === undefined || 'resync' in middle) continue
        const place = { name, head, after: middle.offset }
        await this.both(turn, (log, id) => history(log, id, place))
      }
    }
  }
}

function codeOf(error: unknown): string {
  if (error instanceof TurnstreamError) return error.code
  throw error
}

function recordOf(name: LogName, turnId: string, seq: number): TextRecord {
  const data =
    name === 'events' ? delta(turnId, seq) : message(turnId, `item-${seq % 7}`, `state ${seq}`)
  return { seq, data }
}

function endOf(name: LogName, turnId: string, seq: number): string {
  return name === 'events' ? responseDone(turnId, seq) : turnComplete(turnId)
}

/** Everything that a reader gets without waiting. */
async function history(
  log: TurnLog,
  turnId: string,
  { name, head, after }: { name: LogName; head: number; after: string },
): Promise<Tailed[]> {
  const end = new AbortController()
  const found: Tailed[] = []
  if (head === 0 || after.endsWith(`-${head}`)) return found
  const tail = log.tail(turnId, name, after, end.signal)
  for await (const record of tail) {
    found.push(record)
    if (tail.cursor.endsWith(`-${head}`)) end.abort()
  }
  return found
}

describe('the embedded log', () => {
  test('equals the reference after any calls, restarts and failed commits', {
    timeout: 120_000,
    tags: ['slow'],
  }, async () => {
    const steps = fc.array(step, { minLength: 5, maxLength: 40, size: 'max' })
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const pair = new Pair()
        await pair.open()
        try {
          for (const each of all) await pair.run(each)
          vi.restoreAllMocks()
          await pair.compare()
          await pair.run({ do: 'reopen' })
          await pair.compare()
        } finally {
          vi.restoreAllMocks()
          await pair.close()
        }
      }),
      { numRuns: 40, seed: 7 },
    )
  })
})
