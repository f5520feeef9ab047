import { expect, test } from 'vitest'
import { elapsedTime } from '../../src/client/time.ts'

function setUp() {
  const time = { wall: 1_000_000, steady: 0 }
  const clock = { now: () => time.wall, monotonic: () => time.steady, after: () => () => {} }
  const elapsed = elapsedTime(clock)
  return (wall: number, steady: number) => {
    time.wall += wall
    time.steady += steady
    return elapsed()
  }
}

test('time passes as on the monotonic clock', () => {
  const pass = setUp()
  expect(pass(10, 10)).toBe(10)
  // Two clocks never agree entirely.
  for (let count = 0; count < 1000; count++) pass(2, 1)
  expect(pass(0, 0)).toBe(1010)
})

test('sleep counts, which the monotonic clock leaves out', () => {
  const pass = setUp()
  expect(pass(3_600_000, 5)).toBe(3_600_000)
})

test('a time of day that is set back does not count', () => {
  const pass = setUp()
  expect(pass(-3_600_000, 5)).toBe(5)
  expect(pass(10, 10)).toBe(15)
})

test('a clock without a monotonic time never goes back', () => {
  let now = 1000
  const elapsed = elapsedTime({ now: () => now, after: () => () => {} })
  now = 1500
  expect(elapsed()).toBe(500)
  now = 0
  expect(elapsed()).toBe(500)
  now = 100
  expect(elapsed()).toBe(600)
})
