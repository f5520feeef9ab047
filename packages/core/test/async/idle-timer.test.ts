import { beforeEach, describe, expect, test } from 'vitest'
import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import { IdleTimer } from '../../src/async/idle-timer.ts'
import type { Clock } from '../../src/index.ts'

describe('IdleTimer', () => {
  let time: FakeClock
  let timersSet: number
  let firedAt: number[]
  let clock: Clock

  beforeEach(() => {
    time = fakeClock(1000)
    timersSet = 0
    firedAt = []
    clock = {
      now: () => time.now(),
      after(ms, task) {
        timersSet += 1
        return time.after(ms, task)
      },
    }
  })

  const timerOf = (ms: number) => new IdleTimer(ms, clock, () => firedAt.push(clock.now()))

  test('fires once when a wait lasts long enough', async () => {
    timerOf(100).startWait()
    await time.advance(99)
    expect(firedAt).toEqual([])
    await time.advance(1)
    expect(firedAt).toEqual([1100])
    await time.advance(1000)
    expect(firedAt).toEqual([1100])
    expect(time.pending()).toBe(0)
  })

  test('a wait that ended does not fire, and the timer is not set again', async () => {
    const timer = timerOf(100)
    timer.startWait()
    timer.endWait()
    await time.advance(1000)
    expect(firedAt).toEqual([])
    expect(time.pending()).toBe(0)
    expect(timersSet).toBe(1)
  })

  test('each wait gets its full time, whenever the timer was set', async () => {
    const timer = timerOf(100)
    timer.startWait()
    await time.advance(60)
    timer.endWait()
    timer.startWait()
    await time.advance(99)
    expect(firedAt).toEqual([])
    await time.advance(1)
    expect(firedAt).toEqual([1160])
  })

  test('an unused timer is gone after a second', async () => {
    const timer = timerOf(300_000)
    timer.startWait()
    await time.advance(200_000)
    timer.endWait()
    await time.advance(1000)
    expect(time.pending()).toBe(0)
    timer.startWait()
    await time.advance(299_999)
    expect(firedAt).toEqual([])
    await time.advance(1)
    expect(firedAt).toHaveLength(1)
  })

  test('the waits of a second share one timer', async () => {
    const timer = timerOf(5000)
    for (let i = 0; i < 999; i++) {
      timer.startWait()
      timer.endWait()
      await time.advance(1)
    }
    expect(timersSet).toBe(1)
    timer.stop()
    expect(time.pending()).toBe(0)
  })

  test('stop() cancels the timer and is idempotent', async () => {
    const timer = timerOf(100)
    timer.startWait()
    timer.stop()
    timer.stop()
    expect(time.pending()).toBe(0)
    await time.advance(1000)
    expect(firedAt).toEqual([])
  })

  test('works again after it fired and after it was stopped', async () => {
    const timer = timerOf(100)
    timer.startWait()
    await time.advance(100)
    timer.startWait()
    await time.advance(100)
    timer.stop()
    timer.startWait()
    await time.advance(100)
    expect(firedAt).toEqual([1100, 1200, 1300])
  })

  test('Infinity sets no timer', () => {
    timerOf(Infinity).startWait()
    expect(timersSet).toBe(0)
  })

  test('a timer that fires early is set again for the rest', async () => {
    clock = { now: () => time.now(), after: (ms, task) => time.after(Math.min(ms, 30), task) }
    timerOf(100).startWait()
    await time.advance(99)
    expect(firedAt).toEqual([])
    await time.advance(1)
    expect(firedAt).toEqual([1100])
  })
})
