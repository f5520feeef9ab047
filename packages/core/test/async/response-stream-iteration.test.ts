import { describe, expect, test } from 'vitest'
import {
  type ResponseEvent,
  ResponseStream,
  ResponseStreamError,
} from '../../../turnstream/src/index.ts'
import { delta, look, outcome, readAll, settle } from './support.ts'

const DONE = { done: true, value: undefined }
const value = <T>(of: T) => ({ done: false, value: of })

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const events: T[] = []
  for await (const event of source) events.push(event)
  return events
}

describe('R6 take', () => {
  test.each([
    { count: 0, taken: [], left: 5 },
    { count: 1, taken: [1], left: 4 },
    { count: 3, taken: [1, 2, 3], left: 2 },
    { count: 5, taken: [1, 2, 3, 4, 5], left: 0 },
    { count: 9, taken: [1, 2, 3, 4, 5], left: 0 },
    { count: Infinity, taken: [1, 2, 3, 4, 5], left: 0 },
  ])('R6 take($count) of 5 leaves $left', async ({ count, taken, left }) => {
    const stream = ResponseStream.fromEvents([1, 2, 3, 4, 5])
    expect(await collect(stream.take(count))).toEqual(taken)
    expect(stream.getBufferSize()).toBe(left)
  })

  test('R6 take(n) ends while the stream is open and reads nothing more', async () => {
    const stream = new ResponseStream<number>()
    stream.addEvents([1, 2])
    expect(await collect(stream.take(2))).toEqual([1, 2])
    stream.addEvent(3)
    expect(stream.getBufferSize()).toBe(1)
  })

  test('R6 take(0) is done at once on an open stream', async () => {
    expect(await outcome(new ResponseStream().take(0).next())).toEqual(DONE)
  })

  test('R6 a take continues where the last one stopped', async () => {
    const stream = ResponseStream.fromEvents([1, 2, 3, 4, 5])
    expect(await collect(stream.take(2))).toEqual([1, 2])
    expect(await collect(stream.take(2))).toEqual([3, 4])
    expect(await stream.toArray()).toEqual([5])
  })

  test.each([-1, 1.5, Number.NaN])('take(%d) is rejected', async (count) => {
    const taken = ResponseStream.fromEvents([1]).take(count)
    expect(await outcome(taken.next())).toBe('OPTION_INVALID')
  })

  test('take throws what the stream throws', async () => {
    const stream = new ResponseStream<number>()
    stream.addEvent(1)
    stream.error(new Error('boom'))
    const { events, error } = await readAll(stream.take(5))
    expect(events).toEqual([1])
    expect(error).toMatchObject({ code: 'STREAM_ERROR' })
  })
})

describe('R6 leaving and resuming', () => {
  test('R6 iterating again after a break continues', async () => {
    const stream = ResponseStream.fromEvents([1, 2, 3, 4])
    for await (const event of stream) if (event === 2) break
    expect(stream.getBufferSize()).toBe(2)
    expect(await collect(stream)).toEqual([3, 4])
  })

  test('R6 an exception in the loop loses nothing', async () => {
    const stream = ResponseStream.fromEvents([1, 2, 3])
    const failing = async () => {
      for await (const event of stream) if (event === 1) throw new Error('consumer')
    }
    await expect(failing()).rejects.toThrow('consumer')
    expect(await collect(stream)).toEqual([2, 3])
  })

  test('return() ends a waiting next(), and the event goes to the next reader', async () => {
    const stream = new ResponseStream<number>()
    const iterator = stream[Symbol.asyncIterator]()
    const next = iterator.next()
    expect(await iterator.return?.()).toEqual(DONE)
    expect(await next).toEqual(DONE)
    stream.addEvent(1)
    expect(await iterator.next()).toEqual(DONE)
    expect(await stream[Symbol.asyncIterator]().next()).toEqual(value(1))
  })

  test('return() before the first next() finishes the iterator, not the stream', async () => {
    const stream = ResponseStream.fromEvents([1])
    const iterator = stream[Symbol.asyncIterator]()
    await iterator.return?.()
    expect(await iterator.next()).toEqual(DONE)
    expect(stream.getBufferSize()).toBe(1)
  })
})

