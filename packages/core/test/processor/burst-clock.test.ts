import { expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { BurstClock } from '../../src/processor/stream-processor.ts'

function setUp() {
  const clock = fakeClock(1000)
  let readings = 0
  const counted = {
    ...clock,
    monotonic: () => {
      readings += 1
      return clock.now()
    },
  }
  return { clock, burst: new BurstClock(counted), readings: () => readings }
}

test('occasional reads get the exact time', async () => {
  const { clock, burst, readings } = setUp()
  for (let asked = 1; asked <= 200; asked++) {
    await clock.advance(1)
    expect(burst.now()).toBe(1000 + asked)
  }
  expect(readings()).toBe(200)
})

test('frequent reads get the time of the current macrotask', async () => {
  const { clock, burst, readings } = setUp()
  for (let asked = 0; asked < 10_000; asked++) expect(burst.now()).toBe(1000)
  expect(readings()).toBeLessThan(100)
  await clock.advance(500)
  expect(burst.now()).toBe(1500)
})
