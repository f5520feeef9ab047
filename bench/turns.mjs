// Turns for the benches. Tested by `test/bench/turns.test.ts`.

/** @typedef {import('../packages/turnstream/src/index.ts').StreamEvent} StreamEvent */

export const TURN_ID = 'bench-turn'

/** @param {number} sequence @param {object} payload @returns {StreamEvent} */
function event(sequence, payload) {
  return /** @type {StreamEvent} */ ({
    event_id: `00000000-0000-8000-8000-${String(sequence).padStart(12, '0')}`,
    timestamp: 1_700_000_000_000 + sequence,
    trace_context: { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' },
    run_id: TURN_ID,
    type: /** @type {{ type: string }} */ (payload).type,
    payload,
  })
}

/** @param {string} itemId @param {'message' | 'function_call'} itemType @param {string} text */
export function itemStart(itemId, itemType, text = '') {
  const payload = {
    type: 'item_start',
    item_id: itemId,
    item_type: itemType,
    initial_content: text,
  }
  return event(0, payload)
}

/**
 * Deltas of four characters, one estimated token each, distributed over the items in turn.
 * @param {number} count @param {number} items
 */
export function tokenDeltas(count, items) {
  return Array.from({ length: count }, (_, index) =>
    event(index + 1, {
      type: 'item_delta',
      item_id: `item-${index % items}`,
      delta_content: WORDS[index % WORDS.length],
    }),
  )
}

const WORDS = ['The ', 'turn', ' is ', 'a lo', 'g, "', 'kept', '" fo', 'r al', 'l.\n ', 'And ']

/** What every event of a `messageTurn` adds. */
export const TEXT = 'word '

/** @param {number} index */
export function sortableId(index) {
  return `0192f0c1-7a3b-8000-8000-${index.toString(16).padStart(12, '0')}`
}

/**
 * Messages one after another, each `itemLength` events long.
 * @param {number} length @param {number} itemLength @param {(index: number) => string} idOf
 */
export function messageTurn(length, itemLength, idOf) {
  return Array.from({ length }, (_, index) => {
    const item_id = `${TURN_ID}:${Math.floor(index / itemLength)}`
    const payload =
      index % itemLength === 0
        ? { type: 'item_start', item_id, item_type: 'message', initial_content: TEXT }
        : { type: 'item_delta', item_id, delta_content: TEXT }
    return parsed({ ...event(index, payload), event_id: idOf(index) })
  })
}

/**
 * Events come from JSON. Spread objects have other hidden classes in Node 20: reading them took four times as long as
 * reducing them.
 * @param {object} value @returns {StreamEvent}
 */
function parsed(value) {
  return JSON.parse(JSON.stringify(value))
}
