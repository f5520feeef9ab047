import { describe, expect, test } from 'vitest'
import { nearest, suggestion } from '../../../../core/src/protocol/nearest.ts'
import { formatDuration, parseDuration } from '../../../src/cli/serve/settings.ts'

describe('a duration', () => {
  test.each([
    ['500ms', 500],
    ['10s', 10_000],
    ['1.5s', 1500],
    ['30m', 1_800_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
    [' 2 s ', 2000],
  ])('%j is %i milliseconds', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  test.each(['', '10', '10x', 's', '-1s', '0s', '1e3s', '10 s s', 'Infinitys', '99999999999999d'])(
    '%j is invalid',
    (text) => {
      expect(parseDuration(text)).toBeUndefined()
    },
  )

  test.each(['500ms', '10s', '90s', '30m', '5h', '7d'])(
    '%s is formatted as it was parsed',
    (text) => {
      expect(formatDuration(parseDuration(text) ?? 0)).toBe(text)
    },
  )
})

describe('the suggested name', () => {
  const names = ['host', 'port', 'store', 'shutdownGrace']

  test.each([
    ['prot', 'port'],
    ['Port', 'port'],
    ['stor', 'store'],
    ['shutdown-grace', 'shutdownGrace'],
    ['shutdownGraceMs', 'shutdownGrace'],
  ])('for %s is %s', (typed, name) => {
    expect(nearest(typed, names)).toBe(name)
  })

  test('is missing when nothing is close', () => {
    expect(nearest('telemetry', names)).toBeUndefined()
    expect(nearest('x', [])).toBeUndefined()
    expect(suggestion('telemetry', names)).toBe('; available: host, port, store, shutdownGrace')
    const many = Array.from({ length: 40 }, (_, index) => `setting${index}`)
    expect(suggestion('telemetry', many)).toBe('')
    expect(suggestion('prot', names)).toBe('; did you mean port?')
  })
})
