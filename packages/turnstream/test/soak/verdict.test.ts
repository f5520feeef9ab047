import { expect, test } from 'vitest'
import type { Sample } from '../../../../scripts/soak/gateway.mjs'
import { growth } from '../../../../scripts/soak/verdict.mjs'

const MB = 2 ** 20

function samples(change: (index: number) => Partial<Sample>): Sample[] {
  return Array.from({ length: 100 }, (_, index) => ({
    at: index * 1000,
    rss: 100 * MB,
    heap: 30 * MB,
    handles: 40,
    delay: 12,
    starved: 0,
    running: 3,
    ...change(index),
  }))
}

const grown = (all: Sample[]) =>
  growth(all)
    .filter(({ isFlat }) => isFlat === false)
    .map(({ name }) => name)

test('a steady gateway is flat, whatever its first seconds', () => {
  expect(grown(samples((index) => (index < 15 ? { heap: 5 * MB, rss: 50 * MB } : {})))).toEqual([])
})

test.each([
  ['heap', (index: number) => ({ heap: (30 + index) * MB })],
  ['rss', (index: number) => ({ rss: (100 + 3 * index) * MB })],
  ['handles', (index: number) => ({ handles: 40 + index })],
  ['delay', (index: number) => ({ delay: 12 + index ** 2 })],
] as const)('a leak of %s is detected', (name, change) => {
  expect(grown(samples(change))).toEqual([name])
})

test('the delay of a starved gateway is ignored', () => {
  const all = samples((index) => (index > 60 ? { delay: 900, starved: 800 } : {}))
  expect(growth(all).find(({ name }) => name === 'delay')?.isFlat).toBeUndefined()
  expect(grown(samples((index) => (index % 2 ? { delay: 900, starved: 800 } : {})))).toEqual([])
})

test('too few samples give no verdict', () => {
  expect(() => growth(samples(() => ({})).slice(0, 10))).toThrow('too few')
})
