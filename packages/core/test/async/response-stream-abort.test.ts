import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { ResponseStream, ResponseStreamError } from '../../../turnstream/src/index.ts'
import { collectGarbage, outcome, readAll, settle } from './support.ts'

const DONE = { done: true, value: undefined }
type End = (stream: ResponseStream<number>) => void
const complete: End = (stream) => stream.complete()
const error: End = (stream) => stream.error(new Error('boom'))
const abort: End = (stream) => stream.abort()

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

describe('R4 abort', () => {
  test('R4 abort() drops buffered events and throws at once', async () => {
    const stream = new ResponseStream<number>()
    stream.addEvents([1, 2, 3])
    stream.abort()
    expect(stream.getBufferSize()).toBe(0)
    expect(stream.isAborted()).toBe(true)
    const { events, error } = await readAll(stream)
    expect(events).toEqual([])
    expect(error).toBeInstanceOf(ResponseStreamError)
    expect(error).toMatchObject({ code: 'ABORTED', message: 'Stream aborted' })
  })

  test('R4 abort() reaches a waiting consumer', async () => {
    const stream = new ResponseStream()
    const reading = readAll(stream)
    await settle()
    stream.abort()
    expect((await reading).error).toMatchObject({ code: 'ABORTED' })
  })

  test('R4 abort() in the middle of an iteration throws at its next step', async () => {
    const stream = ResponseStream.fromEvents([1, 2, 3])
    const iterator = stream[Symbol.asyncIterator]()
    expect(await iterator.next()).toEqual({ done: false, value: 1 })
    stream.abort()
    expect(await outcome(iterator.next())).toBe('ABORTED')
    expect(await iterator.next()).toEqual(DONE)
  })

  test('R4 an aborted stream is aborted for every later iteration', async () => {
    const stream = new ResponseStream()
    stream.abort()
    stream.abort()
    expect((await readAll(stream)).error).toMatchObject({ code: 'ABORTED' })
    expect((await readAll(stream)).error).toMatchObject({ code: 'ABORTED' })
  })

  test('R4 the external signal aborts, and its reason is the cause', async () => {
    const controller = new AbortController()
    const stream = new ResponseStream<number>(controller.signal)
    stream.addEvent(1)
    const reason = new Error('user left')
    controller.abort(reason)
    expect(stream.isAborted()).toBe(true)
    const { events, error } = await readAll(stream)
    expect(events).toEqual([])
    expect(error).toMatchObject({ code: 'ABORTED', message: 'Stream aborted', cause: reason })
    expect(() => stream.addEvent(2)).toThrow(expect.objectContaining({ cause: reason }))
  })

  test('R4 the external signal reaches a waiting consumer', async () => {
    const controller = new AbortController()
    const reading = readAll(new ResponseStream(controller.signal))
    await settle()
    controller.abort()
    expect((await reading).error).toMatchObject({ code: 'ABORTED' })
  })

  test('R4 an already aborted signal aborts the stream', async () => {
    const stream = new ResponseStream<number>(AbortSignal.abort())
    expect(stream.isAborted()).toBe(true)
    expect(() => stream.addEvent(1)).toThrow(expect.objectContaining({ code: 'ABORTED' }))
    expect((await readAll(stream)).error).toMatchObject({ code: 'ABORTED' })
  })

  test('abort() does not abort the signal it was given', () => {
    const controller = new AbortController()
    new ResponseStream(controller.signal).abort()
    expect(controller.signal.aborted).toBe(false)
  })
})

describe('which ending wins', () => {
  test.each([
    { name: 'abort, complete', buffered: [1], calls: [abort, complete], sees: 'ABORTED' },
    { name: 'abort, error', buffered: [1], calls: [abort, error], sees: 'ABORTED' },
    { name: 'complete, abort', buffered: [1], calls: [complete, abort], sees: 'ABORTED' },
    { name: 'error, abort', buffered: [1], calls: [error, abort], sees: 'ABORTED' },
    { name: 'complete, abort', buffered: [], calls: [complete, abort], sees: DONE },
    { name: 'error, abort', buffered: [], calls: [error, abort], sees: 'STREAM_ERROR' },
    { name: 'error, complete', buffered: [], calls: [error, complete], sees: 'STREAM_ERROR' },
    { name: 'complete, error', buffered: [], calls: [complete, error], sees: DONE },
  ])('$name with $buffered buffered', async ({ buffered, calls, sees }) => {
    const stream = new ResponseStream<number>()
    stream.addEvents(buffered)
    for (const call of calls) call(stream)
    expect(await outcome(stream[Symbol.asyncIterator]().next())).toEqual(sees)
    expect(stream.isAborted()).toBe(sees === 'ABORTED')
  })
})

describe('R9 cleanup', () => {
  const signal = new AbortController().signal
  const open = () => {
    const stream = new ResponseStream<number>(signal, { clock: fakeClock() })
    stream.addEvent(1)
    return stream
  }

  test('R9 the listener is there while the stream can be aborted', async () => {
    const stream = open()
    expect(listeners(signal)).toBe(1)
    stream.complete()
    expect(listeners(signal)).toBe(1)
    await stream[Symbol.asyncIterator]().next()
    expect(listeners(signal)).toBe(0)
  })

  test.each([
    { name: 'completed', end: complete },
    { name: 'failed', end: error },
    { name: 'aborted', end: abort },
  ])('R9 a stream that was read and then $name leaves no listener', async ({ end }) => {
    const stream = open()
    const reading = readAll(stream)
    await settle()
    end(stream)
    expect(listeners(signal)).toBe(0)
    await reading
  })

  test('R9 the listener goes when the signal fires', () => {
    const controller = new AbortController()
    const stream = new ResponseStream(controller.signal)
    controller.abort()
    expect(stream.isAborted()).toBe(true)
    expect(listeners(controller.signal)).toBe(0)
  })

  test('R9 after 10,000 streams on one signal there is no listener, no timer', async () => {
    const clock = fakeClock()
    const ends = [complete, error, abort]
    for (let i = 0; i < 10_000; i++) {
      const stream = new ResponseStream<number>(signal, { clock })
      const reading = outcome(stream.toArray())
      stream.addEvents([1, 2])
      ends[i % ends.length]?.(stream)
      await reading
    }
    expect(listeners(signal)).toBe(0)
    expect(clock.pending()).toBe(0)
  })

  test('R9 the signal does not keep a finished stream alive', async () => {
    const finished = await useAndForget(signal)
    await collectGarbage()
    expect(finished.deref()).toBeUndefined()
  })

  test('unread streams cause no unhandled rejection', async () => {
    const unhandled: unknown[] = []
    const note = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', note)
    ResponseStream.fromError(new Error('nobody reads'))
    new ResponseStream().abort()
    const abandoned = new ResponseStream<number>()
    const iterator = abandoned[Symbol.asyncIterator]()
    const next = iterator.next()
    await iterator.return?.()
    abandoned.error(new Error('nobody is left'))
    const left = ResponseStream.fromEvents([1, 2])
    for await (const _ of left.map(String)) break
    left.abort()
    await settle()
    process.off('unhandledRejection', note)
    expect(unhandled).toEqual([])
    expect(await next).toEqual(DONE)
  })
})

async function useAndForget(signal: AbortSignal): Promise<WeakRef<ResponseStream<number>>> {
  const stream = new ResponseStream<number>(signal)
  stream.addEvent(1)
  stream.complete()
  await stream.toArray()
  return new WeakRef(stream)
}
