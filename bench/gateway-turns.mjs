// The turns that the benches of the gateway run, as recordings for the scripted provider, and what their
// readers must have seen in the end. `test/bench/gateway-turns.test.ts` checks that they are what they claim.
import { EventStamp } from './turnstream.mjs'

/** @typedef {import('../src/index.ts').StreamEvent} StreamEvent */
/** @typedef {import('../src/index.ts').StreamEventPayload} StreamEventPayload */

/**
 * @typedef {object} Pace
 * @property {number} atOnce Tokens that are there at the start, without waiting.
 * @property {number} tokens Tokens that follow, one at a time.
 * @property {number} perSecond
 */

const USAGE = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 }
const ITEM = 'recorded:1'

/** No two tokens of a turn are the same, so that a missing one is noticed. @param {number} index */
function tokenAt(index) {
  return `${index.toString(36)} `
}

/** @param {Pace} pace */
export function textOf({ atOnce, tokens }) {
  return Array.from({ length: atOnce + tokens }, (_, index) => tokenAt(index)).join('')
}

/** @param {Pace} pace @returns {StreamEvent[]} */
export function recordingOf(pace) {
  const { atOnce, tokens, perSecond } = pace
  let now = 0
  const stamp = new EventStamp({ now: () => now })
  /** @type {StreamEventPayload} */
  const start = {
    type: 'response_start',
    response_id: 'recorded',
    turn_id: 'recorded',
    thread_id: 'recorded',
    model_id: 'paced',
    provider_id: 'scripted',
    created_at: 0,
  }
  const events = [
    stamp.stamp(start),
    stamp.stamp({ type: 'item_start', item_id: ITEM, item_type: 'message', origin: 'agent' }),
  ]
  for (let index = 0; index < atOnce + tokens; index++) {
    if (index >= atOnce) now += 1000 / perSecond
    const delta_content = tokenAt(index)
    events.push(stamp.stamp({ type: 'item_delta', item_id: ITEM, delta_content }))
  }
  const final_item = { id: ITEM, content: textOf(pace) }
  events.push(
    stamp.stamp({
      type: 'item_done',
      item_id: ITEM,
      final_item: { type: 'message', origin: 'agent', ...final_item },
    }),
    stamp.stamp({
      type: 'response_done',
      response_id: 'recorded',
      status: 'complete',
      finish_reason: 'stop',
      usage: USAGE,
    }),
  )
  return events
}
