import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import { deltas } from '../../../conformance/src/turn-log/texts.ts'
import { TurnstreamError } from '../../../core/src/index.ts'
import type { LogName, LogRecord, Tail } from '../../../core/src/log/turn-log.ts'
import { MemoryTurn } from '../../src/log/memory-turn.ts'
import { firstState } from '../../src/log/rules.ts'
import { type Block, type LogSource, tailLog } from '../../src/log/tail.ts'
import { MemoryLog } from '../../src/server.ts'

function record(seq: number): LogRecord {
  const output = { type: 'turn_started', turnId: 't', threadId: 'h' } as const
  const envelope = { key: '', eventId: '', timestamp: 0, firstSeq: seq }
  return { offset: `1-${seq}`, data: '', ...envelope, output }
}

function block(seqs: number[], last = false): Block<LogRecord> {
  const head = Math.max(0, ...seqs)
  return { records: seqs.map(record), head, cursor: `1-${head}`, last }
}

/** A source that gives these blocks, one for each read, at once or later. */
class Blocks implements LogSource<LogRecord> {
  readonly reads: number[] = []
  released = 0
  readonly #blocks: (Block<LogRecord> | Error)[]
  readonly #later: boolean

  constructor(blocks: (Block<LogRecord> | Error)[], later: boolean) {
    this.#blocks = blocks
    this.#later = later
  }

  resume({ seq }: { seq: number }) {
    return seq > 100 ? ({ resync: 'foreign' } as const) : seq
  }

  read(after: number): Block<LogRecord> | Promise<Block<LogRecord>> {
    this.reads.push(after)
    const next = this.#blocks.shift() ?? block([], true)
    if (next instanceof Error) throw next
    return this.#later ? Promise.resolve(next) : next
  }

  changed(): Promise<void> | undefined {
    return this.#later ? Promise.resolve() : undefined
  }

  release(): void {
    this.released += 1
  }
}

function tailOf(
  source: LogSource<LogRecord>,
  name: LogName = 'events',
  after = '0-0',
  signal = never(),
): Tail<LogRecord> {
  return tailLog(name, () => source, after, signal)
}

function never(): AbortSignal {
  return new AbortController().signal
}

async function offsetsAndCursors(tail: Tail): Promise<string[]> {
  const seen: string[] = []
  for await (const each of tail) {
    seen.push(`${'resync' in each ? each.resync : each.offset} at ${tail.cursor}`)
  }
  return seen
}

test('blocks that take long to read are read in iterations of the event loop of their own', async () => {
  class Slow extends Blocks {
    override read(after: number) {
      const until = performance.now() + 11
      while (performance.now() < until);
      return super.read(after)
    }
  }
  let isOver = false
  let iterations = 0
  const iterate = () => {
    iterations += 1
    if (!isOver) setImmediate(iterate)
  }
  setImmediate(iterate)
  const blocks = [block([1]), block([2]), block([3]), block([4], true)]
  await offsetsAndCursors(tailOf(new Slow(blocks, false)))
  isOver = true
  expect(iterations).toBeGreaterThanOrEqual(2)
})

describe.each([
  ['at once', false],
  ['later', true],
])('a source that answers %s', (_what, later) => {
  const blocks = () => [block([1, 2]), block([5, 3, 4]), block([]), block([6], true)]

  test('is read from the end of the last block', async () => {
    const source = new Blocks(blocks(), later)
    await offsetsAndCursors(tailOf(source))
    expect([source.reads, source.released]).toEqual([[0, 2, 5, 0], 1])
  })

  test('L6 moves the cursor of events with every record, of processed with every block', async () => {
    expect(await offsetsAndCursors(tailOf(new Blocks(blocks(), later), 'events'))).toEqual([
      '1-1 at 1-1',
      '1-2 at 1-2',
      '1-5 at 1-5',
      '1-3 at 1-3',
      '1-4 at 1-5',
      '1-6 at 1-6',
    ])
    expect(await offsetsAndCursors(tailOf(new Blocks(blocks(), later), 'processed'))).toEqual([
      '1-1 at 0-0',
      '1-2 at 1-2',
      '1-5 at 1-2',
      '1-3 at 1-2',
      '1-4 at 1-5',
      '1-6 at 1-6',
    ])
  })

  test('is released when a reader leaves, when it fails, and when it is aborted', async () => {
    const left = new Blocks(blocks(), later)
    for await (const _ of tailOf(left)) break
    const failed = new Blocks([block([1]), new TurnstreamError('TURN_DELETED', 'turn')], later)
    await expect(offsetsAndCursors(tailOf(failed))).rejects.toMatchObject({ code: 'TURN_DELETED' })
    const aborted = new Blocks(blocks(), later)
    const seen = await offsetsAndCursors(tailOf(aborted, 'events', '0-0', AbortSignal.abort()))
    expect([seen, left.released, failed.released, aborted.released]).toEqual([[], 1, 1, 1])
  })

  test('restarts after a cursor that it cannot honour', async () => {
    const source = new Blocks([block([1], true)], later)
    const seen = await offsetsAndCursors(tailOf(source, 'events', '1-101'))
    expect(seen).toEqual(['foreign at 0-0', '1-1 at 1-1'])
    expect(source.reads).toEqual([0])
  })
})

test('counts records superseded before a caught-up reader could take them', async () => {
  // What it finds at first was superseded before it came.
  const tail = tailOf(new Blocks([block([3]), block([4]), block([9, 7]), block([10], true)], true))
  expect(tail.skipped).toBe(0)
  expect(await offsetsAndCursors(tail)).toHaveLength(5)
  expect(tail.skipped).toBe(3)
})

test('rejects the first read when it cannot be opened or the cursor is invalid', async () => {
  const open = () => Promise.reject(new TurnstreamError('STORE_UNAVAILABLE', 'away'))
  const tail = tailLog('events', open, '0-0', never())
  await expect(offsetsAndCursors(tail)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  const source = new Blocks([], false)
  const invalid = expect.objectContaining({ code: 'CURSOR_INVALID' })
  await expect(offsetsAndCursors(tailOf(source, 'events', 'x'))).rejects.toEqual(invalid)
  expect(source.released).toBe(0)
})

describe('after 10,000 closed tails', () => {
  test('signal and log retain nothing', async () => {
    const log = new MemoryLog()
    const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'me' }, 1000)
    await appendTo(log, lease, 'events', deltas('turn', 1, 2))
    const shared = new AbortController()
    const leaving = new AbortController()
    const ended: Promise<string[]>[] = []
    for (let count = 0; count < 5000; count++) {
      for await (const _ of log.tail('turn', 'events', '0-0', shared.signal)) break
      ended.push(offsetsAndCursors(log.tail('turn', 'events', '1-2', leaving.signal)))
    }
    expect(getEventListeners(leaving.signal, 'abort')).toHaveLength(1)
    leaving.abort()
    await Promise.all(ended)
    for (const { signal } of [shared, leaving])
      expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('no waiter is left', async () => {
    const ids = { turnId: 'turn', runId: 'run', threadId: 'thread', ordinal: 1 }
    const turn = new MemoryTurn({ ...ids, owner: 'me', createdAt: 0 }, firstState(1000))
    const leaving = new AbortController()
    const waits = Array.from({ length: 10_000 }, () =>
      Promise.resolve(turn.source('events', () => {}).changed(0, leaving.signal)),
    )
    expect(turn.waiting).toBe(10_000)
    leaving.abort()
    await Promise.all(waits)
    expect(turn.waiting).toBe(0)
  })
})
