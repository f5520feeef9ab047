import { expect, test } from 'vitest'
import { callIdsOf } from '../../src/formats/translation.ts'

const RUN = '0198a7c2-1111-7222-8333-444455556666'

test('the same run gives the same unique ids', () => {
  const first = callIdsOf(RUN)
  const second = callIdsOf(RUN)
  const ids = Array.from({ length: 100 }, first)
  expect(new Set(ids).size).toBe(100)
  expect(Array.from({ length: 100 }, second)).toEqual(ids)
  expect(ids).not.toContain(callIdsOf(RUN.replace('6666', '6667'))())
})

test.each([RUN, 'run', '', 'ünï/cödé: x', 'x'.repeat(500)])(
  'ids for run %j are accepted by vendors',
  (run) => {
    const next = callIdsOf(run)
    expect(Array.from({ length: 20 }, next).at(-1)).toMatch(/^[a-zA-Z0-9_-]{1,40}$/)
  },
)
