import { beforeEach, describe, expect, test } from 'vitest'
import { LogWriter } from '../../src/log/log-writer.ts'
import { delta, message, responseDone } from '../../src/testing/turn-log/texts.ts'
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

describe('L7 batches', () => {
  test('a write of an idle writer goes out before the call returns', () => {
    void turn.writerOf().write(delta('turn', 1))
    expect(turn.log.sizes).toEqual([1])
  })

  test('what comes while an append is under way goes out as one', async () => {
    const open = turn.log.holdAppends()
    const writer = turn.writerOf()
    const writes = writeDeltas(writer, 1, 10)
    expect(turn.log.sizes).toEqual([1])
    open()
    await Promise.all(writes)
    expect(turn.log.sizes).toEqual([1, 9])
    await writer.write(delta('turn', 11))
    expect(turn.log.sizes).toEqual([1, 9, 1])
  })

  test('an append holds 256 records, and what is left goes out next', async () => {
    const writer = turn.writerOf()
    await Promise.all(writeDeltas(writer, 1, 600))
    expect(turn.log.sizes).toEqual([1, 256, 256, 87])
    const records = await readEvents(turn.log, 600)
    expect(records.map(({ data }) => data)).toEqual(
      Array.from({ length: 600 }, (_, index) => delta('turn', index + 1)),
    )
  })

  test('every write resolves with the offset of its own record, in order', async () => {
    const settled: string[] = []
    const writes = writeDeltas(turn.writerOf(), 1, 300).map((write) =>
      write.then((offset) => settled.push(offset)),
    )
    await Promise.all(writes)
    expect(settled).toEqual(Array.from({ length: 300 }, (_, index) => `1-${index + 1}`))
  })

  test('one callback for all records is told of each in order, also of those it writes itself', async () => {
    const writer = turn.writerOf()
    const told: string[] = []
    const settle = {
      resolve: (offset: string) => {
        told.push(offset)
        if (told.length === 1) writer.writeWith(settle, delta('turn', 4))
      },
      reject: (error: unknown) => told.push(String(error)),
    }
    for (const seq of [1, 2, 3]) writer.writeWith(settle, delta('turn', seq))
    await writer.idle()
    await writer.idle()
    expect(told).toEqual(['1-1', '1-2', '1-3', '1-4'])
    expect(turn.log.sizes).toEqual([1, 2, 1])
  })

  test('a callback is told of what is refused before the call returns', () => {
    const writer = turn.writerOf()
    const told: unknown[] = []
    const settle = { resolve: () => {}, reject: (error: unknown) => told.push(error) }
    writer.writeWith(settle, responseDone('turn', 1), { seal: true })
    writer.writeWith(settle, delta('turn', 2))
    expect(told).toEqual([expect.objectContaining({ code: 'LOG_SEALED' })])
  })

  test('a write is not acknowledged before its record can be read', async () => {
    const open = turn.log.holdAppends()
    let written = false
    const write = turn
      .writerOf()
      .write(delta('turn', 1))
      .then(() => {
        written = true
      })
    await turn.clock.advance(1000)
    expect(written).toBe(false)
    open()
    await write
    expect(await readEvents(turn.log, 1)).toHaveLength(1)
  })

  test('it sets no timer', async () => {
    const writes = writeDeltas(turn.writerOf(), 1, 20)
    expect(turn.clock.pending()).toBe(0)
    await Promise.all(writes)
    expect(turn.clock.pending()).toBe(0)
  })
})