describe('R6 one consumer at a time', () => {
  test('R6 a second concurrent iteration throws ITERATION_ERROR, the first continues', async () => {
    const stream = new ResponseStream<number>()
    const first = readAll(stream)
    await settle()
    const second = await readAll(stream)
    expect(second.events).toEqual([])
    expect(second.error).toBeInstanceOf(ResponseStreamError)
    expect(second.error).toMatchObject({ code: 'ITERATION_ERROR' })
    stream.addEvents([1, 2])
    stream.complete()
    expect(await first).toEqual({ events: [1, 2], error: undefined })
  })

  test('R6 the lock is taken by next(), not by creating an iterator', async () => {
    const stream = ResponseStream.fromEvents([1, 2])
    const unused = stream[Symbol.asyncIterator]()
    const used = stream[Symbol.asyncIterator]()
    expect(await used.next()).toEqual(value(1))
    expect(await outcome(unused.next())).toBe('ITERATION_ERROR')
    expect(await used.next()).toEqual(value(2))
  })

  test('R6 return() of a rejected iterator does not release the lock', async () => {
    const stream = ResponseStream.fromEvents([1, 2])
    const holder = stream[Symbol.asyncIterator]()
    const other = stream[Symbol.asyncIterator]()
    await holder.next()
    await outcome(other.next())
    await other.return?.()
    expect(await outcome(stream[Symbol.asyncIterator]().next())).toBe('ITERATION_ERROR')
    expect(await holder.next()).toEqual(value(2))
  })

  test('R6 a rejected iterator is finished', async () => {
    const stream = ResponseStream.fromEvents([1, 2])
    const holder = stream[Symbol.asyncIterator]()
    const other = stream[Symbol.asyncIterator]()
    await holder.next()
    await outcome(other.next())
    await holder.return?.()
    expect(await other.next()).toEqual(DONE)
    expect(stream.getBufferSize()).toBe(1)
  })

  test.each(['filter', 'map', 'take'] as const)('R6 %s also holds the lock', async (helper) => {
    const stream = ResponseStream.fromEvents([1, 2])
    const helpers = {
      filter: stream.filter(() => true),
      map: stream.map((event) => event),
      take: stream.take(2),
    }
    await helpers[helper].next()
    expect(await outcome(stream[Symbol.asyncIterator]().next())).toBe('ITERATION_ERROR')
    await helpers[helper].return()
    expect(await collect(stream)).toEqual([2])
  })
})

describe('the iterator', () => {
  test('is itself iterable', async () => {
    const iterator = ResponseStream.fromEvents([1, 2])[Symbol.asyncIterator]()
    expect(await collect(iterator)).toEqual([1, 2])
  })

  test('several next() at once are answered in order', async () => {
    const stream = new ResponseStream<number>()
    const iterator = stream[Symbol.asyncIterator]()
    const nexts = [iterator.next(), iterator.next(), iterator.next(), iterator.next()]
    stream.addEvents([1, 2])
    stream.addEvent(3)
    stream.complete()
    expect(await Promise.all(nexts)).toEqual([value(1), value(2), value(3), DONE])
  })

  test('several next() at the end: the first throws, the others are done', async () => {
    const stream = new ResponseStream<number>()
    const iterator = stream[Symbol.asyncIterator]()
    const nexts = [iterator.next(), iterator.next(), iterator.next()]
    stream.error(new Error('boom'))
    expect(await Promise.all(nexts.map(outcome))).toEqual(['STREAM_ERROR', DONE, DONE])
    expect(await iterator.next()).toEqual(DONE)
  })

  test('stays done', async () => {
    const iterator = ResponseStream.fromEvents<number>([])[Symbol.asyncIterator]()
    expect(await iterator.next()).toEqual(DONE)
    expect(await iterator.next()).toEqual(DONE)
  })
})

describe('R7 filter, map, toArray', () => {
  const events: ResponseEvent[] = [{ type: 'Created' }, delta('a'), delta('b')]

  test('R7 filter yields what the predicate accepts, narrowed', async () => {
    const texts: string[] = []
    const stream = ResponseStream.fromEvents(events)
    for await (const event of stream.filter((e) => e.type === 'OutputTextDelta')) {
      texts.push(event.delta)
    }
    expect(texts).toEqual(['a', 'b'])
  })

  test('R7 map yields what the mapper makes', async () => {
    const types = ResponseStream.fromEvents(events).map((event) => event.type)
    expect(await collect(types)).toEqual(['Created', 'OutputTextDelta', 'OutputTextDelta'])
  })

  test.each(['filter', 'map'] as const)('R7 exceptions in %s propagate', async (name) => {
    const stream = ResponseStream.fromEvents([1, 2])
    const mistake = new TypeError('mine')
    const broken = () => {
      throw mistake
    }
    const { error } = await readAll<unknown>(
      name === 'filter' ? stream.filter(broken) : stream.map(broken),
    )
    expect(error).toBe(mistake)
    expect(await collect(stream)).toEqual([2])
  })

  test('R7 toArray waits for the end', async () => {
    const stream = new ResponseStream<number>()
    stream.addEvent(1)
    const all = stream.toArray()
    expect(await look(all)).toBe('waiting')
    stream.addEvent(2)
    stream.complete()
    expect(await all).toEqual([1, 2])
  })

  test.each([
    { code: 'STREAM_ERROR', end: (stream: ResponseStream) => stream.error(new Error('boom')) },
    { code: 'ABORTED', end: (stream: ResponseStream) => stream.abort() },
  ])('R7 toArray fails with COLLECTION_ERROR, the cause is $code', async ({ code, end }) => {
    const stream = new ResponseStream()
    const all = stream.toArray()
    end(stream)
    await expect(all).rejects.toBeInstanceOf(ResponseStreamError)
    await expect(all).rejects.toMatchObject({ code: 'COLLECTION_ERROR', cause: { code } })
  })

  test('R7 toArray beside another iteration is a COLLECTION_ERROR', async () => {
    const stream = ResponseStream.fromEvents([1, 2])
    await stream[Symbol.asyncIterator]().next()
    const cause = { code: 'ITERATION_ERROR' }
    await expect(stream.toArray()).rejects.toMatchObject({ code: 'COLLECTION_ERROR', cause })
  })
})
