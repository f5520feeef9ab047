import { beforeEach, describe, expect, test } from 'vitest'
import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import { delta, responseDone } from '../../../conformance/src/turn-log/texts.ts'
import { type ErrorCode, type StreamEvent, TurnstreamError } from '../../../core/src/index.ts'
import type { Lease, WriterOptions } from '../../../core/src/log/turn-log.ts'
import { StoreWriter, type Taken } from '../../src/log/writer.ts'

const LEASE: Lease = {
  ...{ turnId: 'turn', runId: 'run', creation: 'first', epoch: 1, until: 0 },
  next: { events: 1, processed: 1 },
}

/** A writer whose store does what a test says. */
class TestWriter extends StoreWriter<'events'> {
  wakes = 0
  ends = 0

  protected override wake(): void {
    this.wakes += 1
  }

  protected override ended(): void {
    this.ends += 1
  }

  override drain(max?: number): Taken<'events'> {
    return super.drain(max)
  }

  override stored(count?: number): void {
    super.stored(count)
  }

  override failed(error: unknown): void {
    super.failed(error)
  }

  /** Takes what waits, and has it stored. */
  store(max?: number): number {
    const { count } = this.drain(max)
    this.stored()
    return count
  }
}

let clock: FakeClock

beforeEach(() => {
  clock = fakeClock()
})

function open(options?: WriterOptions<StreamEvent>): TestWriter {
  return new TestWriter(LEASE, 'events', clock, options)
}

function event(seq: number): StreamEvent {
  return JSON.parse(delta('turn', seq)) as StreamEvent
}

function end(seq: number): StreamEvent {
  return JSON.parse(responseDone('turn', seq)) as StreamEvent
}

function writeTo(writer: TestWriter, first: number, last: number): StreamEvent[] {
  const events = Array.from({ length: last - first + 1 }, (_, at) => event(first + at))
  for (const each of events) writer.write(each)
  return events
}

function away(code: ErrorCode = 'STORE_UNAVAILABLE'): TurnstreamError {
  return new TurnstreamError(code, 'away')
}

/** Whether a promise is settled by now, and how. */
async function stateOf(promise: Promise<unknown>): Promise<string> {
  const settled = promise.then(
    () => 'resolved',
    (error: unknown) => (error instanceof TurnstreamError ? error.code : String(error)),
  )
  return Promise.race([settled, clock.advance(0).then(() => 'waits')])
}

describe('L7 a batch', () => {
  test('contains all pending records in order, with one batch in flight', () => {
    const writer = open()
    const events = writeTo(writer, 1, 3)
    expect(writer.drain()).toEqual({ entries: events, first: 1, count: 3, seal: undefined })
    writeTo(writer, 4, 5)
    expect(writer.drain().count).toBe(0)
    expect(writer.waiting).toBe(5)
    writer.stored()
    expect(writer.drain()).toMatchObject({ first: 4, count: 2 })
    expect(writer.wakes).toBe(5)
  })

  test("does not exceed the store's limit", () => {
    const writer = open()
    const events = writeTo(writer, 1, 600)
    const sizes: number[] = []
    for (let taken = writer.drain(256); taken.count > 0; taken = writer.drain(256)) {
      expect(taken.entries.slice(0, taken.count)).toEqual(
        events.slice(taken.first - 1, taken.first - 1 + taken.count),
      )
      sizes.push(taken.count)
      writer.stored()
    }
    expect(sizes).toEqual([256, 256, 88])
  })

  test('is sent again as far as it was not stored', () => {
    const stored: StreamEvent[] = []
    const writer = open({ onStored: (each) => stored.push(...each) })
    const events = writeTo(writer, 1, 5)
    writer.drain()
    writer.stored(2)
    expect(stored).toEqual(events.slice(0, 2))
    expect(writer.drain()).toMatchObject({ first: 3, count: 3 })
    writer.stored(0)
    expect(writer.store()).toBe(3)
    expect(stored).toEqual(events)
  })

  test('starts at the position of the lease or the writer', () => {
    expect(open({ next: 7 }).drain().first).toBe(7)
    const lease = { ...LEASE, next: { events: 4, processed: 2 } }
    expect(new TestWriter(lease, 'events', clock).drain().first).toBe(4)
  })

  test('sets no timer', () => {
    const writer = open()
    writeTo(writer, 1, 20)
    writer.store()
    expect(clock.pending()).toBe(0)
  })
})

