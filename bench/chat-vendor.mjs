// A minimal Chat Completions server.
import { once } from 'node:events'
import { createServer } from 'node:http'

/** @param {object} delta @param {string | null} [finish_reason] */
export function chatChunk(delta, finish_reason = null) {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason }]
  const json = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices }
  return `data: ${JSON.stringify(json)}\n\n`
}

/** How an answer ends. */
export const CHAT_END = `${chatChunk({}, 'stop')}data: [DONE]\n\n`

/**
 * Answers every request with what `say` writes, until `use` resolves.
 * @template T
 * @param {(response: import('node:http').ServerResponse) => Promise<void>} say
 * @param {(url: string) => Promise<T>} use
 * @returns {Promise<T>}
 */
export async function withChatVendor(say, use) {
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    void say(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  try {
    return await use(`http://127.0.0.1:${port}`)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}
