import { describe, expect, expectTypeOf, test } from 'vitest'
import {
  type ResponseEvent,
  ResponseStream,
  ResponseStreamError,
  TurnstreamError,
} from '../../../turnstream/src/index.ts'
import { delta, readAll, settle } from './support.ts'

const small = (maxBufferSize: number) => new ResponseStream<number>(undefined, { maxBufferSize })

describe('lifecycle', () => {
  test('create, add, complete, iterate, done', async () => {
    const stream = new ResponseStream()
    stream.addEvent({ type: 'Created' })
    stream.addEvent(delta('Hi'))
    stream.complete()
    expect(await readAll(stream)).toEqual({
      events: [{ type: 'Created' }, delta('Hi')],
      error: undefined,
    })
  })

  test('a waiting consumer gets what a producer adds later', async () => {
    const stream = new ResponseStream()
    const reading = readAll(stream)
    await settle()
    stream.addEvent({ type: 'Created' })
    await settle()
    stream.addEvents([delta('H'), delta('i')])
    stream.complete()
    expect((await reading).events).toEqual([{ type: 'Created' }, delta('H'), delta('i')])
  })

  test('a completed stream can be iterated again and is still complete', async () => {
    const stream = ResponseStream.fromEvents([1, 2])
    expect((await readAll(stream)).events).toEqual([1, 2])
    expect(await readAll(stream)).toEqual({ events: [], error: undefined })
  })

  test('undefined is an event like any other', async () => {
    const stream = ResponseStream.fromEvents([undefined, 1, undefined])
    expect(await stream.toArray()).toEqual([undefined, 1, undefined])
  })
})

describe('R1 configuration', () => {
  test('R1 by default 1000 events fit and the next is rejected', () => {
    const stream = new ResponseStream<number>()
    for (let i = 0; i < 1000; i++) stream.addEvent(i)
    expect(() => stream.addEvent(1000)).toThrow('Backpressure: 1000 events waiting')
  })

  test.each([
    { maxBufferSize: 0 },
    { maxBufferSize: -1 },
    { maxBufferSize: 1.5 },
    { maxBufferSize: Number.NaN },
    { maxBufferSize: -Infinity },
    { maxBufferSize: 0, enableBackpressure: false },
    { eventTimeout: -1 },
    { eventTimeout: Number.NaN },
    { eventTimeout: -Infinity },
  ])('%o is refused', (config) => {
    const create = () => new ResponseStream(undefined, config)
    expect(create).toThrow(TurnstreamError)
    expect(create).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
    expect(create).toThrow(Object.keys(config)[0])
  })

  test.each([
    {},
    { maxBufferSize: 1 },
    { maxBufferSize: Infinity },
    { eventTimeout: 0 },
    { eventTimeout: 0.5 },
    { eventTimeout: Infinity },
  ])('%o is accepted', (config) => {
    expect(new ResponseStream(undefined, config).getBufferSize()).toBe(0)
  })
})

describe('R2 backpressure', () => {
  test('R2 a full buffer rejects events and does not change', async () => {
    const stream = small(2)
    stream.addEvents([1, 2])
    const refused = () => stream.addEvent(3)
    expect(refused).toThrow(ResponseStreamError)
    expect(refused).toThrow(expect.objectContaining({ code: 'BACKPRESSURE' }))
    expect(refused).toThrow(/^Backpressure: 2 events waiting$/)
    expect(stream.getBufferSize()).toBe(2)
    stream.complete()
    expect(await stream.toArray()).toEqual([1, 2])
  })

  test('R2 reading makes room', async () => {
    const stream = small(2)
    stream.addEvents([1, 2])
    const iterator = stream[Symbol.asyncIterator]()
    await iterator.next()
    expect(stream.getBufferSize()).toBe(1)
    stream.addEvent(3)
    expect(() => stream.addEvent(4)).toThrow(ResponseStreamError)
  })

  test('R2 an event for a waiting consumer needs no room', async () => {
    const stream = small(1)
    const next = stream[Symbol.asyncIterator]().next()
    stream.addEvents([1, 2])
    expect(await next).toEqual({ done: false, value: 1 })
    expect(stream.getBufferSize()).toBe(1)
  })

  test('R2 without backpressure the buffer grows', async () => {
    const stream = new ResponseStream<number>(undefined, {
      maxBufferSize: 2,
      enableBackpressure: false,
    })
    for (let i = 0; i < 5000; i++) stream.addEvent(i)
    expect(stream.getBufferSize()).toBe(5000)
    stream.complete()
    expect(await stream.toArray()).toEqual(Array.from({ length: 5000 }, (_, i) => i))
  })

  test('R2 addEvents adds all or nothing', () => {
    const stream = small(3)
    stream.addEvent(1)
    expect(() => stream.addEvents([2, 3, 4])).toThrow(/^Backpressure: 1 events waiting$/)
    expect(stream.getBufferSize()).toBe(1)
    stream.addEvents([2, 3])
    expect(stream.getBufferSize()).toBe(3)
  })

  test('R2 addEvents of nothing does nothing, even after the end', () => {
    const stream = small(1)
    stream.addEvent(1)
    stream.addEvents([])
    stream.complete()
    expect(() => stream.addEvents([])).not.toThrow()
  })
})

