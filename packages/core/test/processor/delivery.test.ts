import { describe, expect, test } from 'vitest'
import { RetryExhaustedError } from '../../src/index.ts'
import { delta, done, finish, open, responseDone, start } from './events.ts'
import { gate, setUp, watch } from './sinks.ts'

const x = (length: number) => 'x'.repeat(length)

describe('P14 order', () => {
  test('events that are not awaited are processed in call order', async () => {
    const sink = gate()
    const { processor, clock, accepted } = setUp({}, sink.pass)
    void processor.processEvent(start())
    for (const id of ['a', 'b', 'c']) void processor.processEvent(done(id, id))
    void processor.processEvent(responseDone())
    for (let released = 0; released < 5; released++) {
      expect(accepted).toHaveLength(released)
      sink.releaseOne()
      await clock.advance(0)
    }
    expect(accepted.map((output) => ('itemId' in output ? output.itemId : output.type))).toEqual([
      'turn_started',
      'a',
      'b',
      'c',
      'turn_complete',
    ])
  })

  test('an emission in backoff holds back all that follow', async () => {
    const { processor, clock, accepted } = setUp({}, (count) => {
      if (count <= 3) throw new Error('down')
    })
    void processor.processEvent(done('a', 'first'))
    void processor.processEvent(done('b', 'second'))
    await clock.advance(6999)
    expect(accepted).toEqual([])
    await clock.advance(1)
    expect(accepted).toMatchObject([{ itemId: 'a' }, { itemId: 'b' }])
  })

  test('an event settles with its own emissions, not with those before it', async () => {
    const sink = gate()
    const { processor, clock } = setUp({}, sink.pass)
    const first = watch(processor.processEvent(done('a', 'first')))
    const silent = watch(processor.processEvent(open('b')))
    const second = watch(processor.processEvent(done('b', 'second')))
    await clock.advance(0)
    expect([first.settled, silent.settled, second.settled]).toEqual(['no', 'resolved', 'no'])
    sink.releaseOne()
    await clock.advance(0)
    expect([first.settled, second.settled]).toEqual(['resolved', 'no'])
  })

  test('a timer emission goes through the same queue', async () => {
    const sink = gate()
    const { processor, clock, accepted } = setUp({}, sink.pass)
    void processor.processEvent(open('m'))
    void processor.processEvent(delta('m', 'slow'))
    void processor.processEvent(done('a', 'first'))
    await clock.advance(1000)
    void processor.processEvent(done('b', 'last'))
    sink.open()
    await clock.advance(0)
    expect(accepted.map((output) => 'itemId' in output && output.itemId)).toEqual(['a', 'm', 'b'])
  })

  test('emissions are never merged in the queue', async () => {
    const sink = gate()
    const { processor, clock, accepted } = setUp({ batchGradient: [1] }, sink.pass)
    void processor.processEvent(open('m'))
    for (let count = 0; count < 5; count++) void processor.processEvent(delta('m', 'abcdefgh'))
    sink.open()
    await clock.advance(0)
    expect(accepted.map((output) => 'content' in output && output.content.length)).toEqual([
      8, 16, 24, 32, 40,
    ])
    expect(accepted.map((output) => 'status' in output && output.status)).toEqual([
      'create',
      'update',
      'update',
      'update',
      'update',
    ])
  })

  test('a sink may call the processor', async () => {
    const { processor, clock, accepted } = setUp({}, (_count, output) => {
      if (output.type === 'turn_started') void processor.processEvent(done('m', 'echo'))
    })
    await processor.processEvent(start())
    await clock.advance(0)
    expect(accepted).toMatchObject([{ type: 'turn_started' }, { content: 'echo' }])
  })
})

describe('P14 overflow', () => {
  test('the 1,001st undelivered emission is rejected and changes nothing', async () => {
    const sink = gate()
    const { processor, clock, accepted } = setUp({}, sink.pass)
    void processor.processEvent(start())
    void processor.processEvent(open('m'))
    for (let count = 0; count < 999; count++) void processor.processEvent(done(`i${count}`, ''))
    await expect(processor.processEvent(done('m', 'text'))).rejects.toMatchObject({
      code: 'PROCESSOR_OVERFLOW',
    })
    await expect(processor.processEvent(delta('m', x(41)))).rejects.toMatchObject({
      code: 'PROCESSOR_OVERFLOW',
    })
    expect(processor.getBufferState().get('m')).toMatchObject({ contentLength: 0 })
    await expect(processor.processEvent(delta('m', 'fits'))).resolves.toBeUndefined()
    await expect(processor.processEvent(responseDone())).rejects.toMatchObject({
      code: 'PROCESSOR_OVERFLOW',
    })
    sink.open()
    await clock.advance(0)
    await processor.processEvent(done('m', 'text'))
    await processor.processEvent(responseDone())
    expect(accepted).toHaveLength(1002)
    expect(accepted.at(-1)).toMatchObject({ type: 'turn_complete' })
  })

  test('the timer waits while the queue is full and loses nothing', async () => {
    const sink = gate()
    const { processor, clock, accepted } = setUp({}, sink.pass)
    void processor.processEvent(open('m'))
    void processor.processEvent(delta('m', 'late'))
    for (let count = 0; count < 998; count++) void processor.processEvent(done(`i${count}`, ''))
    await clock.advance(5000)
    sink.open()
    await clock.advance(1000)
    expect(accepted.at(-1)).toMatchObject({ itemId: 'm', status: 'create', content: 'late' })
  })
})

