import { describe, expect, test } from 'vitest'
import {
  ERROR_CODES,
  ResponseStream,
  ResponseStreamError,
  TurnstreamError,
} from '../../../turnstream/src/index.ts'
import { outcome } from './support.ts'

/** A stream in each of the ways it can be over, with the code a producer then gets. */
const endings = [
  { ending: 'complete()', end: (s: ResponseStream<number>) => s.complete(), code: 'STREAM_ERROR' },
  { ending: 'error()', end: (s: ResponseStream<number>) => s.error('x'), code: 'STREAM_ERROR' },
  { ending: 'abort()', end: (s: ResponseStream<number>) => s.abort(), code: 'ABORTED' },
]

describe('R8 after the end', () => {
  test.each(endings)('R8 addEvent after $ending throws $code', ({ end, code }) => {
    const stream = new ResponseStream<number>()
    end(stream)
    expect(() => stream.addEvent(1)).toThrow(ResponseStreamError)
    expect(() => stream.addEvent(1)).toThrow(expect.objectContaining({ code }))
    expect(() => stream.addEvents([1])).toThrow(expect.objectContaining({ code }))
    expect(stream.getBufferSize()).toBe(0)
  })

  test.each(endings)('R8 send after $ending rejects with $code', async ({ end, code }) => {
    const stream = new ResponseStream<number>()
    end(stream)
    expect(await outcome(stream.send(1))).toBe(code)
  })

  test('R8 the error has the reason of the failure', () => {
    const cause = new Error('gone')
    const stream = ResponseStream.fromError<number>(cause)
    expect(() => stream.addEvent(1)).toThrow(expect.objectContaining({ cause }))
  })

  test.each([
    'ABORTED',
    'BACKPRESSURE',
    'COLLECTION_ERROR',
    'ITERATION_ERROR',
    'OPTION_INVALID',
    'STREAM_ERROR',
    'TIMEOUT',
  ])('R8 %s is in the error table', (code) => {
    expect(ERROR_CODES).toHaveProperty(code)
  })
})

describe('ResponseStreamError', () => {
  test('has a message, a code and a cause', () => {
    const cause = new Error('inner')
    const error = new ResponseStreamError('outer', 'TIMEOUT', cause)
    expect(error).toMatchObject({ name: 'ResponseStreamError', message: 'outer', code: 'TIMEOUT' })
    expect(error.cause).toBe(cause)
    expect(error).toBeInstanceOf(TurnstreamError)
  })

  test.each(['MY_CODE', 'toString', ''])('V9 takes any string as code: %j', (code) => {
    const error = new ResponseStreamError('outer', code)
    expect(error).toMatchObject({ name: 'ResponseStreamError', message: 'outer', code })
  })

  test('code and cause are optional', () => {
    const error = new ResponseStreamError('outer')
    expect(error.code).toBe('STREAM_ERROR')
    expect(error).not.toHaveProperty('cause')
  })
})
