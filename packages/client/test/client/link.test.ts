import { expect, test } from 'vitest'
import { createLink } from '../../src/client/link.ts'
import { FakePage } from './support.ts'

/** A request without a response. It is replaced when the page wakes after 2.5 s. */
function setUp() {
  let now = 1_000_000
  let attempts = 0
  const page = new FakePage()
  const attempt = () => {
    attempts += 1
    return new Promise<void>(() => {})
  }
  const clock = { now: () => now, after: () => () => {} }
  createLink({ clock, page }, attempt, () => {})('open')
  return (ms: number) => {
    now += ms
    page.wake()
    return attempts
  }
}

test('time passes, also while the machine sleeps', () => {
  const pass = setUp()
  expect(pass(2500)).toBe(1)
  expect(pass(3_600_000)).toBe(2)
})

test('a time of day that is set back does not count', () => {
  const pass = setUp()
  expect(pass(10)).toBe(1)
  expect(pass(-3_600_000)).toBe(1)
  expect(pass(2490)).toBe(1)
  expect(pass(1)).toBe(2)
})
