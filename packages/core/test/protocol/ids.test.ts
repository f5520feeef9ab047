import fc from 'fast-check'
import { expect, test } from 'vitest'
import { eventIdsOf } from '../../src/protocol/ids.ts'

const UUID_8 = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/

function take(runId: string, count: number, sequence?: number): string[] {
  const next = eventIdsOf(runId, sequence)
  return Array.from({ length: count }, next)
}

test('event ids are UUIDs of version 8 with the bits of the run and a counter', () => {
  expect(take('0192F0C1-7a3b-7abc-9def-0123456789ab', 3)).toEqual([
    '0192f0c1-7a3b-8abc-adef-89ab00000001',
    '0192f0c1-7a3b-8abc-adef-89ab00000002',
    '0192f0c1-7a3b-8abc-adef-89ab00000003',
  ])
})

test('they sort in event order and can continue anywhere', () => {
  const ids = take('run', 300)
  expect(ids.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(ids)
  expect(take('run', 100, 200)).toEqual(ids.slice(200))
})

test("any run id gives valid, deterministic ids, different from another run's", () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), fc.string({ minLength: 1 }), (a, b) => {
      expect(take(a, 1)[0]).toMatch(UUID_8)
      expect(take(a, 1)).toEqual(take(a, 1))
      fc.pre(a !== b)
      expect(take(a, 1)).not.toEqual(take(b, 1))
    }),
  )
})
