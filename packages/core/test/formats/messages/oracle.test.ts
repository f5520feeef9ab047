/** Anthropic's own client and ours read the same bytes, and must have read the same. */

import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createAnthropicMessagesProvider } from '../../../../turnstream/src/index.ts'
import { toHistory } from '../../../src/formats/messages/request-out.ts'
import { type ReducedResponse, ResponseReducer, stamp } from '../../../src/index.ts'
import type { Fields } from './events.ts'

const fixtures = new URL('../../../../../test/fixtures/anthropic-messages/', import.meta.url)
let server: Server
let baseURL: string

/** Answers with the fixture that the request names as its model. */
beforeAll(async () => {
  server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      const { model } = JSON.parse(body) as { model: string }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(readFileSync(new URL(`${model}.sse`, fixtures)))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterAll(() => server.close())

async function ours(model: string): Promise<ReducedResponse> {
  const provider = createAnthropicMessagesProvider({ baseUrl: baseURL, apiKey: 'x', maxRetries: 0 })
  const request = { model, input: [{ type: 'message', id: 'i', origin: 'user', content: 'Hi' }] }
  const reducer = new ResponseReducer()
  const run = { runId: 'run', turnId: 'turn', threadId: 'thread' }
  const payloads = provider.stream(request as Parameters<typeof provider.stream>[0], run)
  for await (const event of stamp(payloads)) reducer.apply(event)
  return reducer.response
}

/** The client of the beta knows more blocks. */
async function theirs(model: string, isBeta: boolean): Promise<Anthropic.Message> {
  const client = new Anthropic({ apiKey: 'x', baseURL, maxRetries: 0 })
  const request = { model, max_tokens: 10, messages: [{ role: 'user' as const, content: 'Hi' }] }
  const stream = isBeta ? client.beta.messages.stream(request) : client.messages.stream(request)
  return (await stream.finalMessage()) as Anthropic.Message
}

/** Their blocks as they would go back: without empty text and without what says nothing. */
function blocksOf({ content }: Anthropic.Message): Fields[] {
  const blocks = JSON.parse(JSON.stringify(content)) as Fields[]
  return blocks.filter(({ type, text }) => type !== 'text' || text !== '').map(withoutParsed)
}

function withoutParsed(block: Fields): Fields {
  const { parsed_output: _, parsed: __, ...rest } = block
  return rest
}

function usageOf({ usage }: Anthropic.Message) {
  const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens } = usage
  return {
    prompt_tokens:
      input_tokens + (cache_read_input_tokens ?? 0) + (cache_creation_input_tokens ?? 0),
    completion_tokens: usage.output_tokens,
    cached_tokens: cache_read_input_tokens,
    cache_write_tokens: cache_creation_input_tokens,
  }
}

const joined = (parts: readonly unknown[]): string => parts.join('')

describe('both read the same', () => {
  test.each([
    ['text', false],
    ['text-empty-block', false],
    ['text-stop-sequence', false],
    ['thinking', false],
    ['thinking-signature-only', false],
    ['tool-call', false],
    ['tool-calls-parallel', false],
    ['tool-calls-end-turn', false],
    ['web-search', false],
    ['server-tools', false],
    ['pause-turn', false],
    ['refusal', false],
    ['refusal-midway', false],
    ['max-tokens', false],
    ['context-window', false],
    ['no-stop-reason', false],
    ['mcp', true],
    ['opaque-blocks', true],
  ])('%s', async (name, isBeta) => {
    const [response, message] = await Promise.all([ours(name), theirs(name, isBeta)])
    const items = response.output_items
    const blocks = blocksOf(message)
    expect(response).toMatchObject({
      status: 'complete',
      model_id: message.model,
      provider_finish_reason: message.stop_reason,
      usage: usageOf(message),
    })
    // What goes back to the vendor is what its own client would send back.
    const [turn] = toHistory(items).messages
    expect(turn?.content ?? []).toEqual(blocks)

    const texts = items.map((item) => (item.type === 'message' ? item.content : ''))
    expect(joined(texts)).toBe(joined(blocks.map((block) => block['text'])))
    const thoughts = items.map((item) => (item.type === 'reasoning' ? item.content : ''))
    expect(joined(thoughts)).toBe(joined(blocks.map((block) => block['thinking'])))
    const calls = items.filter((item) => item.type === 'function_call')
    expect(
      calls.map(({ call_id, name, arguments: args }) => [call_id, name, JSON.parse(args)]),
    ).toEqual(blocks.filter(({ input }) => input).map(({ id, name, input }) => [id, name, input]))
  })
})

describe('both see the error', () => {
  test.each(['error-overloaded', 'error-in-tool-call', 'error-first'])('%s', async (name) => {
    const response = await ours(name)
    const error: unknown = await theirs(name, false).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Anthropic.APIError)
    const { error: body } = (error as { error: { error: { type: string; message: string } } }).error
    expect(response).toMatchObject({
      status: 'error',
      error: { code: body.type, message: body.message },
    })
  })
})