describe('L4 the seal', () => {
  test('is sent with the last record and the outcome of the turn', async () => {
    const writer = open()
    writeTo(writer, 1, 2)
    const sealed = writer.seal(end(3), '"response"')
    expect(writer.drain(2)).toMatchObject({ count: 2, seal: undefined })
    writer.stored()
    expect(await stateOf(sealed)).toBe('waits')
    expect(writer.ends).toBe(0)
    const outcome = { status: 'complete' }
    expect(writer.drain(2)).toMatchObject({ count: 1, seal: { response: '"response"', outcome } })
    writer.stored()
    expect(await stateOf(sealed)).toBe('resolved')
    expect(writer.ends).toBe(1)
  })

  test('allows no further records', () => {
    const writer = open()
    void writer.seal(end(1))
    const sealed = expect.objectContaining({ code: 'LOG_SEALED' })
    expect(() => writer.write(event(2))).toThrow(sealed)
    writer.store()
    expect(() => writer.write(event(2))).toThrow(sealed)
    expect(() => writer.seal(end(2))).toThrow(sealed)
    expect(writer.waiting).toBe(0)
  })

  test('that is rejected leaves the writer unchanged', async () => {
    const writer = open()
    const invalid = expect.objectContaining({ code: 'RECORD_INVALID' })
    expect(() => writer.seal(event(1))).toThrow(invalid)
    expect(() => writer.seal(end(1), '"\ud83d"')).toThrow(invalid)
    expect(writer.waiting).toBe(0)
    const sealed = writer.seal(end(1))
    writer.store()
    await sealed
  })
})

describe('room', () => {
  test('covers 500 records, and is free again when half of them are stored', async () => {
    const writer = open()
    for (let seq = 1; seq < 500; seq++) expect(writer.write(event(seq))).toBe(true)
    expect(writer.write(event(500))).toBe(false)
    expect(writer.write(event(501))).toBe(false)
    const room = writer.room()
    writer.store(250)
    expect(await stateOf(room)).toBe('waits')
    writer.store(1)
    expect(await stateOf(room)).toBe('resolved')
    expect(writer.write(event(502))).toBe(true)
  })

  test.each<[string, (writer: TestWriter) => void]>([
    ['fails', (writer) => writer.failed(away('LEASE_LOST'))],
    ['is closed', (writer) => writer.close()],
  ])('stops waiting when the writer %s', async (_what, stop) => {
    const writer = open()
    writeTo(writer, 1, 500)
    const room = writer.room()
    stop(writer)
    expect(await stateOf(room)).toBe('resolved')
    expect(writer.waiting).toBe(0)
    expect(writer.write(event(501))).toBe(true)
    expect(writer.waiting).toBe(0)
  })
})

describe('a flush', () => {
  test('resolves at once when nothing is pending', async () => {
    const writer = open()
    expect(await stateOf(writer.flush())).toBe('resolved')
    writeTo(writer, 1, 2)
    writer.store()
    expect(await stateOf(writer.flush())).toBe('resolved')
  })

  test('waits only for records written before it', async () => {
    const writer = open()
    writeTo(writer, 1, 2)
    const first = writer.flush()
    writeTo(writer, 3, 4)
    const second = writer.flush()
    writer.store(2)
    expect([await stateOf(first), await stateOf(second)]).toEqual(['resolved', 'waits'])
    writer.store()
    expect(await stateOf(second)).toBe('resolved')
  })

  test('of stored records resolves, whatever happens later', async () => {
    const writer = open()
    writeTo(writer, 1, 1)
    const stored = writer.flush()
    writer.store()
    writer.close()
    expect(await stateOf(stored)).toBe('resolved')
  })

  test('rejects with the error that ended the writer, also for dropped records', async () => {
    const writer = open()
    writeTo(writer, 1, 1)
    const flush = writer.flush()
    writer.drain()
    const error = new TypeError('nobody foresaw it')
    writer.failed(error)
    await expect(flush).rejects.toBe(error)
    writeTo(writer, 2, 2)
    await expect(writer.flush()).rejects.toBe(error)
    await expect(writer.seal(end(3))).rejects.toBe(error)
  })
})

