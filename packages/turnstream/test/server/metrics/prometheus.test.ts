import { describe, expect, test } from 'vitest'
import {
  Family,
  Histogram,
  type MetricDefinition,
  Value,
} from '../../../src/server/metrics/definitions.ts'
import { parseExposition } from './exposition.ts'

function values(name: string, definition: MetricDefinition): Family<Value> {
  return new Family(name, definition, () => new Value())
}

function histograms(name: string, definition: MetricDefinition): Family<Histogram> {
  return new Family(name, definition, () => new Histogram(definition.buckets ?? []))
}

describe('a counter', () => {
  test('without labels exists from the start', () => {
    const family = values('a_total', { type: 'counter', help: 'What it counts.', labels: [] })
    expect(family.text()).toBe(
      '# HELP a_total What it counts.\n# TYPE a_total counter\na_total 0\n',
    )
    family.with().value += 2
    expect(family.text()).toContain('\na_total 2\n')
  })

  test('with labels has one series per value', () => {
    const family = values('a_total', { type: 'counter', help: 'H', labels: ['x', 'y'] })
    expect(family.text()).toBe('# HELP a_total H\n# TYPE a_total counter\n')
    family.with('1', '2').value += 1
    family.with('1', '2').value += 1
    family.with('2', '1').value += 1
    expect(family.text()).toContain('\na_total{x="1",y="2"} 2\na_total{x="2",y="1"} 1\n')
  })

  test('escapes label values', () => {
    const family = values('a', { type: 'gauge', help: 'back\\slash\nline', labels: ['x'] })
    const nasty = 'a"} 1\nb{c="\\'
    family.with(nasty).value = 7
    const text = family.text()
    expect(text).toContain('# HELP a back\\\\slash\\nline\n')
    expect(text).toContain('\na{x="a\\"} 1\\nb{c=\\"\\\\"} 7\n')
    expect(parseExposition(text).samples.size).toBe(1)
  })

  test('has at most 1,000 series and counts the rest together', () => {
    const family = values('a', { type: 'counter', help: 'H', labels: ['x', 'y'] })
    for (let index = 0; index < 5000; index++) family.with(`${index}`, 'z').value += 1
    const { samples } = parseExposition(family.text())
    expect(samples.size).toBe(1001)
    expect(samples.get('a{x="other",y="other"}')).toBe(4000)
    expect(samples.get('a{x="999",y="z"}')).toBe(1)
    family.with('7', 'z').value += 1
    expect(parseExposition(family.text()).samples.get('a{x="7",y="z"}')).toBe(2)
  })

  test.each([
    [Infinity, '+Inf'],
    [-Infinity, '-Inf'],
    [Number.NaN, 'NaN'],
    [0.1, '0.1'],
    [1e21, '1e+21'],
  ])('writes %s as %s', (value, text) => {
    const family = values('a', { type: 'gauge', help: 'H', labels: [] })
    family.with().value = value
    expect(family.text()).toContain(`\na ${text}\n`)
  })
})

describe('a histogram', () => {
  test('counts cumulatively up to each bound', () => {
    const family = histograms('s', { type: 'histogram', help: 'H', buckets: [0.5, 1], labels: [] })
    for (const value of [0.25, 0.5, 0.75, 1, 3]) family.with().observe(value)
    expect(family.text().split('\n').slice(2)).toEqual([
      's_bucket{le="0.5"} 2',
      's_bucket{le="1"} 4',
      's_bucket{le="+Inf"} 5',
      's_sum 5.5',
      's_count 5',
      '',
    ])
  })

  test('has its labels before the bound', () => {
    const definition = { type: 'histogram', help: 'H', buckets: [1], labels: ['p'] } as const
    const family = histograms('s', definition)
    family.with('x').observe(2)
    expect([...parseExposition(family.text()).samples]).toEqual([
      ['s_bucket{p="x",le="1"}', 0],
      ['s_bucket{p="x",le="+Inf"}', 1],
      ['s_sum{p="x"}', 2],
      ['s_count{p="x"}', 1],
    ])
  })
})

describe('the format checker', () => {
  test.each([
    ['a 1', 'no end'],
    ['# HELP a h\n# TYPE a gauge\na{x="1" 1\n', 'no line of the format'],
    ['# HELP a h\n# TYPE a gauge\na 1\na 1\n', 'twice'],
    ['# HELP a h\n# TYPE a gauge\na one\n', 'no number'],
    ['# HELP a h\n# TYPE a gauge\nb 1\n', 'stands below'],
    ['# TYPE a gauge\na 1\n', 'no help'],
  ])('refuses %j', (text, fault) => {
    expect(() => parseExposition(text)).toThrow(fault)
  })
})
