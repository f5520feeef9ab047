// What providers send, one event to a chunk, as it arrives from a socket. `test/bench` checks it.

/**
 * @typedef {object} VendorStream
 * @property {Uint8Array[]} chunks
 * @property {number} deltas How many of them add something to an item.
 * @property {string} text The text of the answer.
 */

const WORDS = ['The ', 'turn', ' is ', 'a lo', 'g, "', 'kept', '" fo', 'r al', 'l.\n ', 'And ']
const utf8 = new TextEncoder()

/** @param {number} tokens @returns {string[]} */
function pieces(tokens) {
  return Array.from({ length: tokens }, (_, index) => WORDS[index % WORDS.length] ?? '')
}

/** A JSON text of about `tokens` tokens, in fragments. @param {number} tokens */
function argumentPieces(tokens) {
  const json = JSON.stringify({ path: '/tmp/file.txt', content: 'x'.repeat(tokens * 4) })
  return json.match(/.{1,4}/gs) ?? []
}

/** @param {{ type: string, [field: string]: unknown }} event */
function frame(event) {
  return utf8.encode(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
}

/**
 * Reasoning, an answer and a tool call, in the proportion of 2 : 7 : 1.
 * @param {number} tokens
 */
function parts(tokens) {
  return {
    reasoning: pieces(Math.round(tokens * 0.2)),
    text: pieces(Math.round(tokens * 0.7)),
    args: argumentPieces(Math.round(tokens * 0.1)),
  }
}

/** @param {number} tokens @returns {VendorStream} */
export function openaiResponses(tokens) {
  const { reasoning, text, args } = parts(tokens)
  let sequence_number = 0
  /** @type {Uint8Array[]} */
  const chunks = []
  /** @param {{ type: string, [field: string]: unknown }} event */
  const add = (event) => chunks.push(frame({ ...event, sequence_number: sequence_number++ }))
  const response = { id: 'resp_1', object: 'response', created_at: 1, model: 'gpt-5', output: [] }
  add({ type: 'response.created', response: { ...response, status: 'in_progress' } })

  const thought = { id: 'rs_1', type: 'reasoning', summary: [] }
  const place = { item_id: 'rs_1', output_index: 0, summary_index: 0 }
  const part = { type: 'summary_text', text: reasoning.join('') }
  add({ type: 'response.output_item.added', output_index: 0, item: thought })
  add({ type: 'response.reasoning_summary_part.added', ...place, part: { ...part, text: '' } })
  for (const delta of reasoning)
    add({ type: 'response.reasoning_summary_text.delta', ...place, delta })
  add({ type: 'response.reasoning_summary_text.done', ...place, text: part.text })
  add({ type: 'response.reasoning_summary_part.done', ...place, part })
  add({ type: 'response.output_item.done', output_index: 0, item: { ...thought, summary: [part] } })

  const at = { item_id: 'msg_1', output_index: 1, content_index: 0 }
  const message = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed' }
  const content = { type: 'output_text', text: text.join(''), annotations: [], logprobs: [] }
  add({ type: 'response.output_item.added', output_index: 1, item: { ...message, content: [] } })
  add({ type: 'response.content_part.added', ...at, part: { ...content, text: '' } })
  for (const delta of text) add({ type: 'response.output_text.delta', ...at, delta, logprobs: [] })
  add({ type: 'response.output_text.done', ...at, text: content.text, logprobs: [] })
  add({ type: 'response.content_part.done', ...at, part: content })
  const item = { ...message, content: [content] }
  add({ type: 'response.output_item.done', output_index: 1, item })

  const call = { id: 'fc_1', type: 'function_call', call_id: 'call_1', name: 'write_file' }
  const where = { item_id: 'fc_1', output_index: 2 }
  const whole = { ...call, status: 'completed', arguments: args.join('') }
  add({ type: 'response.output_item.added', output_index: 2, item: { ...call, arguments: '' } })
  for (const delta of args) add({ type: 'response.function_call_arguments.delta', ...where, delta })
  add({ type: 'response.function_call_arguments.done', ...where, arguments: whole.arguments })
  add({ type: 'response.output_item.done', output_index: 2, item: whole })
  const usage = { input_tokens: 10, output_tokens: tokens, total_tokens: tokens + 10 }
  const output = [{ ...thought, summary: [part] }, item, whole]
  add({ type: 'response.completed', response: { ...response, status: 'completed', output, usage } })
  return { chunks, deltas: reasoning.length + text.length + args.length, text: content.text }
}

/** @param {number} tokens @returns {VendorStream} */
export function anthropicMessages(tokens) {
  const { reasoning, text, args } = parts(tokens)
  /** @type {Uint8Array[]} */
  const chunks = []
  /** @param {{ type: string, [field: string]: unknown }} event */
  const add = (event) => chunks.push(frame(event))
  /** @param {number} index @param {object} content_block @param {object[]} deltas */
  const block = (index, content_block, deltas) => {
    add({ type: 'content_block_start', index, content_block })
    for (const delta of deltas) add({ type: 'content_block_delta', index, delta })
    add({ type: 'content_block_stop', index })
  }
  const usage = { input_tokens: 10, output_tokens: 1 }
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', content: [] }
  add({ type: 'message_start', message: { ...message, stop_reason: null, usage } })
  block(0, { type: 'thinking', thinking: '', signature: '' }, [
    ...reasoning.map((thinking) => ({ type: 'thinking_delta', thinking })),
    { type: 'signature_delta', signature: 'c2lnbmF0dXJl' },
  ])
  block(
    1,
    { type: 'text', text: '' },
    text.map((piece) => ({ type: 'text_delta', text: piece })),
  )
  block(
    2,
    { type: 'tool_use', id: 'toolu_1', name: 'write_file', input: {} },
    args.map((partial_json) => ({ type: 'input_json_delta', partial_json })),
  )
  const delta = { stop_reason: 'tool_use', stop_sequence: null }
  add({ type: 'message_delta', delta, usage: { output_tokens: tokens } })
  add({ type: 'message_stop' })
  return { chunks, deltas: reasoning.length + text.length + args.length + 1, text: text.join('') }
}

/**
 * A single tool call in `fragments` fragments.
 * @param {number} fragments @returns {VendorStream}
 */
export function anthropicToolCall(fragments) {
  const args = argumentPieces(fragments).slice(0, fragments)
  const block = { type: 'tool_use', id: 'toolu_1', name: 'write_file', input: {} }
  const usage = { input_tokens: 10, output_tokens: 1 }
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', content: [] }
  const events = [
    { type: 'message_start', message: { ...message, stop_reason: null, usage } },
    { type: 'content_block_start', index: 0, content_block: block },
    ...args.map((partial_json) => ({
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'input_json_delta', partial_json },
    })),
    { type: 'content_block_stop', index: 0 },
    {
      type: 'message_delta',
      delta: { stop_reason: 'tool_use' },
      usage: { output_tokens: fragments },
    },
    { type: 'message_stop' },
  ]
  return { chunks: events.map(frame), deltas: args.length, text: '' }
}
