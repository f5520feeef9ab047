import { expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { storedBytesReader } from '../../../src/server/metrics/gateway-metrics.ts'

/** A store that answers when the test says so. */
function slowStore() {
  const waiting: { resolve: (bytes: number) => void; reject: (error: unknown) => void }[] = []
  return {
    waiting,
    storedBytes: () =>
      new Promise<number>((resolve, reject) => {
        waiting.push({ resolve, reject })
      }),
  }
}

test('the store is read once in ten seconds for all scrapes', async () => {
  const clock = fakeClock(1_000_000)
  let asked = 0
  const readBytes = storedBytesReader({ storedBytes: () => Promise.resolve((asked += 1)) }, clock)
  expect(await Promise.all([readBytes(), readBytes()])).toEqual([1, 1])
  await clock.advance(9999)
  expect(await readBytes()).toBe(1)
  await clock.advance(1)
  expect([await readBytes(), asked]).toEqual([2, 2])
})

test('an unresponsive store delays a scrape by at most a second', async () => {
  const clock = fakeClock(1_000_000)
  const store = slowStore()
  const readBytes = storedBytesReader(store, clock)
  const first = readBytes()
  await clock.advance(999)
  expect(await Promise.race([first, Promise.resolve('waits')])).toBe('waits')
  await clock.advance(1)
  expect(await first).toBeUndefined()
  // It is not asked again before it has answered, and its answer is not lost.
  await clock.advance(60_000)
  const second = readBytes()
  expect(store.waiting).toHaveLength(1)
  store.waiting[0]?.resolve(7)
  expect(await second).toBe(7)
  expect(clock.pending()).toBe(0)
})

test('a failing store keeps the last value', async () => {
  const clock = fakeClock(1_000_000)
  const store = slowStore()
  const readBytes = storedBytesReader(store, clock)
  const first = readBytes()
  store.waiting[0]?.resolve(7)
  expect(await first).toBe(7)
  await clock.advance(10_000)
  const second = readBytes()
  store.waiting[1]?.reject(new Error('away'))
  expect(await second).toBe(7)
})
