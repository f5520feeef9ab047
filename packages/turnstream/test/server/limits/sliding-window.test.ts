import { describe, expect, test } from 'vitest'
import { SlidingWindow } from '../../../src/server/limits/key-limits.ts'

const SPAN = 60_000

/** Admits at each of these times what can be admitted; the times at which it could. */
function admitted(window: SlidingWindow, times: readonly number[]): number[] {
  return times.filter((now) => {
    if (window.waitAt(now) > 0) return false
    window.add(now)
    return true
  })
}

describe('a window of 60 s', () => {
  test('admits up to its limit at once, then returns the time to wait', () => {
    const window = new SlidingWindow(3, SPAN)
    expect(admitted(window, [0, 0, 0, 0, 0])).toEqual([0, 0, 0])
    expect(window.waitAt(0)).toBe(60_000)
    expect(window.waitAt(1)).toBe(59_999)
    expect(window.waitAt(59_999)).toBe(1)
    expect(window.waitAt(60_000)).toBe(0)
  })

  test('is not aligned to clock minutes', () => {
    const window = new SlidingWindow(2, SPAN)
    expect(admitted(window, [59_000, 59_999])).toHaveLength(2)
    expect(admitted(window, [60_000, 61_000, 118_999])).toEqual([])
    expect(admitted(window, [119_000, 119_000])).toEqual([119_000])
    expect(window.waitAt(119_000)).toBe(999)
  })

  test('frees one slot for each entry that expires', () => {
    const window = new SlidingWindow(3, SPAN)
    admitted(window, [0, 10_000, 20_000])
    expect(admitted(window, [60_000, 60_000])).toEqual([60_000])
    expect(admitted(window, [69_999, 70_000, 70_000])).toEqual([70_000])
    expect(window.waitAt(70_000)).toBe(10_000)
  })

  test('does not count refused requests', () => {
    const window = new SlidingWindow(1, SPAN)
    const asked = Array.from({ length: 60 }, (_, second) => second * 1000)
    expect(admitted(window, asked)).toEqual([0])
    expect(window.waitAt(60_000)).toBe(0)
  })

  test('is empty when the last entry has expired', () => {
    const window = new SlidingWindow(2, SPAN)
    expect(window.isEmptyAt(0)).toBe(true)
    window.add(5)
    expect(window.isEmptyAt(60_004)).toBe(false)
    expect(window.isEmptyAt(60_005)).toBe(true)
  })

  test('stores nothing and admits everything without a limit', () => {
    const window = new SlidingWindow(Infinity, SPAN)
    expect(
      admitted(
        window,
        Array.from({ length: 10_000 }, () => 0),
      ),
    ).toHaveLength(10_000)
    expect(window.isEmptyAt(0)).toBe(true)
  })

  test('never returns more than its span after the clock was set back by a day', () => {
    const window = new SlidingWindow(2, SPAN)
    const day = 86_400_000
    admitted(window, [day, day + 1])
    expect(window.waitAt(0)).toBe(60_000)
    expect(admitted(window, [59_999, 60_000, 60_000])).toEqual([60_000, 60_000])
  })
})