describe('P15 retry', () => {
  test('TC-13 a sink that recovers gets the same message again', async () => {
    const { processor, clock, calls, accepted } = setUp({}, (count) => {
      if (count === 1) throw new Error('down')
    })
    const taken = watch(processor.processEvent(start()))
    await clock.advance(999)
    expect([calls.length, taken.settled]).toEqual([1, 'no'])
    await clock.advance(1)
    expect([calls.length, taken.settled]).toEqual([2, 'resolved'])
    expect(calls[1]).toBe(calls[0])
    expect(accepted).toMatchObject([{ type: 'turn_started' }])
  })

  test('TC-14 an emission fails after four attempts', async () => {
    const { processor, clock, calls } = setUp({}, () => Promise.reject(new Error('down')))
    const taken = watch(processor.processEvent(start()))
    for (const [delay, attempts] of [
      [0, 1],
      [1000, 2],
      [2000, 3],
      [4000, 4],
      [60_000, 4],
    ] as const) {
      await clock.advance(delay)
      expect(calls).toHaveLength(attempts)
    }
    expect(taken).toMatchObject({
      settled: 'rejected',
      error: { code: 'RETRY_EXHAUSTED', attempts: 4, cause: { message: 'down' } },
    })
    expect(taken.error).toBeInstanceOf(RetryExhaustedError)
  })

  test('the delay never exceeds retryMaxMs', async () => {
    const options = { retryAttempts: 5, retryBaseMs: 100, retryMaxMs: 250 }
    const { processor, clock, calls } = setUp(options, () => Promise.reject(new Error('down')))
    void processor.processEvent(start())
    await clock.advance(100 + 200 + 250 + 250)
    expect(calls).toHaveLength(5)
    await clock.advance(250)
    expect(calls).toHaveLength(6)
  })

  test('later events continue after one failed', async () => {
    const { processor, clock, accepted } = setUp({ retryAttempts: 0 }, (count) => {
      if (count === 1) throw new Error('down')
    })
    const lost = watch(processor.processEvent(done('a', 'lost')))
    const taken = watch(processor.processEvent(done('b', 'taken')))
    await clock.advance(0)
    expect([lost.settled, taken.settled]).toEqual(['rejected', 'resolved'])
    expect(accepted).toMatchObject([{ itemId: 'b' }])
  })

  test('a terminal event first retries the snapshots that failed', async () => {
    const { processor, clock, accepted } = setUp({ retryAttempts: 0 }, (count) => {
      if (count <= 2) throw new Error('down')
    })
    void processor.processEvent(open('m'))
    void processor.processEvent(delta('m', x(41)))
    void processor.processEvent(done('a', 'final'))
    const ended = watch(processor.processEvent(responseDone()))
    await clock.advance(0)
    expect(ended.settled).toBe('resolved')
    expect(accepted).toMatchObject([
      { itemId: 'a', status: 'complete', content: 'final' },
      { itemId: 'm', status: 'create', content: x(41) },
      { type: 'turn_complete' },
    ])
  })

  test('an event with several emissions tries them all and rejects if one fails', async () => {
    const { processor, clock, accepted } = setUp({ retryAttempts: 0 }, (count) => {
      if (count === 1) throw new Error('down')
    })
    void processor.processEvent(open('a'))
    void processor.processEvent(delta('a', 'one'))
    void processor.processEvent(open('b'))
    void processor.processEvent(delta('b', 'two'))
    const flushed = watch(processor.flush())
    await clock.advance(0)
    expect(flushed).toMatchObject({ settled: 'rejected', error: { code: 'RETRY_EXHAUSTED' } })
    expect(accepted).toMatchObject([{ itemId: 'b' }])
  })

  test('a synchronous sink behaves like an asynchronous one', async () => {
    const { processor, clock } = setUp({ onEmit() {} })
    await expect(processor.processEvent(start())).resolves.toBeUndefined()
    const broken = setUp({
      retryAttempts: 1,
      onEmit() {
        throw new Error('down')
      },
    })
    const taken = watch(broken.processor.processEvent(start()))
    await broken.clock.advance(1000)
    expect(taken.settled).toBe('rejected')
    expect(clock.pending()).toBe(0)
  })
})

describe('V8 the answer to an approval', () => {
  test('is the first snapshot of a call that the sink did not accept before', async () => {
    const { processor, clock, accepted } = setUp({ retryAttempts: 0 }, (count) => {
      if (count === 1) throw new Error('down')
    })
    const call = {
      type: 'function_call',
      id: 'f',
      name: 'f',
      arguments: '{}',
      call_id: 'c',
    } as const
    const approval = { id: 'a', status: 'requested' } as const
    const response = {
      type: 'approval_response',
      id: 'v',
      approval_id: 'a',
      call_id: 'c',
      approved: true,
      answered_at: 1,
    } as const
    processor.processEvent(finish('f', { ...call, approval })).catch(() => {})
    await clock.advance(0)
    void processor.processEvent(finish('v', response))
    await clock.advance(0)
    expect(accepted).toMatchObject([
      { itemId: 'f', status: 'create', approval: { id: 'a', status: 'approved' } },
    ])
  })
})
