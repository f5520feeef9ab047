import { expect, test } from 'vitest'
import { elapsedTime } from '../../src/client/time.ts'

function setUp() {
  let now = 1_000_000
  const elapsed = elapsedTime({ now: () => now, after: () => () => {} })
  const start = elapsed()
  return (ms: number) => {
    now += ms
    return elapsed() - start
  }
}

test('time passes, also while the machine sleeps', () => {
  const pass = setUp()
  expect(pass(10)).toBe(10)
  expect(pass(3_600_000)).toBe(3_600_010)
})

test('a time of day that is set back does not count', () => {
  const pass = setUp()
  expect(pass(10)).toBe(10)
  expect(pass(-3_600_000)).toBe(10)
  expect(pass(10)).toBe(20)
})
