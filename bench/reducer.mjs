// Question: what does one event cost in the reducer, and does the cost grow with earlier events or with items?
// Load: text deltas of a few characters. Every sample reduces 100,000 events, as turns of 1,000,
//   10,000 or 100,000. In the second load every 50 deltas are an item: 2,000 items in the longest
//   turn. Event ids sort, like ours; the third load has random ones.
//   Results are held until the end of a sample, so that garbage collection is the same in every load.
// Rival: the same in place, with a Set of ids and a Map of texts, without earlier states.
import { randomUUID } from 'node:crypto'
import { expectRatio, measure, nsOf, printTable } from './measure.mjs'
import { messageTurn, sortableId, TEXT } from './turns.mjs'
import { turnstream } from './turnstream.mjs'

const { initialReducerState, reduce, toResponse } = turnstream
const EVENTS = 100_000
const TURNS = [1000, 10_000, 100_000]

/**
 * @typedef {import('../packages/turnstream/src/index.ts').StreamEvent} StreamEvent
 * @typedef {(turn: StreamEvent[]) => () => Iterable<string>} Reduction Returns what reads the texts.
 */

/** @type {Reduction} */
function reduced(turn) {
  let state = initialReducerState()
  for (const event of turn) state = reduce(state, event)
  return () =>
    toResponse(state).output_items.map((item) => (item.type === 'message' ? item.content : ''))
}

/** @type {Reduction} */
function reducedInPlace(turn) {
  /** @type {Set<string>} */
  const seen = new Set()
  /** @type {Map<string, string>} */
  const texts = new Map()
  for (const { event_id, payload } of turn) {
    if (seen.has(event_id)) continue
    seen.add(event_id)
    if (payload.type === 'item_start') texts.set(payload.item_id, payload.initial_content ?? '')
    if (payload.type === 'item_delta') {
      texts.set(payload.item_id, (texts.get(payload.item_id) ?? '') + payload.delta_content)
    }
  }
  return () => texts.values()
}

/** @param {Reduction} reduction @param {StreamEvent[][]} turns */
function reduceTurns(reduction, turns) {
  let length = 0
  for (const texts of turns.map(reduction)) for (const text of texts()) length += text.length
  if (length !== EVENTS * TEXT.length) throw new Error(`${length} characters came out`)
  return EVENTS
}

/**
 * @param {string} title
 * @param {number} itemLength
 * @param {(index: number) => string} idOf
 * @returns {Promise<number>} how much more an event costs in the longest turn than in the shortest
 */
async function growth(title, itemLength, idOf) {
  const loads = TURNS.map((length) => ({
    name: `turns of ${length}`,
    turns: Array.from({ length: EVENTS / length }, () => messageTurn(length, itemLength, idOf)),
  }))
  const figures = await measure(
    loads.flatMap(({ name, turns }) => [
      { name: `reduce, ${name}`, run: () => reduceTurns(reduced, turns) },
      { name: `in place, ${name}`, run: () => reduceTurns(reducedInPlace, turns) },
    ]),
  )
  printTable(`reducer, ${title}: CPU ns per event`, figures)
  return nsOf(figures, `reduce, turns of 100000`) / nsOf(figures, `reduce, turns of 1000`)
}

export async function benchReducer() {
  const one = await growth('one item', EVENTS, sortableId)
  const many = await growth('an item every 50 events', 50, sortableId)
  await growth('one item, random ids', EVENTS, () => randomUUID())
  expectRatio('reducer, one item: turns of 100,000 / turns of 1,000', one, 2)
  expectRatio('reducer, many items: turns of 100,000 / turns of 1,000', many, 2)
}
