import { describe, expect, test } from 'vitest'
import { ResponseStream } from '../../../turnstream/src/index.ts'
import { look, outcome, readAll, settle } from './support.ts'

const small = (maxBufferSize: number) => new ResponseStream<number>(undefined, { maxBufferSize })

/** Calls `send` for each number without waiting; notes the order in which the sends settle. */
function sendAll(stream: ResponseStream<number>, events: number[]) {
  const settled: [event: number, result: unknown][] = []
  const send = async (event: number) => {
    settled.push([event, (await outcome(stream.send(event))) ?? 'sent'])
  }
  return { settled, all: Promise.all(events.map(send)) }
}

describe('send', () => {
  test('resolves at once while there is room', async () => {
    const stream = small(2)
    expect(await look(stream.send(1))).toBeUndefined()
    expect(await look(stream.send(2))).toBeUndefined()
    expect(stream.getBufferSize()).toBe(2)
  })

  test('does not allocate a promise while there is room', () => {
    const stream = small(2)
    expect(stream.send(1)).toBe(stream.send(2))
  })

  test('resolves at once when a consumer waits', async () => {
    const stream = small(1)
    const next = stream[Symbol.asyncIterator]().next()
    expect(await look(stream.send(1))).toBeUndefined()
    expect(await next).toEqual({ done: false, value: 1 })
    expect(stream.getBufferSize()).toBe(0)
  })

  test('waits when the buffer is full, until one event was read', async () => {
    const stream = small(1)
    stream.addEvent(1)
    const sent = stream.send(2)
    expect(await look(sent)).toBe('waiting')
    expect(stream.getBufferSize()).toBe(1)
    const iterator = stream[Symbol.asyncIterator]()
    expect(await iterator.next()).toEqual({ done: false, value: 1 })
    expect(await look(sent)).toBeUndefined()
    expect(await iterator.next()).toEqual({ done: false, value: 2 })
  })

  test('waiting senders are served in the order they came, one per event read', async () => {
    const stream = small(1)
    stream.addEvent(0)
    const { settled } = sendAll(stream, [1, 2, 3])
    const iterator = stream[Symbol.asyncIterator]()
    for (const count of [1, 2, 3]) {
      await iterator.next()
      await settle()
      expect(settled).toEqual([1, 2, 3].slice(0, count).map((event) => [event, 'sent']))
    }
  })

  test('nothing overtakes a waiting sender', async () => {
    const stream = small(2)
    stream.addEvents([1, 2])
    const { all } = sendAll(stream, [3, 4])
    expect(() => stream.addEvent(99)).toThrow(expect.objectContaining({ code: 'BACKPRESSURE' }))
    const iterator = stream[Symbol.asyncIterator]()
    await iterator.next()
    expect(() => stream.addEvent(99)).toThrow(expect.objectContaining({ code: 'BACKPRESSURE' }))
    await iterator.next()
    await all
    await iterator.return?.()
    stream.complete()
    expect(await stream.toArray()).toEqual([3, 4])
  })

  test('a producer that awaits each send never exceeds the buffer', async () => {
    const stream = small(3)
    let highest = 0
    const produce = async () => {
      for (let i = 0; i < 200; i++) {
        await stream.send(i)
        highest = Math.max(highest, stream.getBufferSize())
      }
      stream.complete()
    }
    const [{ events }] = await Promise.all([readAll(stream), produce()])
    expect(events).toEqual(Array.from({ length: 200 }, (_, i) => i))
    expect(highest).toBeLessThanOrEqual(3)
  })

  test('without backpressure nothing ever waits', async () => {
    const config = { maxBufferSize: 1, enableBackpressure: false }
    const stream = new ResponseStream<number>(undefined, config)
    for (let i = 0; i < 100; i++) expect(await look(stream.send(i))).toBeUndefined()
    expect(stream.getBufferSize()).toBe(100)
  })
})

describe('sends that wait when the stream ends', () => {
  test('complete() delivers them in order before the end', async () => {
    const stream = small(1)
    stream.addEvent(1)
    const { settled, all } = sendAll(stream, [2, 3])
    stream.complete()
    expect(await readAll(stream)).toEqual({ events: [1, 2, 3], error: undefined })
    await all
    expect(settled).toEqual([
      [2, 'sent'],
      [3, 'sent'],
    ])
  })

  test('error() delivers them in order before it throws', async () => {
    const stream = small(1)
    stream.addEvent(1)
    const { settled, all } = sendAll(stream, [2, 3])
    stream.error(new Error('boom'))
    const { events, error } = await readAll(stream)
    expect(events).toEqual([1, 2, 3])
    expect(error).toMatchObject({ code: 'STREAM_ERROR' })
    await all
    expect(settled).toEqual([
      [2, 'sent'],
      [3, 'sent'],
    ])
  })

  test('R4 abort() rejects them with ABORTED', async () => {
    const stream = small(1)
    stream.addEvent(1)
    const { settled, all } = sendAll(stream, [2, 3])
    stream.abort()
    await all
    expect(settled).toEqual([
      [2, 'ABORTED'],
      [3, 'ABORTED'],
    ])
    expect(stream.getBufferSize()).toBe(0)
  })

  test('R4 abort() after complete() rejects those that still wait', async () => {
    const stream = small(1)
    stream.addEvent(1)
    const { settled, all } = sendAll(stream, [2, 3])
    stream.complete()
    await stream[Symbol.asyncIterator]().next()
    stream.abort()
    await all
    expect(settled).toEqual([
      [2, 'sent'],
      [3, 'ABORTED'],
    ])
  })
})
