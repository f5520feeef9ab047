/** Random turns for property tests: well-formed items, interleaved in any order. */

import fc from 'fast-check'
import type { StreamEvent } from '../../src/index.ts'
import {
  aborted,
  call,
  cancel,
  delta,
  done,
  fail,
  open,
  output,
  responseDone,
  responseError,
  start,
  thought,
} from './events.ts'

export interface RandomTurn {
  events: StreamEvent[]
  /** The text that the deltas of an item add up to, by item. */
  streamed: Map<string, string>
  /** The final text of the items that were done before the end. */
  finals: Map<string, string>
}

interface Lane {
  events: StreamEvent[]
  id: string
  streamed: string
  final?: string
}

const text = fc.string({ unit: 'grapheme', maxLength: 60 })
const deltas = fc.array(text, { maxLength: 8 })

/** What becomes of a text item: its final text extends, replaces or lacks what was streamed. */
const fate = fc.oneof(
  fc.record({ kind: fc.constant('extend' as const), more: text }),
  fc.record({ kind: fc.constant('replace' as const), by: text }),
  fc.constant({ kind: 'fail' as const }),
  fc.constant({ kind: 'cancel' as const }),
  fc.constant({ kind: 'leave' as const }),
)

function textLane(index: number, parts: string[], end: Fate, isThought: boolean): Lane {
  const id = `item-${index}`
  const streamed = parts.join('')
  const events = [
    open(id, { item_type: isThought ? 'reasoning' : 'message' }),
    ...parts.map((part) => delta(id, part)),
  ]
  if (end.kind === 'fail') events.push(fail(id, 'FAILED', 'why'))
  if (end.kind === 'cancel') events.push(cancel(id))
  if (end.kind === 'fail' || end.kind === 'cancel' || end.kind === 'leave') {
    return { id, events, streamed }
  }
  const final = end.kind === 'extend' ? streamed + end.more : end.by
  events.push(isThought ? thought(id, final) : done(id, final))
  return { id, events, streamed, final }
}

type Fate = typeof fate extends fc.Arbitrary<infer T> ? T : never

function callLane(index: number, args: Record<string, string>, hasOutput: boolean): Lane {
  const id = `call-${index}`
  const json = JSON.stringify(args)
  const events = [
    open(id, { item_type: 'function_call' }),
    delta(id, json),
    call(id, `c-${index}`, json),
  ]
  if (hasOutput) events.push(output(`out-${index}`, `c-${index}`, json))
  return { id, events, streamed: '' }
}

const lane: fc.Arbitrary<(index: number) => Lane> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.tuple(deltas, fate, fc.boolean()).map(
      ([parts, end, isThought]) =>
        (index: number) =>
          textLane(index, parts, end, isThought),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.dictionary(text, text, { maxKeys: 3 }), fc.boolean()).map(
      ([args, hasOutput]) =>
        (index: number) =>
          callLane(index, args, hasOutput),
    ),
  },
)

const TERMINALS = {
  done: () => responseDone(),
  error: () => responseError('BROKEN', 'why'),
  abort: () => aborted('stop'),
}

export const randomTurn: fc.Arbitrary<RandomTurn> = fc
  .tuple(
    fc.array(lane, { maxLength: 5 }),
    fc.array(fc.nat({ max: 1000 }), { minLength: 60, maxLength: 60 }),
    fc.constantFrom('done' as const, 'error' as const, 'abort' as const),
    fc.array(fc.nat({ max: 60 }), { maxLength: 3 }),
  )
  .map(([makers, choices, end, trailing]) => {
    const lanes = makers.map((make, index) => make(index))
    const queues = lanes.map(({ events }) => [...events])
    const events = [start()]
    for (const choice of choices) {
      const open = queues.filter((queue) => queue.length > 0)
      const next = open[choice % open.length]?.shift()
      if (next === undefined) break
      events.push(next)
    }
    events.push(TERMINALS[end]())
    // What a confused source might still send after the end.
    for (const index of trailing) {
      const late = lanes.flatMap((each) => each.events)[index]
      if (late !== undefined) events.push(late)
    }
    return {
      events,
      streamed: new Map(lanes.map(({ id, streamed }) => [id, streamed])),
      finals: new Map(
        lanes.flatMap(({ id, final }, index) =>
          final === undefined || queues[index]?.length !== 0 ? [] : [[id, final] as const],
        ),
      ),
    }
  })
