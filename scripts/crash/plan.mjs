// The turns of a crash run. A turn is determined by the seed and its number, so the verifier knows every byte that
// may be stored.
import { eventIdsOf } from './library.mjs'
import { Random } from './random.mjs'

/** @typedef {import('../../packages/core/src/protocol/stream-event.ts').StreamEventPayload} Payload */
/** @typedef {'message' | 'reasoning'} TextType */

/**
 * What the owner does: finishes the turn, abandons it in the middle, or continues after a pause in which others may
 * have claimed it.
 * @typedef {'finish' | 'abandon' | 'stall'} Fate
 */

/**
 * @typedef {object} PlannedTurn
 * @property {number} number
 * @property {string} tenant
 * @property {string} turnId
 * @property {string} runId
 * @property {string} threadId
 * @property {readonly string[]} events every record of the log `events`, the terminal one last
 * @property {Fate} fate
 * @property {number} stopsAfter where an owner that does not finish stops
 */

/** Turns of one thread follow each other; a turn that is left in the middle ends the thread. */
export const TURNS_PER_THREAD = 4

/** @type {readonly [string, ...string[]]} */
const PIECES = [
  'word ',
  'another word, ',
  'Ünïcödé ',
  '漢字',
  '👩‍👩‍👧 ',
  '\n',
  '"quoted" ',
  'back\\slash ',
  '\u2028',
  '\t',
  '{"json":[1,2]} ',
  '',
]

const TENANTS = /** @type {const} */ (['default', 'acme'])

/** Every second thread belongs to another tenant and reuses the ids of the previous thread. @param {number} number */
export function placeOf(number) {
  const thread = Math.floor(number / TURNS_PER_THREAD)
  const isOther = thread % 2
  const namesake = number - isOther * TURNS_PER_THREAD
  return {
    tenant: TENANTS[isOther === 1 ? 1 : 0],
    turnId: `turn-${namesake}`,
    threadId: `thread-${thread - isOther}`,
    namesake,
  }
}

/** The name of a turn, unique across tenants. @param {{ tenant: string, turnId: string }} turn */
export function nameOf({ tenant, turnId }) {
  return `${tenant}/${turnId}`
}

/** @param {string} seed @param {number} number @returns {PlannedTurn} */
export function planTurn(seed, number) {
  const random = new Random(`${seed}/${number}`)
  const { tenant, turnId, threadId, namesake } = placeOf(number)
  const ids = { turnId, threadId }
  const runId = random.chance(0.5) ? turnId : `run-${namesake}`
  const payloads = [
    startOf(runId, ids),
    ...(random.chance(0.05) ? [] : interleave(random, lanesOf(random, runId))),
    endOf(random, runId, turnId),
  ]
  const stops = random.between(0, payloads.length - 1)
  /** @type {Fate} */
  const fate = random.chance(0.8) ? 'finish' : random.pick(['abandon', 'stall'])
  const events = stamped(random, runId, payloads)
  return {
    number,
    tenant,
    ...ids,
    runId,
    events,
    fate,
    stopsAfter: fate === 'finish' ? events.length : stops,
  }
}

/** @param {string} runId @param {{ turnId: string, threadId: string }} ids @returns {Payload} */
function startOf(runId, { turnId, threadId }) {
  return {
    type: 'response_start',
    response_id: runId,
    turn_id: turnId,
    thread_id: threadId,
    model_id: 'model',
    provider_id: 'provider',
    created_at: 0,
  }
}

/** @param {Random} random @param {string} runId @param {string} turnId @returns {Payload} */
function endOf(random, runId, turnId) {
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
  /** @type {readonly [Payload, ...Payload[]]} */
  const endings = [
    { type: 'response_done', response_id: runId, status: 'complete', usage, finish_reason: 'stop' },
    { type: 'response_done', response_id: runId, status: 'complete', finish_reason: 'length' },
    { type: 'response_error', response_id: runId, error: { code: 'BROKEN', message: 'why' } },
    { type: 'turn_aborted_by_user', turn_id: turnId, reason: 'enough' },
  ]
  return random.pick(endings)
}

/** @param {Random} random @param {string} runId @param {readonly Payload[]} payloads */
function stamped(random, runId, payloads) {
  const nextId = eventIdsOf(runId)
  let timestamp = 1_700_000_000_000 + random.between(0, 1_000_000)
  return payloads.map((payload) => {
    // Sometimes a clock is set back.
    timestamp += random.chance(0.01) ? -random.between(0, 5000) : random.between(0, 60)
    const trace_context = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' }
    const { type } = payload
    return JSON.stringify({
      event_id: nextId(),
      timestamp,
      trace_context,
      run_id: runId,
      type,
      payload,
    })
  })
}

