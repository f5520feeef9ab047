import { expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { responseDone, turnComplete } from '../../../../conformance/src/turn-log/texts.ts'
import { TurnstreamError } from '../../../../core/src/index.ts'
import type { Page, ThreadRecord, TurnRecord } from '../../../../core/src/log/turn-log.ts'
import { NewTurns } from '../../../src/server/streams/new-turns.ts'
import { MemoryLog } from '../../../src/server.ts'
import { createTurn } from './server.ts'

/** Counts how often it is asked, and can be made to fail. */
class AskedLog extends MemoryLog {
  readonly asked: string[] = []
  isAway = false
  /** Of all threads. */
  creation: string | undefined = 'first'

  override async getThread(threadId: string): Promise<ThreadRecord | undefined> {
    const { creation } = this
    return creation === undefined
      ? undefined
      : { threadId, creation, version: 0, createdAt: 0, updatedAt: 0 }
  }

  override async listTurns(threadId: string): Promise<Page<TurnRecord>> {
    this.asked.push(threadId)
    if (this.isAway) throw new TurnstreamError('STORE_UNAVAILABLE', 'it is away')
    return await super.listTurns(threadId, { first: 'newest', limit: 1 })
  }
}

function given() {
  const clock = fakeClock(1000)
  const log = new AskedLog()
  const newTurns = new NewTurns(log, clock)
  const { signal } = new AbortController()
  const woken: string[] = []
  const wait = (name: string, threadId: string, newest = 0, until = signal) =>
    newTurns.wait(threadId, { creation: 'first', newest }, until).then(() => woken.push(name))
  return { clock, log, newTurns, woken, wait }
}

test('a waiting reader is notified immediately of a turn of this process', async () => {
  const { clock, newTurns, woken, wait } = given()
  const waiting = [wait('a', 'thread'), wait('b', 'thread')]
  void wait('c', 'other')
  newTurns.announce('thread')
  await Promise.all(waiting)
  expect(woken).toEqual(['a', 'b'])
  expect(newTurns.size).toBe(1)
  newTurns.announce('other')
  expect(clock.pending()).toBe(0)
})

test('a waiting reader is notified within a second of a turn of another process', async () => {
  const { clock, log, woken, wait } = given()
  void wait('a', 'thread')
  await clock.advance(999)
  await createTurn(log, 'turn')
  await clock.advance(1)
  expect(woken).toEqual(['a'])
})

test('the store is polled once a second per thread, however many wait', async () => {
  const { clock, log, newTurns, wait } = given()
  for (let each = 0; each < 50; each++) void wait(`${each}`, `thread-${each % 2}`)
  await clock.advance(3500)
  expect(log.asked.toSorted()).toEqual([
    ...Array.from({ length: 3 }, () => 'thread-0'),
    ...Array.from({ length: 3 }, () => 'thread-1'),
  ])
  expect(newTurns.size).toBe(50)
})

test('threads beyond one poll batch are all polled', async () => {
  const { clock, log, woken, wait } = given()
  for (let each = 0; each < 250; each++) {
    void wait(`${each}`, `thread-${each}`)
    await createTurn(log, `turn-${each}`, `thread-${each}`)
  }
  await clock.advance(1000)
  expect(woken).toHaveLength(250)
})

test('polling stops without readers and starts again with the next one', async () => {
  const { clock, log, newTurns, woken, wait } = given()
  const controller = new AbortController()
  const gone = wait('gone', 'thread', 0, controller.signal)
  controller.abort()
  await gone
  expect(newTurns.size).toBe(0)
  expect(clock.pending()).toBe(0)
  await clock.advance(5000)
  expect(log.asked).toEqual([])
  await createTurn(log, 'turn')
  void wait('a', 'thread')
  await clock.advance(1000)
  expect(woken).toEqual(['gone', 'a'])
})

test('a reader with an aborted signal does not wait', async () => {
  const { newTurns } = given()
  await newTurns.wait('thread', { creation: 'first', newest: 0 }, AbortSignal.abort())
  expect(newTurns.size).toBe(0)
})

test('a reader that knows the newest turn waits until it is deleted', async () => {
  const { clock, log, woken, wait } = given()
  const lease = await createTurn(log, 'turn')
  await appendTo(log, lease, 'events', [{ seq: 1, data: responseDone('turn', 1) }], { seal: true })
  const data = turnComplete('turn')
  await appendTo(log, lease, 'processed', [{ seq: 1, data }], { seal: true })
  void wait('a', 'thread', 1)
  await clock.advance(2000)
  expect(woken).toEqual([])
  await log.deleteTurn('turn')
  await clock.advance(1000)
  expect(woken).toEqual(['a'])
})

test.each([
  ['is deleted', undefined],
  ['is deleted and created again', 'second'],
])('a waiting reader is notified within a second when the thread %s', async (_what, creation) => {
  const { clock, log, woken, wait } = given()
  void wait('a', 'thread')
  await clock.advance(2000)
  expect(woken).toEqual([])
  log.creation = creation
  await clock.advance(1000)
  expect(woken).toEqual(['a'])
})

test('a store failure wakes every reader, which then sees the failure', async () => {
  const { clock, log, woken, wait } = given()
  log.isAway = true
  void wait('a', 'thread')
  await clock.advance(1000)
  expect(woken).toEqual(['a'])
})
