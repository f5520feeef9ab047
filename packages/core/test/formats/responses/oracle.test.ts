/** OpenAI's own client and ours read the same bytes, and must have read the same. */

import { readFileSync } from 'node:fs'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createOpenaiResponsesProvider } from '../../../../turnstream/src/index.ts'
import {
  startVendor,
  type VendorServer,
} from '../../../../turnstream/test/providers/vendor-server.ts'
import {
  isExecutedByProvider,
  type ReducedResponse,
  ResponseReducer,
  stamp,
} from '../../../src/index.ts'
import type { Fields } from './events.ts'

const fixtures = new URL('../../../../../test/fixtures/openai-responses/', import.meta.url)
let vendor: VendorServer

/** Answers with the fixture that the request names as its model. */
beforeAll(async () => {
  vendor = await startVendor((response) => {
    const { model } = JSON.parse(vendor.bodies.at(-1) ?? '') as { model: string }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(readFileSync(new URL(`${model}.sse`, fixtures)))
  })
})

afterAll(() => vendor.close())

async function ours(model: string): Promise<ReducedResponse> {
  const provider = createOpenaiResponsesProvider({ baseUrl: vendor.url, maxRetries: 0 })
  const reducer = new ResponseReducer()
  const run = { runId: 'run', turnId: 'turn', threadId: 'thread' }
  for await (const event of stamp(provider.stream({ model, input: [] }, run))) reducer.apply(event)
  return reducer.response
}

const client = () => new OpenAI({ apiKey: 'x', baseURL: vendor.url, maxRetries: 0 })

async function theirs(model: string): Promise<OpenAI.Responses.Response> {
  return await client().responses.stream({ model, input: 'Hi' }).finalResponse()
}

const usageOf = ({ usage }: OpenAI.Responses.Response) => ({
  prompt_tokens: usage?.input_tokens,
  completion_tokens: usage?.output_tokens,
  total_tokens: usage?.total_tokens,
  cached_tokens: usage?.input_tokens_details.cached_tokens,
  reasoning_tokens: usage?.output_tokens_details.reasoning_tokens,
})

/** Their items, in the words of ours. */
function readable(item: OpenAI.Responses.ResponseOutputItem): Fields[] {
  switch (item.type) {
    case 'message': {
      const texts = item.content.map((part) => (part.type === 'refusal' ? part.refusal : part.text))
      return [{ type: 'message', content: texts.join('') }]
    }
    case 'reasoning': {
      const texts = [...item.summary, ...(item.content ?? [])].map(({ text }) => text)
      return [{ type: 'reasoning', content: texts.join('\n\n') }]
    }
    case 'function_call':
      return [
        { type: item.type, call_id: item.call_id, name: item.name, input: item.arguments || '{}' },
      ]
    case 'custom_tool_call':
      return [
        {
          type: 'function_call',
          call_id: item.call_id,
          name: item.name,
          input: JSON.stringify({ input: item.input }),
        },
      ]
    default:
      return []
  }
}

/** Our items without the tools that the vendor ran. */
function plain(item: ReducedResponse['output_items'][number]): Fields[] {
  if (isExecutedByProvider(item.provider_metadata)) return []
  if (item.type === 'message' || item.type === 'reasoning') {
    return [{ type: item.type, content: item.content }]
  }
  if (item.type !== 'function_call') return []
  const { type, call_id, name, arguments: input } = item
  return [{ type, call_id, name, input }]
}

describe('both read the same', () => {
  test.each([
    ['text', 'stop'],
    ['text-empty', 'stop'],
    ['text-phases', 'stop'],
    ['text-two-parts', 'stop'],
    ['text-citations', 'stop'],
    ['refusal', 'refusal'],
    ['refusal-after-text', 'refusal'],
    ['reasoning-summary', 'stop'],
    ['reasoning-silent', 'stop'],
    ['reasoning-text', 'stop'],
    ['reasoning-tool-call', 'tool_calls'],
    ['tool-call', 'tool_calls'],
    ['tool-call-no-arguments', 'tool_calls'],
    ['tool-call-whole', 'tool_calls'],
    ['tool-calls-parallel', 'tool_calls'],
    ['text-then-tool-call', 'tool_calls'],
    ['custom-tool-call', 'tool_calls'],
    ['id-rotation', 'tool_calls'],
    ['only-completed', 'tool_calls'],
    ['web-search', 'stop'],
    ['file-search', 'stop'],
    ['code-interpreter', 'stop'],
    ['image-generation', 'stop'],
    ['mcp', 'stop'],
    ['audio', 'stop'],
    ['incomplete-length', 'length'],
    ['incomplete-content-filter', 'content_filter'],
    ['incomplete-in-tool-call', 'length'],
  ])('%s', async (name, reason) => {
    const [response, final] = await Promise.all([ours(name), theirs(name)])
    expect(response).toMatchObject({
      status: 'complete',
      model_id: final.model,
      finish_reason: reason,
      provider_finish_reason: final.incomplete_details?.reason ?? final.status,
      usage: usageOf(final),
    })
    expect(response.output_items.flatMap(plain)).toEqual(final.output.flatMap(readable))
  })

  test('the text, event by event', async () => {
    const response = await ours('text-then-tool-call')
    const stream = await client().responses.create({
      model: 'text-then-tool-call',
      input: 'Hi',
      stream: true,
    })
    let text = ''
    let args = ''
    for await (const event of stream) {
      if (event.type === 'response.output_text.delta') text += event.delta
      if (event.type === 'response.function_call_arguments.delta') args += event.delta
    }
    expect(response.output_items).toMatchObject([{ content: text }, { arguments: args }])
  })

  test('citations and encrypted content', async () => {
    const cited = await Promise.all([ours('text-citations'), theirs('text-citations')])
    const [part] = (cited[1].output[0] as OpenAI.Responses.ResponseOutputMessage).content
    const { annotations } = part as OpenAI.Responses.ResponseOutputText
    expect(annotations).toHaveLength(2)
    expect(cited[0].output_items[0]?.provider_metadata).toMatchObject({ openai: { annotations } })

    const hidden = await Promise.all([ours('reasoning-silent'), theirs('reasoning-silent')])
    const { id, encrypted_content } = hidden[1].output[0] as OpenAI.Responses.ResponseReasoningItem
    expect(hidden[0].output_items[0]?.provider_metadata).toMatchObject({
      openai: { id, encrypted_content },
    })
  })
})

describe('both see the error', () => {
  test('a failed response', async () => {
    const [response, final] = await Promise.all([ours('failed'), theirs('failed')])
    expect(final.status).toBe('failed')
    expect(response).toMatchObject({ status: 'error', error: final.error, usage: usageOf(final) })
  })

  test('an error event', async () => {
    const response = await ours('error')
    const thrown: unknown = await theirs('error').catch((error: unknown) => error)
    expect(thrown).toBeInstanceOf(OpenAI.APIError)
    const { code, error } = thrown as { code: string; error: { message: string } }
    expect(response).toMatchObject({ status: 'error', error: { code, message: error.message } })
  })
})
