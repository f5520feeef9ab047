import { beforeEach, describe, expect, test } from 'vitest'
import { LogWriter } from '../../src/log/log-writer.ts'
import { type ErrorCode, TurnstreamError } from '../../src/protocol/errors.ts'
import { delta, responseDone } from '../../src/testing/turn-log/texts.ts'
import {
  codesOf,
  failing,
  newWritten,
  readEvents,
  type Written,
  writeDeltas,
} from './watched-log.ts'

let turn: Written

beforeEach(async () => {
  turn = await newWritten()
})

describe('a store that fails', () => {
  test.each<ErrorCode>(['STORE_UNAVAILABLE', 'STORE_FULL', 'STORE_FAILED', 'STORE_LOCKED'])(
    'with %s gets the same append again',
    async (code) => {
      turn.log.before = failing(code, 3)
      const writes = writeDeltas(turn.writerOf(), 1, 4)
      await turn.clock.advance(140)
      expect(await Promise.all(writes)).toEqual(['1-1', '1-2', '1-3', '1-4'])
      expect(turn.log.sizes).toEqual([1, 1, 1, 1, 3])
      expect(turn.clock.pending()).toBe(0)
    },
  )

  test('after it has written gets the same append again, which changes nothing', async () => {
    turn.log.after = failing('STORE_UNAVAILABLE', 2)
    const writer = turn.writerOf()
    const write = writer.write(responseDone('turn', 1), { seal: true })
    await turn.clock.advance(1000)
    expect(await write).toBe('1-1')
    expect(turn.log.appends.map(({ seal }) => seal)).toEqual([true, true, true])
    expect(await readEvents(turn.log, 1)).toHaveLength(1)
  })

  test('is asked again after 20 ms, then after twice as long, after a second at most', async () => {
    const times: number[] = []
    turn.log.before = () => {
      times.push(turn.clock.now())
      throw new TurnstreamError('STORE_UNAVAILABLE', 'away')
    }
    const write = codesOf([turn.writerOf().write(delta('turn', 1))])
    await turn.clock.advance(20_000)
    expect(await write).toEqual(['STORE_UNAVAILABLE'])
    expect(times.slice(0, 9)).toEqual([0, 20, 60, 140, 300, 620, 1260, 2260, 3260])
    expect(times.at(-1)).toBeLessThanOrEqual(10_000)
    expect(times.at(-1)).toBeGreaterThan(9000)
  })

  test('longer than it was told to wait ends the writer, with what waits and what comes', async () => {
    turn.log.before = failing('STORE_UNAVAILABLE', 1000)
    const writer = turn.writerOf('events', { retryForMs: 50 })
    const codes = codesOf(writeDeltas(writer, 1, 3))
    await turn.clock.advance(60)
    expect([...(await codes), ...(await codesOf([writer.write('late')]))]).toEqual(
      Array.from({ length: 4 }, () => 'STORE_UNAVAILABLE'),
    )
  })

  test('takes the writes that come meanwhile, up to the bound', async () => {
    turn.log.before = failing('STORE_UNAVAILABLE', 2)
    const writer = turn.writerOf('events', { maxWaiting: 2 })
    const codes = codesOf(writeDeltas(writer, 1, 3))
    await turn.clock.advance(100)
    expect(await codes).toEqual(['written', 'written', 'BACKPRESSURE'])
  })
})

describe('any other failure', () => {
  const rows: [string, unknown][] = [
    ['a lost lease', new TurnstreamError('LEASE_LOST', 'x')],
    ['a closed store', new TurnstreamError('STORE_CLOSED', 'x')],
    ['a record that cannot be kept', new TurnstreamError('RECORD_INVALID', 'x')],
    ['an error that nobody foresaw', new TypeError('x')],
  ]

  test.each(rows)('like %s is not repeated and ends the writer', async (_what, error) => {
    const writer = turn.writerOf()
    turn.log.before = (_append, call) => {
      if (call === 1) throw error
    }
    const writes = writeDeltas(writer, 1, 300)
    const settled = await Promise.allSettled(writes)
    expect(settled[0]?.status).toBe('fulfilled')
    for (const each of settled.slice(1)) expect(each).toEqual({ status: 'rejected', reason: error })
    await expect(writer.write('later')).rejects.toBe(error)
    expect(turn.log.sizes).toEqual([1, 256])
    expect(turn.clock.pending()).toBe(0)
  })

  test('of the append with the seal ends the writer, too', async () => {
    const writer = turn.writerOf()
    const codes = codesOf([writer.write(delta('turn', 1), { seal: true })])
    expect(await codes).toEqual(['RECORD_INVALID'])
    expect(await codesOf([writer.write(responseDone('turn', 1), { seal: true })])).toEqual([
      'RECORD_INVALID',
    ])
  })

  test('is what the writer of a turn sees that another has claimed', async () => {
    const old = await turn.log.create({ turnId: 'orphan', threadId: 'other', owner: 'me' }, 0)
    const writer = new LogWriter(turn.log, old, 'events')
    await writer.write(delta('orphan', 1))
    await turn.log.claim('orphan', 'heir', 1000)
    expect(await codesOf([writer.write(delta('orphan', 2))])).toEqual(['LEASE_LOST'])
  })
})
