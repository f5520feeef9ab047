/** Random turns with everything this dialect has a rule for. */

import fc from 'fast-check'
import type { StreamEvent } from '../../../src/index.ts'
import { EXECUTED_BY_PROVIDER } from '../../../src/items/marks.ts'
import {
  call,
  delta,
  done,
  finish,
  open,
  output,
  responseDone,
  start,
  thought,
  tokens,
} from '../../processor/events.ts'

type Lane = (index: number) => StreamEvent[]

const text = fc.string({ unit: 'grapheme', maxLength: 12 })
const pieces = fc.array(text, { maxLength: 5 })

const textLane: fc.Arbitrary<Lane> = fc
  .record({ pieces, more: text, thought: fc.boolean(), startsLate: fc.boolean() })
  .map((plan) => (index) => {
    const id = `text-${index}`
    const type = plan.thought ? 'reasoning' : 'message'
    const final = plan.pieces.join('') + plan.more
    const last = plan.thought ? thought(id, final) : done(id, final)
    if (plan.startsLate) return [last]
    return [open(id, { item_type: type }), ...plan.pieces.map((piece) => delta(id, piece)), last]
  })

const userLane: fc.Arbitrary<Lane> = fc
  .tuple(text, fc.boolean())
  .map(([words, told]) => (index) => {
    const id = `run-${index}-user-prompt`
    const opening = told ? open(id, { origin: 'user' }) : open(id)
    return [opening, delta(id, words), done(id, words, 'user')]
  })

/** `streamed` of the arguments come as deltas, in pieces; the rest comes with the final item. */
const callLane: fc.Arbitrary<Lane> = fc
  .record({
    args: fc.oneof(
      fc.constant(''),
      fc.dictionary(text, text).map((each) => JSON.stringify(each)),
    ),
    cuts: fc.array(fc.nat({ max: 40 }), { maxLength: 4 }),
    streamed: fc.nat({ max: 40 }),
    known: fc.constantFrom('at once', 'name', 'id', 'at the end'),
    runBy: fc.constantFrom('client', 'client', 'provider'),
  })
  .map(({ args, cuts, streamed, known, runBy }) => (index) => {
    const id = `call-${index}`
    const call_id = `c-${index}`
    const mark = { provider_metadata: { executed_by: EXECUTED_BY_PROVIDER } }
    const opening = open(id, {
      item_type: 'function_call',
      ...((known === 'at once' || known === 'name') && { name: 'read_file' }),
      ...((known === 'at once' || known === 'id') && { call_id }),
      ...(runBy === 'provider' && mark),
    })
    const deltas = split(args.slice(0, streamed), cuts).map((piece) => delta(id, piece))
    const item = { type: 'function_call', id, call_id, name: 'read_file', arguments: args } as const
    if (runBy === 'client') return [opening, ...deltas, call(id, call_id, args)]
    const answer = output(`out-${index}`, call_id, 'what the provider found')
    return [opening, ...deltas, finish(id, { ...item, ...mark }), answer]
  })

function split(whole: string, cuts: readonly number[]): string[] {
  const bounds = [0, ...cuts.map((cut) => Math.min(cut, whole.length)), whole.length]
  const sorted = bounds.toSorted((one, other) => one - other)
  return sorted.slice(1).map((to, at) => whole.slice(sorted[at], to))
}

const ending = fc.record({
  finish_reason: fc.constantFrom('stop', 'tool_calls', 'pause', 'other', null),
  usage: fc.constantFrom(undefined, tokens(3, 4)),
})

/** A turn that comes to a good end, its items one after another or overlapping. */
function turnOf(overlapping: boolean): fc.Arbitrary<StreamEvent[]> {
  const lanes = fc.array(fc.oneof(textLane, textLane, callLane, callLane, userLane), {
    maxLength: 5,
  })
  const picks = fc.array(fc.nat({ max: 1000 }), { minLength: 1, maxLength: 30 })
  return fc.tuple(lanes, picks, ending).map(([makers, choices, { finish_reason, usage }]) => {
    const queues = makers.map((make, index) => make(index))
    const events = overlapping ? dealt(queues, choices) : queues.flat()
    const last = responseDone({ finish_reason, ...(usage && { usage }) })
    return [start(), ...events, last]
  })
}

function dealt(queues: readonly StreamEvent[][], picks: readonly number[]): StreamEvent[] {
  const events: StreamEvent[] = []
  for (let turn = 0; ; turn++) {
    const waiting = queues.filter(({ length }) => length > 0)
    if (waiting.length === 0) return events
    const next = waiting[(picks[turn % picks.length] ?? 0) % waiting.length]?.shift()
    if (next !== undefined) events.push(next)
  }
}

export const overlappingTurn = turnOf(true)
export const sequentialTurn = turnOf(false)
