import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'

type Harness = typeof import('../../bench/measure.mjs')

let harness: Harness
let printed: string[]

beforeEach(async () => {
  // The harness collects ratios for one run of the process: each test gets its own.
  vi.resetModules()
  harness = await import('../../bench/measure.mjs')
  printed = []
  vi.spyOn(console, 'log').mockImplementation((line: string) => printed.push(line))
})

/** CPU time that passes only when a subject says so. */
function fakeCpu() {
  let spent = 0
  vi.spyOn(process, 'cpuUsage').mockImplementation((before) => ({
    user: spent - (before?.user ?? 0),
    system: 0,
  }))
  return (microseconds: number) => {
    spent += microseconds
  }
}

describe('measure', () => {
  test('reports the median per operation, without warm-up, and the first sample', async () => {
    const spend = fakeCpu()
    const costs = [900, 500, 500, 10, 90, 20, 80, 30, 70, 40, 60, 50]
    const run = () => {
      spend(costs.shift() ?? Number.NaN)
      return 10
    }
    const figures = await harness.measure([{ name: 'a', run }], { rounds: 9, warmup: 2 })
    expect(figures).toEqual([{ name: 'a', ns: 5000, first: 90_000 }])
    expect(costs).toEqual([])
  })

  test('averages the middle two of an even number of rounds', async () => {
    const spend = fakeCpu()
    const costs = [1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    const run = () => {
      spend(costs.shift() ?? Number.NaN)
      return 1
    }
    const [figure] = await harness.measure([{ name: 'a', run }], { rounds: 10, warmup: 0 })
    expect(figure?.ns).toBe(5500)
  })

  test('excludes setup and teardown from the measurement', async () => {
    let spent = 0
    const spend = (microseconds: number) => async () => {
      spent += microseconds
    }
    const subject = {
      name: 'a',
      before: spend(1000),
      run: () => spend(7)().then(() => 1),
      after: spend(500),
    }
    const [figure] = await harness.measure([subject], { spent: async () => spent })
    expect(figure).toEqual({ name: 'a', ns: 7000, first: 7000 })
  })

  test('interleaves the subjects and rotates the order', async () => {
    const order: string[] = []
    const subjects = ['a', 'b', 'c'].map((name) => ({ name, run: () => order.push(name) }))
    await harness.measure(subjects, { rounds: 9, warmup: 0 })
    expect(order.join('')).toBe('abcbcacab'.repeat(3) + 'abc')
  })

  test('refuses too few rounds and a subject that did nothing', async () => {
    await expect(harness.measure([], { rounds: 8 })).rejects.toThrow('8 rounds')
    await expect(harness.measure([{ name: 'idle', run: () => 0 }])).rejects.toThrow('idle')
  })

  test('nsOf finds a result by name', () => {
    const figures = [{ name: 'a', ns: 1, first: 2 }]
    expect(harness.nsOf(figures, 'a')).toBe(1)
    expect(() => harness.nsOf(figures, 'b')).toThrow('b')
  })
})

test('quantile returns a fraction of the sorted values', () => {
  const values = [5, 1, 4, 2, 3]
  expect(harness.quantile(values, 0.5)).toBe(3)
  expect(harness.quantile(values, 0)).toBe(1)
  expect(harness.quantile([], 0.5)).toBeNaN()
})

describe('printTable', () => {
  test('aligns text left and numbers right', () => {
    harness.printTable('title', [
      { name: 'short', ns: 5.678 },
      { name: 'much longer', ns: 1234.5 },
    ])
    expect(printed).toEqual([
      '\ntitle',
      '  name            ns',
      '  short         5.68',
      '  much longer   1235',
    ])
  })
})

describe('finish', () => {
  afterEach(() => {
    process.exitCode = undefined
  })

  test.each([
    { name: 'within', actual: 1.1, exitCode: undefined, goal: 'met' },
    { name: 'exactly at', actual: 1.15, exitCode: undefined, goal: 'met' },
    { name: 'above', actual: 1.16, exitCode: 1, goal: 'MISSED' },
    { name: 'without a figure', actual: Number.NaN, exitCode: 1, goal: 'MISSED' },
  ])('a ratio $name the limit is $goal', ({ actual, exitCode, goal }) => {
    harness.expectRatio('speed', actual, 1.15)
    harness.finish()
    expect(process.exitCode).toBe(exitCode)
    expect(printed.at(-1)).toMatch(new RegExp(`speed .* ${goal}$`))
  })
})
