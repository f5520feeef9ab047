import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { sleep, systemClock } from '../../src/async/clock.ts'
import { look } from './support.ts'

describe('systemClock', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'], now: 5000 })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  test('now() is the time of day in ms', () => {
    expect(systemClock.now()).toBe(5000)
    vi.advanceTimersByTime(250)
    expect(systemClock.now()).toBe(5250)
  })

  test('after() runs the task once, after the time', () => {
    const task = vi.fn<() => void>()
    systemClock.after(100, task)
    vi.advanceTimersByTime(99)
    expect(task).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1)
    expect(task).toHaveBeenCalledTimes(1)
    vi.advanceTimersByTime(1000)
    expect(task).toHaveBeenCalledTimes(1)
  })

  test('what after() returns cancels the task, before and after it ran', () => {
    const task = vi.fn<() => void>()
    const cancel = systemClock.after(100, task)
    cancel()
    cancel()
    vi.advanceTimersByTime(1000)
    expect(task).not.toHaveBeenCalled()
    expect(vi.getTimerCount()).toBe(0)
  })

  test.each([2 ** 31, 1e12, Infinity])('a wait of %d ms is not a wait of 1 ms', (ms) => {
    const task = vi.fn<() => void>()
    systemClock.after(ms, task)
    vi.advanceTimersByTime(60_000)
    expect(task).not.toHaveBeenCalled()
  })
})

describe('sleep', () => {
  test('resolves by the given clock', async () => {
    const clock = fakeClock()
    const slept = sleep(100, clock)
    await clock.advance(99)
    expect(await look(slept)).toBe('waiting')
    await clock.advance(1)
    expect(await look(slept)).toBeUndefined()
  })

  test('uses the system clock by default', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const slept = sleep(100)
    vi.advanceTimersByTime(100)
    await expect(slept).resolves.toBeUndefined()
    vi.useRealTimers()
  })
})