/** @param {Random} random @param {string} runId @returns {Payload[][]} */
function lanesOf(random, runId) {
  const prompt = `${runId}-user-prompt`
  /** @type {Payload[][]} */
  const lanes = [
    [
      { type: 'item_start', item_id: prompt, item_type: 'message', origin: 'user' },
      doneOf(prompt, 'message', textOf(random, 10), 'user'),
    ],
  ]
  const isLong = random.chance(0.06)
  const count = isLong ? 1 : random.between(0, 4)
  for (let index = 1; index <= count; index += 1) {
    const id = `${runId}:${index}`
    const isCall = !isLong && random.chance(0.25)
    lanes.push(isCall ? callLane(random, id) : textLane(random, id, isLong))
  }
  return lanes
}

/** @param {Random} random @param {string} item_id @param {boolean} isLong @returns {Payload[]} */
function textLane(random, item_id, isLong) {
  /** @type {TextType} */
  const item_type = random.pick(['message', 'message', 'reasoning'])
  const deltas = isLong ? random.between(260, 800) : random.between(0, 30)
  /** @type {Payload[]} */
  const lane = [{ type: 'item_start', item_id, item_type }]
  let content = ''
  for (let index = 0; index < deltas; index += 1) {
    // Half a character may arrive alone.
    const delta_content = random.chance(0.02)
      ? random.pick(['\ud83d', '\ude00'])
      : textOf(random, isLong ? 2 : 8)
    content += delta_content
    lane.push({ type: 'item_delta', item_id, delta_content })
  }
  const error = { code: 'BROKEN', message: 'why' }
  const done = doneOf(item_id, item_type, content, 'agent')
  /** @type {readonly [Payload[], ...Payload[][]]} */
  const endings = [
    [done],
    [done],
    [doneOf(item_id, item_type, textOf(random, 30), 'agent')],
    [{ type: 'item_error', item_id, error }],
    [{ type: 'item_cancelled', item_id, reason: 'attempt_reset' }],
    [{ type: 'item_done', item_id, final_item: { type: 'cancelled', id: item_id } }],
    [],
  ]
  return [...lane, ...random.pick(endings)]
}

/** @param {Random} random @param {string} item_id @returns {Payload[]} */
function callLane(random, item_id) {
  const call_id = `call-${item_id}`
  const json = JSON.stringify({ path: textOf(random, 4), depth: random.between(0, 9) })
  const name = 'read_file'
  /** @type {Payload[]} */
  const lane = [
    { type: 'item_start', item_id, item_type: 'function_call', name, call_id },
    { type: 'item_delta', item_id, delta_content: json.slice(0, 5) },
    { type: 'item_delta', item_id, delta_content: json.slice(5) },
    {
      type: 'item_done',
      item_id,
      final_item: { type: 'function_call', id: item_id, name, arguments: json, call_id },
    },
  ]
  if (random.chance(0.7)) {
    const id = `${item_id}-output`
    const output = textOf(random, 20)
    const final_item = { type: /** @type {const} */ ('function_call_output'), id, call_id, output }
    lane.push({ type: 'item_done', item_id: id, final_item: { ...final_item, success: true } })
  }
  return lane
}

/**
 * @param {string} id @param {TextType} type @param {string} content @param {'user' | 'agent'} origin
 * @returns {Payload}
 */
function doneOf(id, type, content, origin) {
  return { type: 'item_done', item_id: id, final_item: { type, id, content, origin } }
}

/** @param {Random} random @param {number} pieces */
function textOf(random, pieces) {
  const count = random.chance(0.01) ? 500 : random.between(0, pieces)
  return Array.from({ length: count }, () => random.pick(PIECES)).join('')
}

/** Interleaves the lists at random, each in its order. @param {Random} random @param {Payload[][]} lanes */
function interleave(random, lanes) {
  /** @type {Payload[]} */
  const merged = []
  const left = lanes.map((lane) => [...lane])
  for (;;) {
    const open = left.filter((lane) => lane.length > 0)
    const lane = open[random.between(0, open.length - 1)]
    const next = lane?.shift()
    if (next === undefined) return merged
    merged.push(next)
  }
}
