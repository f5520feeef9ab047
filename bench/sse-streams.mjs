// Event streams to feed to the benches. `test/bench/sse-streams.test.ts` checks that they are what
// they claim.

const encoder = new TextEncoder()

// One token in 16 is not ASCII, as in English prose with quotation marks and dashes.
const TOKENS = [
  'The',
  ' turn',
  ' is',
  ' a',
  ' log',
  ':',
  ' it',
  ' is',
  ' kept',
  ',\n',
  ' read',
  '”',
]
const TOKENS_ASCII = [' and', ' read', ' again', '.']

/** @param {number} index @returns {string} */
function token(index) {
  const all = TOKENS.length + TOKENS_ASCII.length
  return TOKENS[index % all] ?? TOKENS_ASCII[(index % all) - TOKENS.length] ?? ''
}

/** The chunks of a chat completion: unnamed events. @param {number} count @returns {string[]} */
export function openaiFrames(count) {
  return Array.from({ length: count }, (_, index) => {
    const chunk = {
      id: 'chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT',
      object: 'chat.completion.chunk',
      created: 1741569952,
      model: 'gpt-4.1-2025-04-14',
      service_tier: 'default',
      system_fingerprint: 'fp_b376dfbbd5',
      choices: [
        { index: 0, delta: { content: token(index) }, logprobs: null, finish_reason: null },
      ],
    }
    return `data: ${JSON.stringify(chunk)}\n\n`
  })
}

/** The deltas of a message: every event has a name. @param {number} count @returns {string[]} */
export function anthropicFrames(count) {
  return Array.from({ length: count }, (_, index) => {
    const type = 'content_block_delta'
    const delta = { type: 'text_delta', text: token(index) }
    return `event: ${type}\ndata: ${JSON.stringify({ type, index: 0, delta })}\n\n`
  })
}

/** One chunk for each frame. @param {string[]} frames @returns {Uint8Array[]} */
export function frameByFrame(frames) {
  return frames.map((frame) => encoder.encode(frame))
}

/** Chunks of one size, cut wherever that falls. @param {string[]} frames @param {number} size */
export function chunksOf(frames, size) {
  return cut(encoder.encode(frames.join('')), size)
}

/** The same for a stream that is text already. @param {string[]} frames @param {number} size */
export function textChunksOf(frames, size) {
  return cut(frames.join(''), size)
}

/** @template {string | Uint8Array} T @param {T} all @param {number} size @returns {T[]} */
function cut(all, size) {
  const count = Math.ceil(all.length / size)
  return Array.from(
    { length: count },
    (_, index) => /** @type {T} */ (all.slice(index * size, (index + 1) * size)),
  )
}
