// Turns to feed to the benches. `test/bench/turns.test.ts` checks that they are what they claim.

/** @typedef {import('../dist/index.js').StreamEvent} StreamEvent */

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
 * Deltas of four characters, one estimated token each, that go round the items in turn.
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
