/** A Chat Completions server whose answers wait for the test. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Longer than the first step of the gradient, so that a snapshot shows it at once. */
export const BEGINNING = 'A beginning that is long enough to be shown at once'
export const ENDING = ' and done.'

interface ChatRequest {
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
}

export class ChatVendor {
  /** Answers that have begun, by the prompt, until they are finished or their client has left. */
  readonly open = new Map<string, ServerResponse>()
  readonly #server = createServer((request, response) => void this.#answer(request, response))

  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  /** Continues the answer to a prompt. */
  say(prompt: string, text: string): void {
    this.open.get(prompt)?.write(chunk({ content: text }))
  }

  /** Ends the answer to a prompt. */
  finish(prompt: string): void {
    const response = this.open.get(prompt)
    response?.write(chunk({ content: ENDING }))
    response?.end(`${chunk({}, 'stop')}data: [DONE]\n\n`)
  }

  /** Begins to answer, and says what the tool said if it was called. "What time is it?" calls the tool. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { messages } = JSON.parse((await request.toArray()).join('')) as ChatRequest
    const last = messages.at(-1)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (last?.role === 'tool') {
      response.write(chunk({ content: `It is ${String(last.content)}` }))
      response.end(`${chunk({}, 'stop')}data: [DONE]\n\n`)
    } else if (last?.content === 'What time is it?') {
      const call = { name: 'clock', arguments: '{"timeZone":"UTC"}' }
      const tool_calls = [{ index: 0, id: 'call-1', type: 'function', function: call }]
      response.end(`${chunk({ tool_calls })}${chunk({}, 'tool_calls')}data: [DONE]\n\n`)
    } else {
      const prompt = String(last?.content)
      this.open.set(prompt, response)
      response.on('close', () => {
        if (this.open.get(prompt) === response) this.open.delete(prompt)
      })
      response.write(chunk({ content: BEGINNING }))
    }
  }
}

function chunk(delta: object, finish_reason: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason }]
  const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'qwen3' }
  return `data: ${JSON.stringify({ ...head, choices })}\n\n`
}
