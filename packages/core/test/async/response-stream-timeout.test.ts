import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import { ResponseStream, ResponseStreamError } from '../../../turnstream/src/index.ts'
import { look, outcome, readAll } from './support.ts'

const DONE = { done: true, value: undefined }

describe('R5 timeout', () => {
  let clock: FakeClock
  let stream: ResponseStream<number>

  beforeEach(() => {
    clock = fakeClock(1_000_000)
    stream = new ResponseStream<number>(undefined, { eventTimeout: 100, clock })
  })

  test('R5 a wait of eventTimeout ms throws TIMEOUT', async () => {
    const reading = readAll(stream)
    await clock.advance(99)
    expect(await look(reading)).toBe('waiting')
    await clock.advance(1)
    const { events, error } = await reading
    expect(events).toEqual([])
    expect(error).toBeInstanceOf(ResponseStreamError)
    expect(error).toMatchObject({ code: 'TIMEOUT', message: 'Event timeout after 100ms' })
    expect(clock.pending()).toBe(0)
  })

  test('R5 every event restarts the timeout', async () => {
    const reading = readAll(stream)
    for (let i = 0; i < 10; i++) {
      await clock.advance(99)
      stream.addEvent(i)
    }
    await clock.advance(99)
    expect(await look(reading)).toBe('waiting')
    await clock.advance(1)
    const { events, error } = await reading
    expect(events).toHaveLength(10)
    expect(error).toMatchObject({ code: 'TIMEOUT' })
  })

  test('R5 only the time the consumer waits counts', async () => {
    stream.addEvents([1, 2])
    const iterator = stream[Symbol.asyncIterator]()
    await clock.advance(1000)
    await iterator.next()
    await clock.advance(1000)
    expect(await iterator.next()).toEqual({ done: false, value: 2 })
    const next = iterator.next()
    await clock.advance(99)
    expect(await look(next)).toBe('waiting')
    const timedOut = outcome(next)
    await clock.advance(1)
    expect(await timedOut).toBe('TIMEOUT')
  })

  test('R5 the stream stays usable after a timeout', async () => {
    const first = readAll(stream)
    await clock.advance(100)
    expect((await first).error).toMatchObject({ code: 'TIMEOUT' })
    stream.addEvent(1)
    const second = readAll(stream)
    stream.addEvent(2)
    stream.complete()
    expect(await second).toEqual({ events: [1, 2], error: undefined })
  })

  test('R5 the iterator that timed out is finished and holds no lock', async () => {
    const iterator = stream[Symbol.asyncIterator]()
    const timedOut = outcome(iterator.next())
    await clock.advance(100)
    expect(await timedOut).toBe('TIMEOUT')
    stream.addEvent(1)
    expect(await iterator.next()).toEqual(DONE)
    expect(await stream[Symbol.asyncIterator]().next()).toEqual({ done: false, value: 1 })
  })

  test('R5 of several waiting next() the first times out, the others are done', async () => {
    const iterator = stream[Symbol.asyncIterator]()
    const outcomes = [iterator.next(), iterator.next(), iterator.next()].map(outcome)
    await clock.advance(100)
    expect(await Promise.all(outcomes)).toEqual(['TIMEOUT', DONE, DONE])
    expect(clock.pending()).toBe(0)
  })

  test('R5 a later next() does not give the first more time', async () => {
    const iterator = stream[Symbol.asyncIterator]()
    const first = outcome(iterator.next())
    await clock.advance(60)
    const second = outcome(iterator.next())
    await clock.advance(40)
    expect(await first).toBe('TIMEOUT')
    expect(await second).toEqual(DONE)
  })

  test('R5 a next() behind another gets the full timeout once it is first', async () => {
    const iterator = stream[Symbol.asyncIterator]()
    const [first, second] = [iterator.next(), iterator.next()]
    await clock.advance(60)
    stream.addEvent(1)
    expect(await first).toEqual({ done: false, value: 1 })
    await clock.advance(99)
    expect(await look(second)).toBe('waiting')
    const timedOut = outcome(second)
    await clock.advance(1)
    expect(await timedOut).toBe('TIMEOUT')
  })

  test('R5 toArray fails with COLLECTION_ERROR caused by TIMEOUT', async () => {
    const all = stream.toArray().catch((error: unknown) => error)
    await clock.advance(100)
    expect(await all).toMatchObject({ code: 'COLLECTION_ERROR', cause: { code: 'TIMEOUT' } })
  })

  test.each([0, Infinity])('R1 eventTimeout %d turns it off', async (eventTimeout) => {
    const patient = new ResponseStream<number>(undefined, { eventTimeout, clock })
    const next = patient[Symbol.asyncIterator]().next()
    expect(clock.pending()).toBe(0)
    await clock.advance(1e9)
    expect(await look(next)).toBe('waiting')
    patient.addEvent(1)
    expect(await next).toEqual({ done: false, value: 1 })
  })

  test('R1 by default it is 30000 ms', async () => {
    const reading = readAll(new ResponseStream(undefined, { clock }))
    await clock.advance(29_999)
    expect(await look(reading)).toBe('waiting')
    await clock.advance(1)
    expect((await reading).error).toMatchObject({ message: 'Event timeout after 30000ms' })
  })
})

