import fc from 'fast-check'
import { expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import {
  isStreamEvent,
  payloadFault,
  streamEventFault,
} from '../../src/protocol/stream-event-guard.ts'
import { decodeStreamEvent } from '../../src/schemas.ts'
import { sampleEvents } from './samples.ts'

/** Every path to a field of a value, outermost first. */
function paths(value: unknown, prefix: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) => [
    [...prefix, key],
    ...paths(inner, [...prefix, key]),
  ])
}

function replaced(value: unknown, path: readonly string[], by: unknown): unknown {
  const [key, ...rest] = path
  if (key === undefined) return by
  const copy = { ...(value as Record<string, unknown>) }
  if (rest.length === 0 && by === REMOVED) delete copy[key]
  else copy[key] = replaced(copy[key], rest, by)
  return copy
}

const REMOVED = Symbol('removed')
const oddities = [
  REMOVED,
  null,
  undefined,
  '',
  'text',
  0,
  -1,
  1.5,
  Number.NaN,
  Infinity,
  true,
  {},
  [],
  { code: 'E' },
]

function verdicts(value: unknown) {
  const fault = streamEventFault(value)
  return { guard: fault === undefined, schema: decodeStreamEvent(value).ok, fault }
}

test('guard and schema agree on every mutated field of every event', () => {
  let compared = 0
  for (const event of sampleEvents) {
    for (const path of paths(event)) {
      for (const oddity of oddities) {
        const { guard, schema, fault } = verdicts(replaced(event, path, oddity))
        const by = typeof oddity === 'symbol' ? 'removed' : JSON.stringify(oddity)
        expect(guard, `${event.type} ${path.join('.')} = ${by}: ${fault}`).toBe(schema)
        compared += 1
      }
    }
  }
  expect(compared).toBeGreaterThan(2000)
})

test('a payload is validated alike with and without its envelope', () => {
  for (const event of sampleEvents) {
    for (const path of paths(event.payload)) {
      // The envelope repeats the type, so it would differ from a changed one.
      if (path[0] === 'type') continue
      for (const oddity of oddities) {
        const payload = replaced(event.payload, path, oddity)
        expect(payloadFault(payload)).toBe(streamEventFault({ ...event, payload }))
      }
    }
  }
  expect(payloadFault(null)).toBe('payload is not an object')
  expect(payloadFault({})).toBe('type is not a non-empty string')
  expect(payloadFault({ type: 'of a later version' })).toBeUndefined()
})

test('guard and schema agree on events with two mutations', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...sampleEvents),
      fc.nat(),
      fc.nat(),
      fc.constantFrom(...oddities),
      fc.anything(),
      (event, first, second, oddity, anything) => {
        const places = paths(event)
        const once = replaced(event, places[first % places.length] ?? [], oddity)
        const twice = replaced(once, places[second % places.length] ?? [], anything)
        const { guard, schema } = verdicts(twice)
        expect(guard).toBe(schema)
      },
    ),
    { numRuns: caseCount(2000) },
  )
})

test('guard and schema agree on arbitrary values', () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      const { guard, schema } = verdicts(value)
      expect(guard).toBe(schema)
      expect(isStreamEvent(value)).toBe(false)
    }),
  )
})