describe('callbacks', () => {
  test('get every record once, in order, including those they write', async () => {
    const stored: StreamEvent[] = []
    const writer = open({
      onStored(events) {
        stored.push(...events)
        if (stored.length === 3) writer.write(event(4))
      },
    })
    writeTo(writer, 1, 3)
    expect(writer.store()).toBe(3)
    expect(writer.store()).toBe(1)
    await writer.flush()
    expect(stored.map(({ event_id: id }) => id.slice(-1))).toEqual(['1', '2', '3', '4'])
  })

  test('that throw end only their writer', async () => {
    const errors: unknown[] = []
    const fault = new Error('a fault of the caller')
    const writer = open({
      onStored: () => {
        throw fault
      },
      onFailed: (error) => errors.push(error),
    })
    writeTo(writer, 1, 2)
    const flush = writer.flush()
    writer.drain()
    writeTo(writer, 3, 3)
    expect(() => writer.stored()).not.toThrow()
    // These two are stored, whatever was thrown.
    expect(await stateOf(flush)).toBe('resolved')
    expect(errors).toEqual([fault])
    await expect(writer.flush()).rejects.toBe(fault)
    expect([writer.waiting, writer.drain().count, writer.ends]).toEqual([0, 0, 1])
  })

  test('get a failure once, after the store has settled', async () => {
    const errors: unknown[] = []
    const writer = open({ onFailed: (error) => errors.push(error) })
    writeTo(writer, 1, 1)
    writer.drain()
    const error = away('LEASE_LOST')
    writer.failed(error)
    expect(errors).toEqual([])
    writer.failed(away('STORE_CLOSED'))
    await clock.advance(20_000)
    expect(errors).toEqual([error])
    expect(writer.ends).toBe(1)
  })

  test('are not called after close', async () => {
    const calls: unknown[] = []
    const call = (what: unknown) => calls.push(what)
    for (const finish of ['stored', 'failed', 'retried', 'failed before'] as const) {
      const writer = open({ onStored: call, onFailed: call })
      writeTo(writer, 1, 2)
      writer.drain(1)
      if (finish === 'failed before') writer.failed(away('LEASE_LOST'))
      writer.close()
      if (finish === 'stored') writer.stored()
      if (finish === 'failed') writer.failed(away('LEASE_LOST'))
      if (finish === 'retried') writer.failed(away())
      await clock.advance(20_000)
      expect([writer.waiting, writer.drain().count, writer.ends]).toEqual([0, 0, 1])
      expect(clock.pending()).toBe(0)
      writer.close()
    }
    expect(calls).toEqual([])
  })
})