describe('the numbers', () => {
  test('L2 go on where the lease says', async () => {
    await turn.log.append(
      turn.lease,
      'events',
      [1, 2, 3].map((seq) => ({ seq, data: delta('turn', seq) })),
    )
    const heir = { ...turn.lease, next: { events: 4, processed: 1 } }
    expect(await new LogWriter(turn.log, heir, 'events').write(delta('turn', 4))).toBe('1-4')
    expect(await new LogWriter(turn.log, heir, 'processed').write(message('turn', 'a', ''))).toBe(
      '1-1',
    )
  })

  test('each log has its own', async () => {
    const [events, processed] = [turn.writerOf('events'), turn.writerOf('processed')]
    const offsets = await Promise.all([
      events.write(delta('turn', 1)),
      processed.write(message('turn', 'a', '')),
      events.write(delta('turn', 2)),
    ])
    expect(offsets).toEqual(['1-1', '1-1', '1-2'])
  })

  test('key and envelope go with the record', async () => {
    const writer = turn.writerOf('processed')
    await writer.write('{"any":1}', { key: 'k', eventId: 'e', timestamp: 9 })
    await writer.write(message('turn', 'a', ''), {})
    expect(turn.log.appends[0]?.records).toEqual([
      { seq: 1, data: '{"any":1}', key: 'k', eventId: 'e', timestamp: 9 },
    ])
    expect(turn.log.appends[1]?.records).toEqual([{ seq: 2, data: message('turn', 'a', '') }])
  })
})

describe('L4 the seal', () => {
  test('goes with the last record of its append', async () => {
    const writer = turn.writerOf()
    const writes = writeDeltas(writer, 1, 5)
    const last = writer.write(responseDone('turn', 6), { seal: true })
    expect(await last).toBe('1-6')
    await Promise.all(writes)
    expect(turn.log.appends.map(({ seal }) => seal)).toEqual([false, true])
    expect((await turn.log.getTurn('turn'))?.status).toBe('complete')
  })

  test('that does not fit the append before goes out by itself', async () => {
    const writer = turn.writerOf()
    const writes = writeDeltas(writer, 1, 257)
    await writer.write(responseDone('turn', 258), { seal: true })
    await Promise.all(writes)
    expect(turn.log.sizes).toEqual([1, 256, 1])
    expect(turn.log.appends.map(({ seal }) => seal)).toEqual([false, false, true])
  })

  test('lets nothing follow', async () => {
    const writer = turn.writerOf()
    const last = writer.write(responseDone('turn', 1), { seal: true })
    const late = [writer.write(delta('turn', 2)), last.then(() => writer.write(delta('turn', 2)))]
    expect(await codesOf([last, ...late])).toEqual(['written', 'LOG_SEALED', 'LOG_SEALED'])
    expect(turn.log.sizes).toEqual([1])
  })
})

describe('too many writes', () => {
  test('are refused with BACKPRESSURE, and leave no gap', async () => {
    const open = turn.log.holdAppends()
    const writer = turn.writerOf('events', { maxWaiting: 3 })
    const writes = writeDeltas(writer, 1, 3)
    const refused = [writer.write('lost'), writer.write(responseDone('turn', 4), { seal: true })]
    expect(await codesOf(refused)).toEqual(['BACKPRESSURE', 'BACKPRESSURE'])
    open()
    await Promise.all(writes)
    expect(await Promise.all(writeDeltas(writer, 4, 6))).toEqual(['1-4', '1-5', '1-6'])
  })

  test('are more than 1,000 unless told', async () => {
    const open = turn.log.holdAppends()
    const writes = writeDeltas(turn.writerOf(), 1, 1001)
    open()
    const codes = await codesOf(writes)
    expect(codes.filter((code) => code === 'written')).toHaveLength(1000)
    expect(codes.at(-1)).toBe('BACKPRESSURE')
  })
})

describe('idle', () => {
  test('resolves at once when nothing is under way', async () => {
    const writer = turn.writerOf()
    await expect(writer.idle()).resolves.toBeUndefined()
    await writer.write(delta('turn', 1))
    await expect(writer.idle()).resolves.toBeUndefined()
  })

  test('resolves when what was written so far is durable', async () => {
    const open = turn.log.holdAppends()
    const writer = turn.writerOf()
    const written: string[] = []
    for (const write of writeDeltas(writer, 1, 300)) {
      void write.then((offset) => written.push(offset))
    }
    const idle = writer.idle().then(() => written.length)
    open()
    expect(await idle).toBe(300)
  })

  test('resolves when what was written so far is rejected', async () => {
    turn.log.before = failing('LEASE_LOST', 1000)
    const writer = turn.writerOf()
    const codes = codesOf(writeDeltas(writer, 1, 3))
    await writer.idle()
    expect(await codes).toEqual(['LEASE_LOST', 'LEASE_LOST', 'LEASE_LOST'])
  })
})
