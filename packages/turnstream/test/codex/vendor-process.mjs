// A Responses API in a process of its own, which can be killed. Holds the answers to "hold", and tells its parent how
// many it holds. The argument is its port; 0 picks a free one.
import { createServer } from 'node:http'

let held = 0
const server = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (text) => {
    body += text
  })
  request.on('end', () => {
    const { input } = JSON.parse(body)
    answer(input.at(-1).content.at(-1).text, response)
  })
})

/** @param {string} prompt @param {import('node:http').ServerResponse} response */
function answer(prompt, response) {
  const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed' }
  const about = { id: 'resp_1', object: 'response', created_at: 1, model: 'm' }
  /** @param {string} type @param {object} fields */
  const send = (type, fields) => {
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`)
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  send('response.created', { response: { ...about, status: 'in_progress', output: [] } })
  send('response.output_item.added', {
    output_index: 0,
    item: { ...item, status: 'in_progress', content: [] },
  })
  const text = prompt === 'hold' ? 'The beginning' : `Hello from behind codex: ${prompt}`
  const place = { item_id: item.id, output_index: 0, content_index: 0 }
  send('response.output_text.delta', { ...place, delta: text })
  if (prompt === 'hold') {
    hold(1)
    response.on('close', () => hold(-1))
    return
  }
  const done = { ...item, content: [{ type: 'output_text', text, annotations: [] }] }
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  send('response.output_item.done', { output_index: 0, item: done })
  send('response.completed', {
    response: { ...about, status: 'completed', output: [done], usage },
  })
  response.end()
}

/** @param {number} more */
function hold(more) {
  held += more
  process.send?.({ held })
}

process.on('disconnect', () => process.exit())
server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => {
  const address = server.address()
  if (address !== null && typeof address === 'object') process.send?.({ port: address.port })
})