describe('R3 error', () => {
  test('R3 error() delivers buffered events first', async () => {
    const stream = new ResponseStream<number>()
    const cause = new Error('connection reset')
    stream.addEvents([1, 2, 3])
    stream.error(cause)
    const { events, error } = await readAll(stream)
    expect(events).toEqual([1, 2, 3])
    expect(error).toBeInstanceOf(ResponseStreamError)
    expect(error).toMatchObject({
      code: 'STREAM_ERROR',
      message: 'Stream error: connection reset',
      cause,
    })
  })

  test('R3 error() reaches a waiting consumer', async () => {
    const stream = new ResponseStream()
    const reading = readAll(stream)
    await settle()
    stream.error(new Error('boom'))
    expect((await reading).error).toMatchObject({ code: 'STREAM_ERROR' })
  })

  test('R3 the first error() wins', async () => {
    const stream = new ResponseStream()
    stream.error(new Error('first'))
    stream.error(new Error('second'))
    stream.complete()
    expect((await readAll(stream)).error).toMatchObject({ message: 'Stream error: first' })
  })

  test('R3 after complete() error() is ignored', async () => {
    const stream = ResponseStream.fromEvents([1])
    stream.error(new Error('late'))
    expect(await readAll(stream)).toEqual({ events: [1], error: undefined })
  })

  test('R3 a failed stream also fails for later iterations', async () => {
    const stream = ResponseStream.fromError(new Error('boom'))
    const first = (await readAll(stream)).error
    expect((await readAll(stream)).error).toBe(first)
  })

  test.each(['text', 42, null, undefined, { code: 7 }, Object.create(null)])(
    'R3 the cause need not be an Error: %o',
    async (cause) => {
      const stream = ResponseStream.fromError(cause)
      const { error } = await readAll(stream)
      expect(error).toMatchObject({ message: 'Stream error', code: 'STREAM_ERROR' })
      expect((error as Error).cause).toBe(cause)
    },
  )
})

describe('R7 endings and factories', () => {
  test.each([0, 1, 1001, 5000])('R7 fromEvents takes %i events', async (count) => {
    const events = Array.from({ length: count }, (_, i) => i)
    const stream = ResponseStream.fromEvents(events)
    expect(stream.isStreamCompleted()).toBe(true)
    expect(stream.getBufferSize()).toBe(count)
    expect(await stream.toArray()).toEqual(events)
  })

  test('R7 fromError errors at once', async () => {
    const stream = ResponseStream.fromError(new Error('Test error'))
    expect(stream.isStreamCompleted()).toBe(true)
    const { events, error } = await readAll(stream)
    expect(events).toEqual([])
    expect(error).toMatchObject({ code: 'STREAM_ERROR', message: 'Stream error: Test error' })
  })

  test('R7 complete() is idempotent', async () => {
    const stream = ResponseStream.fromEvents([1])
    stream.complete()
    stream.complete()
    expect(await stream.toArray()).toEqual([1])
    expect(() => stream.complete()).not.toThrow()
  })

  test('R7 isStreamCompleted() is true after complete() and after error()', () => {
    const completed = new ResponseStream()
    const failed = new ResponseStream()
    const aborted = new ResponseStream()
    expect(completed.isStreamCompleted()).toBe(false)
    completed.complete()
    failed.error(new Error('x'))
    aborted.abort()
    expect(completed.isStreamCompleted()).toBe(true)
    expect(failed.isStreamCompleted()).toBe(true)
    expect(aborted.isStreamCompleted()).toBe(false)
  })

  test('R7 it stays true after a later abort', () => {
    const stream = ResponseStream.fromEvents([1])
    stream.abort()
    expect(stream.isStreamCompleted()).toBe(true)
    expect(stream.isAborted()).toBe(true)
  })
})

test('the event type is generic', async () => {
  expectTypeOf(await new ResponseStream().take(0).next()).toEqualTypeOf<
    IteratorResult<ResponseEvent, void>
  >()
  const numbers = ResponseStream.fromEvents([1, 2, 3])
  expectTypeOf(numbers).toEqualTypeOf<ResponseStream<number>>()
  expectTypeOf(numbers.map(String)).toEqualTypeOf<AsyncGenerator<string, void>>()
  const deltas = new ResponseStream().filter((event) => event.type === 'OutputTextDelta')
  expectTypeOf(deltas).toExtend<AsyncIterable<{ type: 'OutputTextDelta'; delta: string }>>()
  const all = await numbers.toArray()
  expectTypeOf(all).toEqualTypeOf<number[]>()
  expect(all).toEqual([1, 2, 3])
})
