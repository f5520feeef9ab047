import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { type TextRecord } from '../../../conformance/src/turn-log/append.ts'
import { TurnstreamError } from '../../../core/src/index.ts'
import type { Lease, LogName, NewTurn, TurnLog } from '../../../core/src/log/turn-log.ts'
import { type Append, AppendWriter, HookedLog } from '../log/hooked-log.ts'
import { answer, end } from './payloads.ts'
import { eventsOf, newRig, PROMPT, storyOf, tick } from './rig.ts'

const ENDED = [[...answer('a', 'x'), end()]]

describe('a submit', () => {
  test('generates missing ids', async () => {
    const { runner } = newRig()
    expect(await runner.submit({ input: [PROMPT] })).toEqual({
      turnId: 'id-1',
      runId: 'id-1',
      threadId: 'id-2',
    })
  })

  test('generates random ids by default', async () => {
    const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4/
    const { runner } = newRig({ generateId: undefined as never })
    const { turnId, threadId } = await runner.submit({ input: [PROMPT] })
    expect(turnId).toMatch(uuid)
    expect(threadId).toMatch(uuid)
    expect(threadId).not.toBe(turnId)
  })

  test.each([
    { name: 'an unknown provider', ids: { providerId: 'nobody' }, code: 'MODEL_UNKNOWN' },
    { name: 'an id that no store could keep', ids: { runId: 'a b' }, code: 'RECORD_INVALID' },
  ])('is refused with $name', async ({ ids, code }) => {
    const { runner } = newRig()
    await expect(runner.submit({ input: [PROMPT], ...ids })).rejects.toMatchObject({ code })
    expect(runner.running).toBe(0)
  })

  test('resolves when the turn and its input are durable', async () => {
    const clock = fakeClock()
    const log = new HeldLog({ clock })
    const rig = newRig({ log, clock })
    let isSubmitted = false
    const submitted = rig.submit().then(() => {
      isSubmitted = true
    })
    await tick(clock)
    expect(log.held).toEqual(['events 1-3'])
    expect(isSubmitted).toBe(false)
    expect(rig.provider.calls).toEqual([])
    log.letOne()
    await submitted
    expect(await eventsOf(log)).toHaveLength(3)
  })

  test('waits for an earlier submit of the same turn and gets its error', async () => {
    const clock = fakeClock()
    const log = new HeldLog({ clock })
    const rig = newRig({ log, clock })
    const submits = Promise.allSettled([rig.submit(), rig.submit()])
    await tick(clock)
    log.failOne(new TurnstreamError('STORE_READ_ONLY', 'no'))
    const codes = (await submits).map((each) => each.status === 'rejected' && each.reason.code)
    expect(codes).toEqual(['STORE_READ_ONLY', 'STORE_READ_ONLY'])
  })

  test('whose input cannot be stored fails, and the reaper ends the turn', async () => {
    const clock = fakeClock()
    const log = new HookedLog({ clock })
    const rig = newRig({ log: failingAppends(log), clock })
    const submitted = rig.submit()
    submitted.catch(() => {})
    await clock.advance(10_000)
    await expect(submitted).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(rig.runner.running).toBe(0)
    expect(rig.provider.calls).toEqual([])
    const other = newRig({ log, clock })
    await other.runner.start()
    expect(await log.getTurn('r')).toMatchObject({ sealed: true, error: { code: 'PRODUCER_LOST' } })
    await other.runner.shutdown(0)
  })

  test('to a store that stays unavailable is a store error', async () => {
    const clock = fakeClock()
    const log = failingAppends(new HookedLog({ clock }))
    log.renew = () => Promise.reject(new TurnstreamError('STORE_UNAVAILABLE', 'away'))
    const rig = newRig({ log, clock })
    const submitted = rig.submit()
    submitted.catch(() => {})
    await clock.advance(10_000)
    await expect(submitted).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(rig.errors).toEqual(['LEASE_LOST'])
  })

  test('whose turn is deleted before its input is durable is TURN_DELETED', async () => {
    class DeletingLog extends HookedLog {
      override async create(turn: NewTurn, leaseMs: number): Promise<Lease> {
        const lease = await super.create(turn, leaseMs)
        await this.deleteThread(turn.threadId)
        return lease
      }
    }
    const rig = newRig({ log: new DeletingLog() })
    await expect(rig.submit()).rejects.toMatchObject({ code: 'TURN_DELETED' })
    expect(rig.provider.calls).toEqual([])
    expect(rig.errors).toEqual([])
  })

  test('is not affected by one store failure during the opening', async () => {
    const clock = fakeClock()
    const log = new HookedLog({ clock })
    const rig = newRig({ log: failingAppends(log, 3), clock, rounds: ENDED })
    const submitted = rig.submit()
    await clock.advance(200)
    await submitted
    await rig.settled()
    expect((await storyOf(log)).at(-1)).toBe('end stop ?')
  })

  test('that the store rejects fails, and nothing runs', async () => {
    class FullLog extends HookedLog {
      override create(_turn: NewTurn): Promise<Lease> {
        return Promise.reject(new TurnstreamError('STORE_FULL', 'no room'))
      }
    }
    const rig = newRig({ log: new FullLog() })
    await expect(rig.submit()).rejects.toMatchObject({ code: 'STORE_FULL' })
    expect(rig.runner.running).toBe(0)
  })
})

/** Its appends wait until they are let through. */
class HeldLog extends HookedLog {
  readonly held: string[] = []
  readonly #gates: { resolve: () => void; reject: (error: Error) => void }[] = []

  override async append(
    lease: Lease,
    name: LogName,
    records: readonly TextRecord[],
    options?: { readonly seal?: boolean },
  ): Promise<string> {
    const seqs = [...new Set([records[0]?.seq, records.at(-1)?.seq])]
    this.held.push(`${name} ${seqs.join('-')}`)
    await new Promise<void>((resolve, reject) => this.#gates.push({ resolve, reject }))
    return super.append(lease, name, records, options)
  }

  letOne(): void {
    this.held.shift()
    this.#gates.shift()?.resolve()
  }

  failOne(error: Error): void {
    this.held.shift()
    this.#gates.shift()?.reject(error)
  }
}

/** The log, of which the first appends fail, or all of them. */
function failingAppends(log: HookedLog, times = Infinity): TurnLog {
  let left = times
  const open = (lease: Lease, name: LogName, options: object) => {
    const append: Append = (...args) =>
      left-- > 0
        ? Promise.reject(new TurnstreamError('STORE_UNAVAILABLE', 'away'))
        : log.append(lease, name, ...args)
    return new AppendWriter(lease, name, append, options, log.clock)
  }
  return new Proxy<TurnLog>(log, {
    get(target, name) {
      if (name === 'open') return open
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}
