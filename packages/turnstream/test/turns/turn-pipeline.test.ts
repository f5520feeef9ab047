import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { TextRecord } from '../../../conformance/src/turn-log/append.ts'
import type { Lease, LogName } from '../../../core/src/log/turn-log.ts'
import { eventIdsOf } from '../../../core/src/protocol/ids.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { answer, delta, done, end, open } from './payloads.ts'
import { newRig, outputsOf, type Round, tick } from './rig.ts'

/** Its appends wait at a gate for each log. */
class GatedLog extends HookedLog {
  readonly written: Record<LogName, number> = { events: 0, processed: 0 }
  readonly largest: Record<LogName, number> = { events: 0, processed: 0 }
  readonly #gates: Partial<Record<LogName, { promise: Promise<void>; open: () => void }>> = {}

  shutGate(name: LogName): void {
    let open = () => {}
    const promise = new Promise<void>((resolve) => {
      open = resolve
    })
    this.#gates[name] = { promise, open }
  }

  openGate(name: LogName): void {
    this.#gates[name]?.open()
    delete this.#gates[name]
  }

  override async append(
    lease: Lease,
    name: LogName,
    records: readonly TextRecord[],
    options?: { readonly seal?: boolean },
  ): Promise<string> {
    this.largest[name] = Math.max(this.largest[name], records.length)
    await this.#gates[name]?.promise
    const offset = await super.append(lease, name, records, options)
    this.written[name] += records.length
    return offset
  }
}

async function newTurn(rounds: readonly Round[] = [() => {}]) {
  const clock = fakeClock(1_000_000)
  const log = new GatedLog({ clock })
  const rig = newRig({ log, clock, rounds })
  await rig.submit()
  const call = await rig.provider.called(1)
  await tick(clock)
  return { clock, log, rig, ...call }
}

describe('L5 a turn', () => {
  test('emits nothing of an event before it is durable', async () => {
    const { clock, log, say } = await newTurn()
    const before = await outputsOf(log)
    log.shutGate('events')
    say(...answer('a', 'Hello'))
    await clock.advance(10)
    expect(await outputsOf(log)).toEqual(before)
    log.openGate('events')
    await clock.advance(10)
    expect((await outputsOf(log)).at(-1)).toMatchObject({ type: 'message', content: 'Hello' })
  })

  test('batches events that arrive during a write', async () => {
    const { clock, log, say } = await newTurn()
    log.shutGate('events')
    say(open('a'))
    await tick(clock)
    say(...Array.from({ length: 100 }, () => delta('a', 'x')))
    log.openGate('events')
    await tick(clock)
    expect(log.largest.events).toBe(100)
  })

  test('has ended when both logs are sealed', async () => {
    const { clock, log, rig, say, stream } = await newTurn()
    log.shutGate('processed')
    say(...answer('a', 'Hello'), end())
    stream.complete()
    await clock.advance(10)
    expect(await log.getTurn('r')).toMatchObject({ status: 'complete', sealed: false })
    expect(rig.runner.running).toBe(1)
    log.openGate('processed')
    await rig.settled()
    expect(await log.getTurn('r')).toMatchObject({ sealed: true })
    expect(clock.pending()).toBe(0)
  })

  test('makes its provider wait while the store is behind', async () => {
    const { clock, log, rig, say, stream } = await newTurn()
    log.shutGate('events')
    say(open('a'), ...Array.from({ length: 2000 }, (_, index) => delta('a', `${index} `)))
    say(done('a', ''), end())
    stream.complete()
    await tick(clock)
    expect(stream.getBufferSize()).toBe(2003 - 500)
    log.openGate('events')
    await rig.settled()
    expect(stream.getBufferSize()).toBe(0)
    expect(await log.getTurn('r')).toMatchObject({ status: 'complete', sealed: true })
  })

  test('makes its provider wait while snapshots are behind', async () => {
    const { clock, log, rig, say, stream } = await newTurn()
    log.shutGate('processed')
    for (let count = 0; count < 600; count++) {
      say(open(`${count}`), done(`${count}`, 'x'))
      await tick(clock)
    }
    expect(stream.getBufferSize()).toBeGreaterThan(0)
    log.openGate('processed')
    say(end())
    stream.complete()
    await rig.settled()
    expect(await log.getTurn('r')).toMatchObject({ status: 'complete', sealed: true })
  })

  test('gives its snapshots ids derived from the turn', async () => {
    const { clock, log, rig, say, stream } = await newTurn()
    say(...answer('a', 'x'), end())
    stream.complete()
    await rig.settled()
    const { records } = await log.snapshot('r')
    const made = eventIdsOf('r/processed')
    const ids = Array.from({ length: log.written.processed }, () => made())
    for (const { eventId } of records) expect(ids).toContain(eventId)
    expect(clock.pending()).toBe(0)
  })
})
