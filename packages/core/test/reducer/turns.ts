/** Turns as fast-check makes them. */

import * as fc from 'fast-check'
import type { ItemType } from '../../src/index.ts'
import {
  abort,
  breakOff,
  cancel,
  delta,
  done,
  end,
  fail,
  heartbeat,
  message,
  open,
  type Payload,
  start,
  usage,
  usageUpdate,
} from './events.ts'

/** One item of a well-formed turn: its events, and the text it comes to. */
export interface PlannedItem {
  id: string
  events: Payload[]
  text: string
}

type Ending = 'open' | 'done' | 'rewritten' | 'failed' | 'cancelled'

const itemTypes = fc.constantFrom<ItemType>(
  'message',
  'reasoning',
  'function_call',
  'function_call_output',
  'error',
)
const endings = fc.constantFrom<Ending>('open', 'done', 'rewritten', 'failed', 'cancelled')
const itemPlans = fc.record({
  item_type: itemTypes,
  initial_content: fc.string(),
  deltas: fc.array(fc.string()),
  ending: endings,
})
type ItemPlan = typeof itemPlans extends fc.Arbitrary<infer Plan> ? Plan : never

export const plannedItems: fc.Arbitrary<PlannedItem[]> = fc
  .array(itemPlans, { maxLength: 8 })
  .map((plans) => plans.map((plan, index) => plannedItem(`item-${index}`, plan)))

function plannedItem(id: string, plan: ItemPlan): PlannedItem {
  const { item_type, initial_content, deltas, ending } = plan
  const streamed = initial_content + deltas.join('')
  const text = ending === 'rewritten' ? `final ${streamed}` : streamed
  const last: Record<Ending, Payload[]> = {
    open: [],
    done: [done(message(id, text))],
    rewritten: [done(message(id, text))],
    failed: [fail(id)],
    cancelled: [cancel(id)],
  }
  const first = open(id, { item_type, initial_content })
  return { id, text, events: [first, ...deltas.map((text) => delta(id, text)), ...last[ending]] }
}

/** Deals the events of the items out in turn, as `picks` says; each item keeps its own order. */
export function interleave(items: readonly PlannedItem[], picks: readonly number[]): Payload[] {
  const queues = items.map(({ events }) => [...events])
  const dealt: Payload[] = []
  for (let turn = 0; queues.some(({ length }) => length > 0); turn++) {
    const waiting = queues.filter(({ length }) => length > 0)
    const next = waiting[(picks[turn % picks.length] ?? 0) % waiting.length]?.shift()
    if (next) dealt.push(next)
  }
  return dealt
}

const ids = fc.constantFrom('a', 'b', 'c')

/** Events that keep the schema but no order: what a broken producer might send. */
export const anyPayloads: fc.Arbitrary<Payload[]> = fc.array(
  fc.oneof(
    fc.tuple(ids, itemTypes).map(([id, item_type]) => open(id, { item_type })),
    fc.tuple(ids, fc.string()).map(([id, text]) => delta(id, text)),
    fc.tuple(ids, fc.string()).map(([id, text]) => done(message(id, text))),
    ids.map((id) => done({ type: 'cancelled', id })),
    ids.map((id) => done({ type: 'error', id, code: 'E', message: 'no' })),
    ids.map((id) => fail(id)),
    ids.map((id) => cancel(id, 'stop')),
    fc.nat().map((total) => usageUpdate(total + 1)),
    fc.constantFrom(heartbeat, start(), end(), end({ usage: usage(3) }), breakOff(), abort()),
  ),
)
