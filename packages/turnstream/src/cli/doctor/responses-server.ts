import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { encodeSse } from '@turnstream/core/internal/sse/encode'

export interface ResponsesServer {
  readonly baseUrl: string
  close(): Promise<void>
}

/** A Responses API on loopback that answers every request with `text`. */
export async function startResponsesServer(text: string): Promise<ResponsesServer> {
  const server = createServer((request, response) => {
    request.resume()
    request.once('end', () => answer(response, text))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const USAGE = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }

function answer(response: ServerResponse, text: string): void {
  const about = { id: 'resp_1', object: 'response', created_at: 0, model: 'scripted' }
  const message = { id: 'msg_1', type: 'message', role: 'assistant' }
  const place = { output_index: 0, item_id: message.id, content_index: 0 }
  const content = [{ type: 'output_text', text, annotations: [] }]
  const done = { ...message, status: 'completed', content }
  const events: { type: string; [field: string]: unknown }[] = [
    { type: 'response.created', response: { ...about, status: 'in_progress', output: [] } },
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { ...message, status: 'in_progress', content: [] },
    },
    { type: 'response.output_text.delta', ...place, delta: text },
    { type: 'response.output_item.done', output_index: 0, item: done },
    {
      type: 'response.completed',
      response: { ...about, status: 'completed', output: [done], usage: USAGE },
    },
  ]
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end(
    events
      .map((event, sequence_number) => {
        return encodeSse({
          event: event.type,
          data: JSON.stringify({ ...event, sequence_number }),
        })
      })
      .join(''),
  )
}
