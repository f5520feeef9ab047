// The turns of the gateway benches: recordings for the scripted provider, and the output that readers must receive.
// Tested by `test/bench/gateway-turns.test.ts`.
import { fakeClock, turnstream } from './turnstream.mjs'

/** @typedef {import('../packages/turnstream/src/index.ts').StreamEvent} StreamEvent */
/** @typedef {import('../packages/turnstream/src/index.ts').StreamEventPayload} StreamEventPayload */

/**
 * @typedef {object} Pace
 * @property {number} atOnce Tokens sent at the start, without waiting.
 * @property {number} tokens Tokens that follow, one at a time.
 * @property {number} perSecond
 *
 * @typedef {object} Emission One emission of the processor.
 * @property {number} tokens Tokens processed by then.
 * @property {Record<string, unknown>} output
 */

const USAGE = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 }
const RUN = 'recorded'
const ITEM = 'recorded:1'
const TRACE = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' }

/** Number of points at which a turn can start: see `modelPaces`. */
export const PHASES = 20

/** The tokens of a turn are distinct, so that a missing one is detected. @param {number} index */
export function tokenAt(index) {
  return `${index.toString(36)} `
}

/** How many tokens a text of `tokenAt` has. @param {string} text */
export function countTokens(text) {
  if (text === '') return 0
  return Number.parseInt(text.slice(text.lastIndexOf(' ', text.length - 2) + 1), 36) + 1
}

/** @param {Pace} pace */
export function turnText({ atOnce, tokens }) {
  return Array.from({ length: atOnce + tokens }, (_, index) => tokenAt(index)).join('')
}

/**
 * The models of a paced provider. `model` starts at the first token, `phase-5` with 5/20 of the tokens at once,
 * so that turns started together are spread over their lives; `burst` sends all at once.
 * @param {Pace} pace @returns {Record<string, Pace>}
 */
export function modelPaces(pace) {
  const all = pace.atOnce + pace.tokens
  /** @type {Record<string, Pace>} */
  const paces = { model: pace, burst: { ...pace, atOnce: all, tokens: 0 } }
  for (let phase = 0; phase < PHASES; phase++) {
    const atOnce = Math.floor((all * phase) / PHASES)
    paces[`phase-${phase}`] = { ...pace, atOnce, tokens: all - atOnce }
  }
  return paces
}

/** @param {Pace} pace @returns {StreamEvent[]} */
export function createRecording(pace) {
  const { atOnce, tokens, perSecond } = pace
  /** @type {StreamEvent[]} */
  const events = []
  let timestamp = 0
  /** @param {StreamEventPayload} payload */
  const add = (payload) => {
    const event_id = `00000000-0000-8000-8000-${String(events.length).padStart(12, '0')}`
    const event = { event_id, timestamp, trace_context: TRACE, run_id: RUN, type: payload.type }
    events.push(/** @type {StreamEvent} */ ({ ...event, payload }))
  }
  add({
    type: 'response_start',
    response_id: RUN,
    turn_id: RUN,
    thread_id: RUN,
    model_id: 'paced',
    provider_id: 'scripted',
    created_at: 0,
  })
  add({ type: 'item_start', item_id: ITEM, item_type: 'message', origin: 'agent' })
  for (let index = 0; index < atOnce + tokens; index++) {
    if (index >= atOnce) timestamp += 1000 / perSecond
    add({ type: 'item_delta', item_id: ITEM, delta_content: tokenAt(index) })
  }
  const content = turnText(pace)
  add({
    type: 'item_done',
    item_id: ITEM,
    final_item: { id: ITEM, type: 'message', origin: 'agent', content },
  })
  add({
    type: 'response_done',
    response_id: RUN,
    status: 'complete',
    finish_reason: 'stop',
    usage: USAGE,
  })
  return events
}

/** What a reader of a turn receives, and when. @param {Pace} pace @returns {Promise<Emission[]>} */
export async function emissionsAt(pace) {
  const clock = fakeClock()
  let tokens = 0
  /** @type {Emission[]} */
  const emissions = []
  const processor = new turnstream.StreamProcessor({
    turnId: '00000000-0000-4000-8000-000000000000',
    threadId: '00000000-0000-4000-8000-000000000000',
    clock,
    onEmit: ({ payload }) => void emissions.push({ tokens, output: JSON.parse(payload) }),
  })
  for (const event of createRecording(pace)) {
    await clock.advance(event.timestamp - clock.now())
    if (event.type === 'item_delta') tokens += 1
    await processor.processEvent(event)
  }
  await processor.destroy()
  return emissions
}
