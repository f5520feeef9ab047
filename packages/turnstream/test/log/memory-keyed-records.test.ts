import { expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { MemoryKeyedRecords } from '../../src/log/memory-keyed-records.ts'
import { MemoryLog } from '../../src/server.ts'

test('expired values are removed a few per call, also of idle tenants', async () => {
  const clock = fakeClock()
  const log = new MemoryLog({ clock })
  for (let at = 0; at < 500; at++)
    await log.ofTenant('acme').keyedRecords.add(`key-${at}`, 'x', 1000)
  await clock.advance(1000)
  const sizes = []
  for (let count = 0; count < 6; count++) {
    sizes.push(await log.storedBytes())
    await log.orphans(1)
  }
  expect(sizes).toEqual([500, 400, 300, 200, 100, 0])
})

test('a key that is used again and again is queued once', async () => {
  const clock = fakeClock()
  const keyedRecords = new MemoryLog({ clock }).keyedRecords as MemoryKeyedRecords
  for (let count = 0; count < 5000; count++) {
    await keyedRecords.add('key', 'value', 1000)
    await keyedRecords.consume('key')
    await keyedRecords.add('other', 'value', 1000)
    await clock.advance(1)
  }
  expect(keyedRecords.bytes).toBe(16 * 'value'.length)
  expect(keyedRecords.queued).toBe(2)
  await clock.advance(1000)
  keyedRecords.sweep()
  expect([keyedRecords.bytes, keyedRecords.queued]).toEqual([0, 0])
})

test('setting the clock forward or back does not change when a value expires', async () => {
  let [now, elapsed] = [1_000_000, 0]
  const clock = { now: () => now, monotonic: () => elapsed, after: () => () => {} }
  const log = new MemoryLog({ clock })
  await log.keyedRecords.add('key', 'value', 1000)
  now += 3_600_000
  elapsed = 999
  expect(await log.keyedRecords.read(['key'])).toEqual(['value'])
  now -= 7_200_000
  elapsed = 1000
  expect(await log.keyedRecords.read(['key'])).toEqual([undefined])
})