describe('a failing store', () => {
  test.each<ErrorCode>(['STORE_UNAVAILABLE', 'STORE_FULL', 'STORE_FAILED', 'STORE_LOCKED'])(
    'with %s gets the same records again, with newer ones',
    async (code) => {
      const stored: StreamEvent[] = []
      const writer = open({ onStored: (each) => stored.push(...each) })
      const events = writeTo(writer, 1, 2)
      const flush = writer.flush()
      for (const pause of [20, 40, 80]) {
        expect(writer.drain()).toMatchObject({ first: 1 })
        writer.failed(away(code))
        const { wakes } = writer
        events.push(...writeTo(writer, events.length + 1, events.length + 1))
        await clock.advance(pause - 1)
        // Not even by a record that comes: the store has to recover.
        expect(writer.wakes).toBe(wakes)
        await clock.advance(1)
        expect(writer.wakes).toBe(wakes + 1)
      }
      expect(writer.store()).toBe(5)
      await flush
      expect(stored).toEqual(events)
      expect(clock.pending()).toBe(0)
    },
  )

  /** When a writer asks a store that is away. */
  async function attempts(writer: TestWriter, ms: number): Promise<number[]> {
    const times: number[] = []
    let seen = 0
    for (let now = 0; now <= ms; now += 20) {
      if (writer.wakes > seen) {
        seen = writer.wakes
        times.push(clock.now())
        writer.drain()
        writer.failed(away())
      }
      await clock.advance(20)
    }
    return times
  }

  test('is retried after 20 ms, doubling up to a second, for 10 s', async () => {
    const writer = open()
    writeTo(writer, 1, 1)
    const failed = writer.flush().catch((error: TurnstreamError) => error.code)
    const times = await attempts(writer, 20_000)
    expect(await failed).toBe('STORE_UNAVAILABLE')
    expect(times.slice(0, 9)).toEqual([0, 20, 60, 140, 300, 620, 1260, 2260, 3260])
    expect(times.at(-1)).toBeLessThanOrEqual(10_000)
    expect(times.at(-1)).toBeGreaterThan(9000)
  })

  test('ends the writer after the configured time', async () => {
    const errors: unknown[] = []
    const writer = open({ retryForMs: 50, onFailed: (error) => errors.push(error) })
    writeTo(writer, 1, 3)
    expect(await attempts(writer, 200)).toEqual([0, 20])
    expect(errors).toMatchObject([{ code: 'STORE_UNAVAILABLE' }])
    expect(writer.waiting).toBe(0)
  })

  test('ends the writer after the configured number of retries', async () => {
    const errors: unknown[] = []
    const writer = open({ retryAttempts: 2, onFailed: (error) => errors.push(error) })
    writeTo(writer, 1, 3)
    expect(await attempts(writer, 5000)).toEqual([0, 20, 60])
    expect(errors).toMatchObject([{ code: 'STORE_UNAVAILABLE' }])
  })

  test('waits as long as configured, twice as long each time', async () => {
    const writer = open({ retryBaseMs: 100, retryMaxMs: 300, retryForMs: 800 })
    writeTo(writer, 1, 3)
    expect(await attempts(writer, 2000)).toEqual([0, 100, 300, 600])
  })

  test('restarts the time after a success', async () => {
    const writer = open({ retryForMs: 70 })
    for (let seq = 1; seq <= 5; seq++) {
      writeTo(writer, seq, seq)
      writer.drain()
      writer.failed(away())
      await clock.advance(20)
      writer.drain()
      writer.failed(away())
      expect(await stateOf(writer.flush())).toBe('waits')
      await clock.advance(40)
      expect(writer.store()).toBe(1)
    }
    await writer.flush()
  })

  test.each<[string, unknown]>([
    ['a lost lease', away('LEASE_LOST')],
    ['a closed store', away('STORE_CLOSED')],
    ['a record that cannot be stored', away('RECORD_INVALID')],
    ['an unexpected error', new TypeError('x')],
  ])('with %s is not retried', async (_what, error) => {
    const writer = open()
    writeTo(writer, 1, 3)
    writer.store(1)
    writer.drain()
    writer.failed(error)
    expect(clock.pending()).toBe(0)
    await expect(writer.flush()).rejects.toBe(error)
    expect([writer.waiting, writer.drain().count]).toEqual([0, 0])
  })
})

test('a writer reports how long its store has not answered', async () => {
  const writer = open()
  await clock.advance(100)
  expect(writer.stalledMs).toBe(0)
  writeTo(writer, 1, 1)
  await clock.advance(100)
  writeTo(writer, 2, 3)
  await clock.advance(100)
  expect(writer.stalledMs).toBe(200)
  writer.drain()
  writer.stored(1)
  expect(writer.stalledMs).toBe(0)
  await clock.advance(30)
  expect(writer.stalledMs).toBe(30)
  writer.store()
  await clock.advance(30)
  expect(writer.stalledMs).toBe(0)
})

test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])(
  'a writer cannot start at %s',
  (next) => {
    expect(() => open({ next })).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
  },
)
