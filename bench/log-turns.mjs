// Complete turns, as their owner writes them to the log. The same number always gives the same bytes. Tested by
// `test/bench/log-turns.test.ts`.
import { eventIdsOf, turnstream } from './turnstream.mjs'

/** @typedef {import('../packages/turnstream/src/index.ts').StreamEvent} StreamEvent */
/** @typedef {import('../packages/turnstream/src/index.ts').StreamEventPayload} StreamEventPayload */
/** @typedef {import('../packages/turnstream/src/index.ts').StreamMessage} StreamMessage */

/**
 * @typedef {object} Turn
 * @property {string} turnId
 * @property {string} threadId
 * @property {string} text The text of all deltas.
 * @property {() => Iterable<StreamEvent>} events Created on demand: 200 turns of 10k tokens would fill the heap.
 */

const { StreamProcessor } = turnstream

export const TOKEN_CHARS = 4
const FIRST_TIMESTAMP = 1_700_000_000_000
const TRACE = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' }
const USAGE = { prompt_tokens: 1200, completion_tokens: 10_000, total_tokens: 11_200 }

/**
 * Numbers from 0 to 1, the same for the same seed (mulberry32).
 * @param {number} seed
 */
function randomOf(seed) {
  let state = Math.imul(seed + 1, 0x9e3779b9)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let bits = Math.imul(state ^ (state >>> 15), 1 | state)
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32
  }
}

const SYLLABLES =
  'an be co de er fi go ha in jo ka lo me no or pa qu re si ta un ve wi ya zu'.split(' ')

const WORDS = (() => {
  const random = randomOf(0)
  const pick = () => SYLLABLES[Math.floor(random() * SYLLABLES.length)] ?? ''
  return Array.from({ length: 2000 }, () => {
    return Array.from({ length: 1 + Math.floor(random() * 4) }, pick).join('')
  })
})()

/**
 * Prose of exactly `length` characters. It compresses like real prose, and contains characters that JSON escapes.
 * @param {number} length @param {() => number} random
 */
function prose(length, random) {
  const words = []
  for (let size = 0; size < length; ) {
    const word = WORDS[Math.floor(random() ** 3 * WORDS.length)] ?? ''
    const mark = random()
    const end = mark < 0.02 ? '.\n\n' : mark < 0.04 ? ', "' : mark < 0.06 ? '" ' : ' '
    words.push(word, end)
    size += word.length + end.length
  }
  return words.join('').slice(0, length)
}

/** @param {number} number @returns {string} a UUID, as a caller would send */
function idOf(number) {
  const random = randomOf(number + 1_000_000)
  const hex = Array.from({ length: 4 }, () => Math.floor(random() * 2 ** 32))
    .map((word) => word.toString(16).padStart(8, '0'))
    .join('')
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `a${hex.slice(17, 20)}`,
  ]
  return `${parts.join('-')}-${hex.slice(20)}`
}

/**
 * A question and an answer of `tokens` deltas of four characters, 20 to 46 ms apart.
 * @param {number} number @param {number} tokens @returns {Turn}
 */
export function turnOf(number, tokens) {
  const turnId = idOf(number)
  const threadId = `thread-${number}`
  const text = prose(tokens * TOKEN_CHARS, randomOf(number))
  return {
    turnId,
    threadId,
    text,
    events: () => stamped(turnId, number, payloads(turnId, threadId, text)),
  }
}

/**
 * @param {string} turnId @param {string} threadId @param {string} text
 * @returns {Generator<StreamEventPayload, void>}
 */
function* payloads(turnId, threadId, text) {
  const question = `${turnId}-user-prompt`
  const answer = `${turnId}:1`
  const asked = 'What is a turn?'
  yield {
    type: 'response_start',
    response_id: turnId,
    turn_id: turnId,
    thread_id: threadId,
    model_id: 'bench-1',
    provider_id: 'bench',
    created_at: FIRST_TIMESTAMP,
  }
  yield {
    type: 'item_start',
    item_id: question,
    item_type: 'message',
    origin: 'user',
    initial_content: asked,
  }
  yield {
    type: 'item_done',
    item_id: question,
    final_item: { id: question, type: 'message', content: asked, origin: 'user' },
  }
  yield { type: 'item_start', item_id: answer, item_type: 'message' }
  for (let at = 0; at < text.length; at += TOKEN_CHARS) {
    yield { type: 'item_delta', item_id: answer, delta_content: text.slice(at, at + TOKEN_CHARS) }
  }
  yield {
    type: 'item_done',
    item_id: answer,
    final_item: { id: answer, type: 'message', content: text, origin: 'agent' },
  }
  yield {
    type: 'response_done',
    response_id: turnId,
    status: 'complete',
    usage: USAGE,
    finish_reason: 'stop',
  }
}

/**
 * @param {string} runId @param {number} number @param {Iterable<StreamEventPayload>} inner
 * @returns {Generator<StreamEvent, void>}
 */
function* stamped(runId, number, inner) {
  const nextId = eventIdsOf(runId)
  const random = randomOf(number)
  let timestamp = FIRST_TIMESTAMP + number * 1000
  for (const payload of inner) {
    timestamp += 20 + Math.floor(random() * 27)
    yield/** @type {StreamEvent} */ ({
      event_id: nextId(),
      timestamp,
      trace_context: TRACE,
      run_id: runId,
      type: payload.type,
      payload,
    })
  }
}

/** The records of `events`. @param {Turn} turn @returns {string[]} */
export function eventTexts(turn) {
  return Array.from(turn.events(), (event) => JSON.stringify(event))
}

// Only the gradient triggers snapshots: here a turn of minutes takes milliseconds.
const stopped = { now: () => FIRST_TIMESTAMP, after: () => () => {} }

/** The snapshots of the turn at the default gradient. @param {Turn} turn @returns {Promise<StreamMessage[]>} */
export async function snapshotsOf(turn) {
  /** @type {StreamMessage[]} */
  const messages = []
  await processTurn(turn, (message) => {
    messages.push(message)
  })
  return messages
}

/**
 * Passes each event to `keep`, if given, and each snapshot to `onEmit`, and awaits both, like the owner of a turn.
 * @param {Turn} turn
 * @param {(message: StreamMessage) => Promise<void> | void} onEmit
 * @param {(event: StreamEvent) => Promise<void>} [keep]
 */
export async function processTurn({ turnId, threadId, events }, onEmit, keep) {
  const generateId = eventIdsOf(`${turnId}/processed`)
  const processor = new StreamProcessor({ turnId, threadId, onEmit, generateId, clock: stopped })
  for (const event of events()) {
    if (keep) await keep(event)
    await processor.processEvent(event)
  }
  await processor.destroy()
}
