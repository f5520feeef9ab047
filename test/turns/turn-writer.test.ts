import { describe, expect, test } from 'vitest'
import { MemoryLog } from '../../src/log/memory-log.ts'
import type { Lease, LogName, NewRecord } from '../../src/log/turn-log.ts'
import { fakeClock } from '../../src/testing/index.ts'
import { TurnWriter } from '../../src/turns/turn-writer.ts'
import { UnsettledItems } from '../../src/turns/unsettled-items.ts'
import { answer, BEGIN, delta, done, end, line, open } from './payloads.ts'
import { newRig, outputsOf, payloadsOf, readLog, tick } from './rig.ts'

/** Its appends wait at a gate for each log. */
class GatedLog extends MemoryLog {
  readonly written: Record<LogName, number> = { events: 0, processed: 0 }
  readonly largest: Record<LogName, number> = { events: 0, processed: 0 }
  readonly #gates: Record<LogName, { promise: Promise<void>; open: () => void } | undefined> = {
    events: undefined,
    processed: undefined,
  }

  shut(name: LogName): void {
    let open = () => {}
    const promise = new Promise<void>((resolve) => {
      open = resolve
    })
    this.#gates[name] = { promise, open }
  }

  open(name: LogName): void {
    this.#gates[name]?.open()
    this.#gates[name] = undefined
  }

  override async append(
    lease: Lease,
    name: LogName,
    records: readonly NewRecord[],
    options?: { readonly seal?: boolean },
  ): Promise<string> {
    this.largest[name] = Math.max(this.largest[name], records.length)
    await this.#gates[name]?.promise
    const offset = await super.append(lease, name, records, options)
    this.written[name] += records.length
    return offset
  }
}

async function newWriter() {
  const clock = fakeClock(1_000_000)
  const log = new GatedLog({ clock })
  const lease = await log.create({ turnId: 'r', threadId: 'h', owner: 'me' }, 10_000)
  const lost: unknown[] = []
  const errors: unknown[] = []
  const writer = new TurnWriter({
    log,
    lease,
    threadId: 'h',
    traceContext: { traceparent: '' },
    clock,
    unsettled: new UnsettledItems(),
    leaseMs: 10_000,
    onLost: (error) => lost.push(error),
    onError: (error) => errors.push(error),
  })
  return { clock, log, lease, writer, lost, errors }
}

