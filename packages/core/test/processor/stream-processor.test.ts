import { describe, expect, test } from 'vitest'
import { type StreamEvent, StreamProcessor } from '../../src/index.ts'
import { call, delta, done, open, responseDone, start, THREAD_ID, TURN_ID } from './events.ts'
import { setUp, watch } from './sinks.ts'

const x = (length: number) => 'x'.repeat(length)

describe('P13 timer', () => {
  test('a failed timer emission goes to onError once and is no unhandled rejection', async () => {
    const { processor, clock, errors } = setUp({}, () => Promise.reject(new Error('down')))
    void processor.processEvent(open('m'))
    void processor.processEvent(delta('m', 'text'))
    await clock.advance(60_000)
    expect(errors).toMatchObject([{ code: 'RETRY_EXHAUSTED', attempts: 4 }])
    expect(clock.pending()).toBe(0)
  })

  test('there is one timer, however many items wait', async () => {
    const { processor, clock } = setUp()
    for (let count = 0; count < 32; count++) {
      void processor.processEvent(open(`m${count}`))
      void processor.processEvent(delta(`m${count}`, 'a'))
      void processor.processEvent(delta(`m${count}`, 'b'))
      expect(clock.pending()).toBe(1)
    }
    await clock.advance(1000)
    expect(clock.pending()).toBe(0)
  })

  test('no timer is left when nothing is pending', async () => {
    const { processor, clock } = setUp()
    void processor.processEvent(open('m'))
    void processor.processEvent(delta('m', 'a'))
    await processor.processEvent(done('m', 'a'))
    expect(clock.pending()).toBe(0)
    void processor.processEvent(open('n'))
    void processor.processEvent(delta('n', 'a'))
    await processor.processEvent(responseDone())
    expect(clock.pending()).toBe(0)
  })

  test('an onError that throws has no effect', async () => {
    const { processor, clock, accepted } = setUp({
      onError() {
        throw new Error('no listener here')
      },
    })
    await processor.processEvent(delta('ghost', 'a'))
    await processor.processEvent(done('m', 'b'))
    await clock.advance(0)
    expect(accepted).toMatchObject([{ itemId: 'm' }])
  })

  test('without onError nothing is reported and nothing breaks', async () => {
    const processor = new StreamProcessor({ turnId: TURN_ID, threadId: THREAD_ID, onEmit() {} })
    await expect(processor.processEvent(delta('ghost', 'a'))).resolves.toBeUndefined()
  })
})

describe('P16 destroy', () => {
  test('waits for the queue, backoff included', async () => {
    const { processor, clock, accepted } = setUp({}, (count) => {
      if (count <= 2) throw new Error('down')
    })
    void processor.processEvent(done('a', 'first'))
    void processor.processEvent(open('m'))
    void processor.processEvent(delta('m', 'tail'))
    const destroyed = watch(processor.destroy())
    await clock.advance(2999)
    expect(destroyed.settled).toBe('no')
    await clock.advance(1)
    expect(destroyed.settled).toBe('resolved')
    expect(accepted).toMatchObject([{ itemId: 'a' }, { itemId: 'm', content: 'tail' }])
  })

  test('rejects when its flush fails, and still releases everything', async () => {
    const { processor, clock } = setUp({ retryAttempts: 0 }, () =>
      Promise.reject(new Error('down')),
    )
    void processor.processEvent(open('m'))
    void processor.processEvent(delta('m', 'tail'))
    await expect(processor.destroy()).rejects.toMatchObject({ code: 'RETRY_EXHAUSTED' })
    expect(processor.getBufferState().size).toBe(0)
    expect(clock.pending()).toBe(0)
  })

  test('is idempotent, and a later flush returns the same promise', () => {
    const { processor } = setUp()
    expect(processor.destroy()).toBe(processor.destroy())
    expect(processor.flush()).toBe(processor.destroy())
  })

  test('a later event is rejected', async () => {
    const { processor, accepted } = setUp()
    await processor.destroy()
    await expect(processor.processEvent(start())).rejects.toMatchObject({
      code: 'PROCESSOR_DESTROYED',
    })
    expect(accepted).toEqual([])
  })

  test('clears the registry of calls', async () => {
    const { processor } = setUp()
    await processor.processEvent(call('fc', 'c', '{}'))
    expect(processor.getBufferState().size).toBe(1)
    await processor.destroy()
    expect(processor.getBufferState().size).toBe(0)
  })
})

describe('bad input', () => {
  const event = delta('m', 'x')
  const cases: [string, unknown][] = [
    ['nothing', undefined],
    ['null', null],
    ['a string', 'item_delta'],
    ['an array', [event]],
    ['no payload', { ...event, payload: undefined }],
    ['two types', { ...event, type: 'item_done' }],
    ['an empty id', { ...event, event_id: '' }],
    ['a time that is no number', { ...event, timestamp: Number.NaN }],
    ['no trace', { ...event, trace_context: undefined }],
    ['a delta that is no text', { ...event, payload: { ...event.payload, delta_content: 7 } }],
    ['an item without a name', { ...event, payload: { ...event.payload, item_id: '' } }],
  ]

  test.each(cases)('%s is EVENT_INVALID and changes nothing', async (_name, input) => {
    const { processor, accepted, errors } = setUp()
    await processor.processEvent(open('m'))
    await expect(processor.processEvent(input as StreamEvent)).rejects.toMatchObject({
      code: 'EVENT_INVALID',
    })
    expect(processor.getBufferState().get('m')).toMatchObject({ contentLength: 0 })
    await processor.processEvent(done('m', 'goes on'))
    expect(accepted).toMatchObject([{ content: 'goes on' }])
    expect(errors).toEqual([])
  })

  test('an estimate that throws is reported and replaced', async () => {
    const { processor, errors } = setUp({
      estimateTokens() {
        throw new Error('no idea')
      },
    })
    await processor.processEvent(open('m'))
    await processor.processEvent(delta('m', 'x'))
    expect(errors).toMatchObject([{ code: 'OPTION_INVALID' }])
  })

  test.each([Infinity, Number.NaN, -1])('an estimate of %s never loops', async (estimate) => {
    const { processor, accepted } = setUp({ estimateTokens: () => estimate })
    await processor.processEvent(open('m'))
    await processor.processEvent(delta('m', x(100)))
    await processor.processEvent(done('m', 'end'))
    expect(accepted).toMatchObject([{ status: 'complete' }])
  })

  test('reports of unknown items are bounded', async () => {
    const { processor, errors } = setUp()
    for (let count = 0; count < 1500; count++) await processor.processEvent(delta(`${count}`, 'x'))
    expect(errors).toHaveLength(1000)
  })

  test('keys that would change a prototype stay data', async () => {
    const { processor, accepted } = setUp()
    await processor.processEvent(call('__proto__', 'c', '{"__proto__":{"polluted":true}}'))
    expect(accepted).toMatchObject([{ itemId: '__proto__', status: 'create' }])
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})
