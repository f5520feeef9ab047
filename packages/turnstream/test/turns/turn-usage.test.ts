import { describe, expect, test } from 'vitest'
import type { Usage } from '../../../core/src/index.ts'
import { TurnUsage } from '../../src/turns/transcript.ts'
import { usage } from './payloads.ts'

/** The sum over rounds, of each of which the figures came one after the other. */
function sumOf(rounds: readonly (readonly Usage[])[]): Usage | undefined {
  const sum = new TurnUsage()
  for (const figures of rounds) {
    for (const each of figures) sum.update(each)
    sum.endRound()
  }
  return sum.sum
}

const rows: { name: string; rounds: Usage[][]; sum: Usage | undefined }[] = [
  { name: 'of nothing is unknown', rounds: [[], []], sum: undefined },
  { name: 'of zero is zero, not unknown', rounds: [[usage(0, 0)]], sum: usage(0, 0) },
  {
    name: 'of one round is its last report',
    rounds: [[usage(1, 1), usage(1, 9)]],
    sum: usage(1, 9),
  },
  { name: 'of two rounds is both', rounds: [[usage(1, 2)], [usage(3, 4)]], sum: usage(4, 6) },
  {
    name: 'ignores a round without usage',
    rounds: [[usage(1, 2)], [], [usage(3, 4)]],
    sum: usage(4, 6),
  },
  {
    name: 'adds figures that only some rounds report',
    rounds: [[usage(1, 2, { cached_tokens: 5 })], [usage(3, 4, { reasoning_tokens: 7 })]],
    sum: usage(4, 6, { cached_tokens: 5, reasoning_tokens: 7 }),
  },
  {
    name: 'adds the rare figures',
    rounds: [[usage(1, 2, { cache_write_tokens: 5 })], [usage(3, 4, { cache_write_tokens: 6 })]],
    sum: usage(4, 6, { cache_write_tokens: 11 }),
  },
  {
    name: 'is estimated when a part of it is',
    rounds: [[usage(1, 2, { estimated: true })], [usage(3, 4, { estimated: false })]],
    sum: usage(4, 6, { estimated: true }),
  },
]

describe('the usage of a turn', () => {
  test.each(rows)('$name', ({ rounds, sum }) => {
    expect(sumOf(rounds)).toEqual(sum)
  })

  test('of a running round counts too', () => {
    const sum = new TurnUsage()
    sum.update(usage(1, 2))
    sum.endRound()
    sum.update(usage(3, 0))
    expect(sum.sum).toEqual(usage(4, 2))
  })

  test('is reported once', () => {
    const sum = new TurnUsage()
    expect(sum.drainNews()).toBeUndefined()
    sum.update(usage(1, 2))
    expect(sum.drainNews()).toEqual(usage(1, 2))
    sum.endRound()
    expect(sum.drainNews()).toBeUndefined()
    sum.update(usage(0, 0))
    expect(sum.drainNews()).toBeUndefined()
    sum.update(usage(0, 1))
    expect(sum.drainNews()).toEqual(usage(1, 3))
  })
})
