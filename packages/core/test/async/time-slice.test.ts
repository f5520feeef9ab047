import { describe, expect, test } from 'vitest'
import { isSliceOver, nextSlice, TimeSlices } from '../../src/async/time-slice.ts'

/** Slices whose time and event loop belong to the test. */
function newSlices() {
  let now = 0
  let tasks: (() => void)[] = []
  const slices = new TimeSlices(
    () => now,
    (task) => tasks.push(task),
  )
  return {
    slices,
    pass: (ms: number) => {
      now += ms
    },
    /** One iteration of the loop. */
    iterate: async (): Promise<void> => {
      const due = tasks
      tasks = []
      for (const task of due) task()
      for (let each = 0; each < 100; each++) await Promise.resolve()
    },
  }
}

/** Makes steps of `ms` each, and notes each of them. */
async function work(
  stage: ReturnType<typeof newSlices>,
  steps: number,
  ms: number,
  done: string[],
) {
  const name = `${done.length}`
  for (let each = 0; each < steps; each++) {
    if (stage.slices.isOver()) await stage.slices.next()
    stage.pass(ms)
    done.push(name)
    await Promise.resolve()
  }
}

describe('a time slice', () => {
  test('is over after 10 ms, and the next one begins in the next iteration of the loop', async () => {
    const { slices, pass, iterate } = newSlices()
    expect(slices.isOver()).toBe(false)
    pass(9)
    expect(slices.isOver()).toBe(false)
    pass(1)
    expect(slices.isOver()).toBe(true)
    await iterate()
    expect(slices.isOver()).toBe(false)
  })

  test('ends at once, and the next one after 1 ms, when a connection was accepted', async () => {
    const { slices, pass, iterate } = newSlices()
    slices.isOver()
    slices.shorten()
    expect(slices.isOver()).toBe(true)
    await iterate()
    expect(slices.isOver()).toBe(false)
    pass(1)
    expect(slices.isOver()).toBe(true)
    await iterate()
    slices.isOver()
    pass(9)
    expect(slices.isOver()).toBe(false)
  })

  test('does little work for each of a hundred connections, accepted one in each iteration', async () => {
    const stage = newSlices()
    const done: string[] = []
    const working = Array.from({ length: 50 }, () => work(stage, 20, 1, done))
    for (let accepted = 0; accepted < 100; accepted++) {
      stage.slices.shorten()
      await stage.iterate()
    }
    expect(done.length).toBeGreaterThanOrEqual(100)
    expect(done.length).toBeLessThan(2 * 100)
    while (done.length < 1000) await stage.iterate()
    await Promise.all(working)
  })

  test('is shared: any number of workers hold the loop for no longer than one', async () => {
    const stage = newSlices()
    const done: string[] = []
    const workers = Array.from({ length: 50 }, () => work(stage, 10, 2, done))
    await stage.iterate()
    let before = done.length
    let iterations = 0
    while (done.length < 500) {
      await stage.iterate()
      expect(done.length - before).toBeLessThanOrEqual(6)
      before = done.length
      iterations += 1
    }
    await Promise.all(workers)
    expect(iterations).toBeGreaterThan(50)
  })

  test('goes to those who wait longest', async () => {
    const stage = newSlices()
    const order: number[] = []
    stage.slices.isOver()
    for (const name of [1, 2, 3]) {
      void stage.slices.next().then(() => {
        order.push(name)
        stage.pass(10)
      })
    }
    await stage.iterate()
    expect(order).toEqual([1])
    await stage.iterate()
    expect(order).toEqual([1, 2])
    await stage.iterate()
    expect(order).toEqual([1, 2, 3])
  })

  test('lets timers run between long steps', async () => {
    let ticks = 0
    const timer = setInterval(() => {
      ticks += 1
    }, 1)
    for (let slices = 0; slices < 5; slices++) {
      while (!isSliceOver());
      await nextSlice()
    }
    clearInterval(timer)
    expect(ticks).toBeGreaterThan(2)
  })
})