describe('the timer', () => {
  let clock: FakeClock
  let stream: ResponseStream<number>

  beforeEach(() => {
    clock = fakeClock()
    stream = new ResponseStream<number>(undefined, { clock })
  })

  test('there is none before a consumer waits', async () => {
    stream.addEvent(1)
    await stream[Symbol.asyncIterator]().next()
    expect(clock.pending()).toBe(0)
  })

  test('is set once a second, however many waits there are', async () => {
    const after = vi.spyOn(clock, 'after')
    const reading = readAll(stream)
    for (let i = 0; i < 999; i++) {
      await clock.advance(1)
      stream.addEvent(i)
    }
    stream.complete()
    expect((await reading).events).toHaveLength(999)
    expect(after).toHaveBeenCalledTimes(1)
  })

  const waysToStop = {
    'complete()': () => stream.complete(),
    'error()': () => stream.error(new Error('boom')),
    'abort()': () => stream.abort(),
  }
  test.each(Object.entries(waysToStop))('%s gives it back while a next() waits', (_, stop) => {
    void outcome(stream[Symbol.asyncIterator]().next())
    expect(clock.pending()).toBe(1)
    stop()
    expect(clock.pending()).toBe(0)
  })

  test.each(Object.entries(waysToStop))('%s gives it back between two next()', async (_, stop) => {
    const iterator = stream[Symbol.asyncIterator]()
    const next = iterator.next()
    stream.addEvent(1)
    await next
    expect(clock.pending()).toBe(1)
    stop()
    expect(clock.pending()).toBe(0)
  })

  test('leaving the loop cancels it', async () => {
    setImmediate(() => stream.addEvent(1))
    for await (const event of stream) if (event === 1) break
    expect(clock.pending()).toBe(0)
  })

  test('expires when no consumer returns', async () => {
    const next = stream[Symbol.asyncIterator]().next()
    stream.addEvent(1)
    await next
    await clock.advance(30_000)
    expect(clock.pending()).toBe(0)
  })
})

describe('with the system clock', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  test('R5 the default clock times out', async () => {
    const reading = readAll(new ResponseStream(undefined, { eventTimeout: 100 }))
    await vi.advanceTimersByTimeAsync(100)
    expect((await reading).error).toMatchObject({ code: 'TIMEOUT' })
    expect(vi.getTimerCount()).toBe(0)
  })

  test('a timeout longer than setTimeout can count does not fire at once', async () => {
    const stream = new ResponseStream(undefined, { eventTimeout: 2 ** 40 })
    const next = stream[Symbol.asyncIterator]().next()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await look(next)).toBe('waiting')
    stream.complete()
    expect(await next).toEqual(DONE)
  })
})