describe('L5 the writer of a turn', () => {
  test('shows nothing of an event before it is durable', async () => {
    const { clock, log, writer } = await newWriter()
    log.shut('events')
    for (const payload of [BEGIN, ...answer('a', 'Hello')]) writer.write(payload)
    await clock.advance(10)
    expect(await outputsOf(log)).toEqual([])
    log.open('events')
    await clock.advance(10)
    expect((await outputsOf(log)).map(({ type }) => type)).toEqual(['turn_started', 'message'])
  })

  test('sends what comes while an append is under way together', async () => {
    const { log, writer } = await newWriter()
    for (const payload of [BEGIN, ...answer('a', 'Hello')]) writer.write(payload)
    await writer.durable()
    expect(log.largest.events).toBe(3)
  })

  test('is durable when `events` is, whatever becomes of `processed`', async () => {
    const { log, writer } = await newWriter()
    log.shut('processed')
    writer.write(BEGIN)
    await writer.durable()
    expect(log.written).toEqual({ events: 1, processed: 0 })
  })

  test('has ended when both logs are sealed', async () => {
    const { clock, log, writer } = await newWriter()
    writer.write(BEGIN)
    log.shut('processed')
    let hasEnded = false
    const ended = writer.end(end()).then(() => {
      hasEnded = true
    })
    await tick(clock)
    expect(log.written.events).toBe(2)
    expect(hasEnded).toBe(false)
    log.open('processed')
    await ended
    expect(await log.getTurn('r')).toMatchObject({ sealed: true })
    writer.release()
    expect(clock.pending()).toBe(0)
  })

  test('is full when too much waits, and has room again when half of it is done', async () => {
    const { clock, log, writer } = await newWriter()
    writer.write(BEGIN)
    writer.write(open('a'))
    await tick(clock)
    log.shut('events')
    let written = 0
    while (!writer.isFull) {
      writer.write(delta('a', 'x'))
      written += 1
    }
    expect(written).toBe(500)
    let hasRoom = false
    const room = writer.room().then(() => {
      hasRoom = true
    })
    await tick(clock)
    expect(hasRoom).toBe(false)
    log.open('events')
    await room
    expect(writer.isFull).toBe(false)
  })

  test('is full also when readers are behind, for snapshots hold the whole text', async () => {
    const { clock, log, writer } = await newWriter()
    writer.write(BEGIN)
    await tick(clock)
    log.shut('processed')
    for (let count = 0; count < 250; count++) {
      writer.write(open(`${count}`))
      writer.write(done(`${count}`, 'x'))
      await tick(clock)
    }
    expect(writer.isFull).toBe(false)
    for (let count = 250; count < 500; count++) {
      writer.write(open(`${count}`))
      writer.write(done(`${count}`, 'x'))
      await tick(clock)
    }
    expect(writer.isFull).toBe(true)
    log.open('processed')
    await writer.room()
    await writer.end(end())
    expect(await log.getTurn('r')).toMatchObject({ sealed: true })
  })

  test('drops what comes after it was let go, and what waits is answered', async () => {
    const { clock, log, writer, lost } = await newWriter()
    writer.write(BEGIN)
    await tick(clock)
    log.shut('events')
    writer.write(open('a'))
    writer.write(delta('a', 'x'))
    const durable = writer.durable()
    writer.letGo(new Error('gone'))
    await expect(durable).rejects.toThrow('gone')
    writer.write(delta('a', 'y'))
    log.open('events')
    await clock.advance(1000)
    await writer.end(end())
    // Of what was under way the store may keep something, but no more is sent.
    expect((await payloadsOf(log)).map(line)).toEqual([
      'begin vendor-response vendor/vendor-model',
      'open a message',
    ])
    expect(lost).toEqual([])
    writer.release()
  })

  test('passes over what the processor cannot read, as whoever replays the log does', async () => {
    const { clock, log, writer, lost, errors } = await newWriter()
    writer.write(BEGIN)
    writer.write({ type: 'item_start', item_id: '' } as never)
    await writer.end(end())
    expect(errors).toMatchObject([{ code: 'EVENT_INVALID' }])
    expect(lost).toEqual([])
    expect(await log.getTurn('r')).toMatchObject({ sealed: true })
    expect(clock.pending()).toBe(0)
  })

  test('gives the snapshots the ids that the store would give them', async () => {
    const rig = newRig({ rounds: [[...answer('a', 'x'), end()]] })
    await rig.submit()
    await rig.settled()
    const { records } = await rig.log.snapshot('r')
    const other = new MemoryLog()
    const lease = await other.create({ turnId: 'r', threadId: 'h', owner: 'me' }, 1000)
    const texts = await readLog(rig.log, 'r', 'processed')
    await other.append(
      lease,
      'processed',
      texts.map((data, index) => ({ seq: index + 1, data })),
    )
    const made = (await other.snapshot('r')).records
    expect(records.map(({ eventId, key }) => [eventId, key])).toEqual(
      made.map(({ eventId, key }) => [eventId, key]),
    )
  })
})

test('a provider waits while its reader waits for the store', async () => {
  const clock = fakeClock()
  const log = new GatedLog({ clock })
  const pieces = Array.from({ length: 2000 }, (_, index) => delta('a', `${index} `))
  const rig = newRig({ log, clock, rounds: [({ say }) => say(open('a'))] })
  await rig.submit()
  const { say, stream } = await rig.provider.called(1)
  await tick(clock)
  log.shut('events')
  say(...pieces, done('a', ''), end())
  stream.complete()
  await tick(clock)
  expect(stream.getBufferSize()).toBe(1502)
  log.open('events')
  await rig.settled()
  expect(stream.getBufferSize()).toBe(0)
  expect(log.written.events).toBe(3 + 1 + 2000 + 2)
})
