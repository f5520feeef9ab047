import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/async/clock.ts'
import { StreamProcessor } from '../../src/index.ts'
import {
  BatchGradient,
  DEFAULT_BATCH_GRADIENT,
  estimateTokenCount,
  type ProcessorOptions,
  resolveOptions,
} from '../../src/processor/options.ts'

const required = { turnId: 't', threadId: 'h', onEmit() {} }

test('the defaults', () => {
  expect(resolveOptions(required)).toMatchObject({
    batchGradient: DEFAULT_BATCH_GRADIENT,
    batchTimeoutMs: 1000,
    maxLatencyMs: 3000,
    retryAttempts: 3,
    retryBaseMs: 1000,
    retryMaxMs: 10_000,
    clock: systemClock,
  })
})

describe('invalid options are rejected at construction', () => {
  const cases: [keyof ProcessorOptions, unknown][] = [
    ['turnId', ''],
    ['turnId', 7],
    ['threadId', ''],
    ['onEmit', 'a sink'],
    ['onError', 'a listener'],
    ['estimateTokens', 4],
    ['generateId', 'id'],
    ['batchTimeoutMs', -1],
    ['batchTimeoutMs', Number.NaN],
    ['batchTimeoutMs', '1000'],
    ['maxLatencyMs', -0.5],
    ['retryBaseMs', -1],
    ['retryMaxMs', Number.NaN],
    ['retryAttempts', -1],
    ['retryAttempts', 1.5],
    ['retryAttempts', Infinity],
    ['batchGradient', 10],
    ['batchGradient', [0]],
    ['batchGradient', [10, -5]],
    ['batchGradient', [Number.NaN]],
    ['batchGradient', [Infinity]],
    ['batchGradient', [1e-300]],
    ['batchGradient', ['10']],
  ]
  test.each(cases)('%s: %j', (name, value) => {
    const make = () => new StreamProcessor({ ...required, [name]: value })
    expect(make).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
    expect(make).toThrow(name)
  })

  test('zero and Infinity are valid durations', () => {
    const times = { batchTimeoutMs: 0, maxLatencyMs: Infinity, retryBaseMs: 0 }
    expect(() => new StreamProcessor({ ...required, ...times })).not.toThrow()
  })
})

describe('P4 the gradient', () => {
  test('is cumulative and repeats its last step', () => {
    const gradient = new BatchGradient([10, 10, 20])
    expect([0, 1, 2, 3, 4, 1002].map((index) => gradient.threshold(index))).toEqual([
      10, 20, 40, 60, 80, 20_040,
    ])
  })

  test('has 23 steps by default and then continues in steps of 2000', () => {
    const gradient = new BatchGradient(DEFAULT_BATCH_GRADIENT)
    expect(DEFAULT_BATCH_GRADIENT).toHaveLength(23)
    expect([0, 3, 4, 8, 22, 23].map((index) => gradient.threshold(index))).toEqual([
      10, 40, 60, 170, 6920, 8920,
    ])
  })

  test('that is empty has no threshold', () => {
    expect(new BatchGradient([]).threshold(0)).toBe(Infinity)
  })
})

test.each([
  ['', 0],
  ['a', 1],
  ['abcd', 1],
  ['abcde', 2],
  ['🙂🙂', 1],
])('P1 P19 estimateTokenCount(%j) is %i', (text, tokens) => {
  expect(estimateTokenCount(text)).toBe(tokens)
})
