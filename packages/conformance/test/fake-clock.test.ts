import { describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../src/index.ts'

describe('fakeClock', () => {
  test('stands still until it is moved', async () => {
    const clock = fakeClock()
    expect(clock.now()).toBe(0)
    await clock.advance(250)
    expect(clock.now()).toBe(250)
    await clock.advance(0)
    expect(clock.now()).toBe(250)
  })

  test('never goes back, also when it is advanced twice at the same time', async () => {
    const clock = fakeClock()
    await Promise.all([clock.advance(250), clock.advance(50)])
    expect(clock.now()).toBe(250)
  })

  test('starts at the given time', () => {
    expect(fakeClock(1_700_000_000_000).now()).toBe(1_700_000_000_000)
  })

  test('runs due tasks in time order, each at its own time', async () => {
    const clock = fakeClock(100)
    const ran: [name: string, at: number][] = []
    clock.after(30, () => ran.push(['c', clock.now()]))
    clock.after(10, () => ran.push(['a', clock.now()]))
    clock.after(20, () => ran.push(['b', clock.now()]))
    clock.after(31, () => ran.push(['later', clock.now()]))
    await clock.advance(30)
    expect(ran).toEqual([
      ['a', 110],
      ['b', 120],
      ['c', 130],
    ])
    expect(clock.pending()).toBe(1)
  })

  test('of two tasks for one moment the first set runs first', async () => {
    const clock = fakeClock()
    const ran: string[] = []
    for (const name of ['a', 'b', 'c']) clock.after(10, () => ran.push(name))
    await clock.advance(10)
    expect(ran).toEqual(['a', 'b', 'c'])
  })

  test('runs tasks that tasks set, if they fall due', async () => {
    const clock = fakeClock()
    const ranAt: number[] = []
    const tick = () => {
      ranAt.push(clock.now())
      clock.after(10, tick)
    }
    clock.after(10, tick)
    await clock.advance(35)
    expect(ranAt).toEqual([10, 20, 30])
    expect(clock.now()).toBe(35)
    expect(clock.pending()).toBe(1)
  })

  test('promise jobs settle between two tasks', async () => {
    const clock = fakeClock()
    const ran: string[] = []
    const chain = async () => {
      for (let i = 0; i < 50; i++) await Promise.resolve()
      ran.push('jobs of the first')
    }
    clock.after(10, () => void chain())
    clock.after(20, () => ran.push('second'))
    await clock.advance(20)
    expect(ran).toEqual(['jobs of the first', 'second'])
  })

  test('promise jobs settle before the first task', async () => {
    const clock = fakeClock()
    const ran: string[] = []
    const setLate = async () => {
      await Promise.resolve()
      clock.after(5, () => ran.push('set by a promise job'))
    }
    void setLate()
    await clock.advance(5)
    expect(ran).toEqual(['set by a promise job'])
  })

  test('a cancelled task does not run and is not pending', async () => {
    const clock = fakeClock()
    const ran: string[] = []
    const cancel = clock.after(10, () => ran.push('cancelled'))
    clock.after(10, () => ran.push('kept'))
    expect(clock.pending()).toBe(2)
    cancel()
    cancel()
    expect(clock.pending()).toBe(1)
    await clock.advance(10)
    expect(ran).toEqual(['kept'])
    expect(clock.pending()).toBe(0)
  })

  test('a task can cancel another that is due at the same moment', async () => {
    const clock = fakeClock()
    const ran: string[] = []
    clock.after(10, () => cancel())
    const cancel = clock.after(10, () => ran.push('cancelled'))
    await clock.advance(10)
    expect(ran).toEqual([])
  })

  test.each([0, -5])('a wait of %i ms is over at the next move, not at once', async (ms) => {
    const clock = fakeClock(100)
    const ranAt: number[] = []
    clock.after(ms, () => ranAt.push(clock.now()))
    expect(ranAt).toEqual([])
    await clock.advance(0)
    expect(ranAt).toEqual([100])
  })

  test('works without setImmediate', async () => {
    vi.resetModules()
    vi.stubGlobal('setImmediate', undefined)
    const browser = await import('../src/fake-clock.ts')
    vi.unstubAllGlobals()
    const clock = browser.fakeClock()
    const ran: string[] = []
    clock.after(10, () => void Promise.resolve().then(() => ran.push('promise job')))
    clock.after(20, () => ran.push('second task'))
    await clock.advance(20)
    expect(ran).toEqual(['promise job', 'second task'])
  })
})
