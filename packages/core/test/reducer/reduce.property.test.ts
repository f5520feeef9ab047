import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  initialReducerState,
  type ReducerState,
  type ResponseItem,
  ResponseReducer,
  type ResponseStatus,
  reduce,
  type StreamEvent,
  toResponse,
} from '../../src/index.ts'
import { unreachable } from '../../src/protocol/errors.ts'
import { responseSchema } from '../../src/schemas.ts'
import { end, eventsOf, reduceAll, responseTo, start } from './events.ts'
import { anyPayloads, interleave, plannedItems } from './turns.ts'

const picks = fc.array(fc.nat(), { minLength: 1 })
const validTurns = fc
  .tuple(plannedItems, picks)
  .map(([items, order]) => ({ items, payloads: [start(), ...interleave(items, order), end()] }))
const anyTurns = fc.oneof(
  validTurns.map(({ payloads }) => payloads),
  anyPayloads,
)

function textOf(item: ResponseItem): string {
  switch (item.type) {
    case 'message':
    case 'reasoning':
      return item.content
    case 'function_call':
      return item.arguments
    case 'function_call_output':
      return item.output
    case 'error':
      return item.message
    case 'approval_request':
    case 'approval_response':
    case 'cancelled':
      return ''
    default:
      return unreachable(item)
  }
}

const ENDS: ResponseStatus[] = ['complete', 'error', 'aborted']
const LATER: Record<ResponseStatus, ResponseStatus[]> = {
  queued: ['in_progress', ...ENDS],
  in_progress: ENDS,
  complete: [],
  error: [],
  aborted: [],
}

/** Sends some events again, each at any time after it came first. */
function withDuplicates(events: readonly StreamEvent[], again: readonly [number, number][]) {
  const sent = [...events]
  for (const [which, delay] of again) {
    const event = events[which % events.length]
    if (!event) continue
    const earliest = sent.indexOf(event) + 1
    sent.splice(earliest + (delay % (sent.length - earliest + 1)), 0, event)
  }
  return sent
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const inner of Object.values(value)) deepFreeze(inner)
  return value
}

describe('a well-formed turn, however its items interleave', () => {
  test('gives the items in the order of their first appearance, with all of their text', () => {
    fc.assert(
      fc.property(validTurns, ({ items, payloads }) => {
        const seen = payloads.flatMap((payload) => ('item_id' in payload ? [payload.item_id] : []))
        const texts = new Map(items.map(({ id, text }) => [id, text]))
        const { output_items, status } = toResponse(reduceAll(eventsOf(payloads)))
        expect(output_items.map(({ id }) => id)).toEqual([...new Set(seen)])
        expect(output_items.map(textOf)).toEqual([...new Set(seen)].map((id) => texts.get(id)))
        expect(status).toBe('complete')
      }),
    )
  })
})

describe('any turn', () => {
  test('gives the same Response when events are repeated', () => {
    fc.assert(
      fc.property(anyTurns, fc.array(fc.tuple(fc.nat(), fc.nat())), (payloads, again) => {
        const events = eventsOf(payloads)
        const once = toResponse(reduceAll(events))
        expect(toResponse(reduceAll(withDuplicates(events, again)))).toEqual(once)
      }),
    )
  })

  test('gives a Response that its own schema accepts, after every event', () => {
    fc.assert(
      fc.property(anyTurns, (payloads) => {
        let state = initialReducerState()
        for (const event of eventsOf(payloads)) {
          state = reduce(state, event)
          const response = toResponse(state)
          expect(responseSchema.parse(response)).toEqual(response)
        }
      }),
    )
  })

  test('keeps every item and its place, and ends once', () => {
    fc.assert(
      fc.property(anyTurns, (payloads) => {
        const reducer = new ResponseReducer()
        for (const event of eventsOf(payloads)) {
          const before = reducer.response
          const after = reducer.apply(event).response
          const kept = after.output_items.slice(0, before.output_items.length)
          expect(kept.map(({ id }) => id)).toEqual(before.output_items.map(({ id }) => id))
          expect([before.status, ...LATER[before.status]]).toContain(after.status)
        }
      }),
    )
  })
})

describe('purity', () => {
  test('neither a state nor an event is modified', () => {
    fc.assert(
      fc.property(anyTurns, (payloads) => {
        let state = deepFreeze(initialReducerState())
        for (const event of deepFreeze(eventsOf(payloads))) {
          deepFreeze(toResponse(state))
          state = deepFreeze(reduce(state, event)) // a write would throw
        }
        expect(toResponse(state)).toEqual(responseTo(payloads))
      }),
    )
  })

  test('an old state stays unchanged and can be reduced along another branch', () => {
    fc.assert(
      fc.property(anyTurns, anyTurns, fc.nat(), (left, right, at) => {
        const trunk = eventsOf(left)
        const cut = at % (trunk.length + 1)
        const branch = eventsOf(right).slice(cut)
        const states: ReducerState[] = [initialReducerState()]
        for (const event of trunk) states.push(reduce(states.at(-1)!, event))
        const responses = states.map((state) => structuredClone(toResponse(state)))

        const branched = toResponse(reduceAll(branch, states[cut]))

        expect(branched).toEqual(toResponse(reduceAll([...trunk.slice(0, cut), ...branch])))
        expect(states.map((state) => toResponse(state))).toEqual(responses)
      }),
    )
  })
})
