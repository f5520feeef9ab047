import { describe, expect, test } from 'vitest'
import { createOpenaiResponsesProvider } from '../../../../turnstream/src/index.ts'
import { startVendor } from '../../../../turnstream/test/providers/vendor-server.ts'
import { buildOpenaiResponsesRequest } from '../../../src/formats/responses/request-out.ts'
import { type ProviderRequest, TurnstreamError } from '../../../src/index.ts'
import { completed, created, type Fields, text } from './events.ts'

const request = (more: Partial<ProviderRequest> = {}): ProviderRequest => ({
  model: 'gpt-5.4-mini',
  input: [{ type: 'message', id: 'i', origin: 'user', content: 'Hi' }],
  ...more,
})
const bodyOf = (more: Partial<ProviderRequest> = {}): Fields =>
  buildOpenaiResponsesRequest(request(more)).body

const weather = { name: 'get_weather', description: 'Now', parameters: { type: 'object' } }

test('a request has the required fields', () => {
  expect(buildOpenaiResponsesRequest(request(), { apiKey: 'k' })).toEqual({
    url: 'https://api.openai.com/v1/responses',
    headers: { authorization: 'Bearer k' },
    body: {
      model: 'gpt-5.4-mini',
      input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }],
      store: false,
      include: ['reasoning.encrypted_content'],
      stream: true,
    },
  })
})

test('URL and headers come from the options', () => {
  const options = { baseUrl: 'http://localhost:1/v9//', headers: { 'x-a': 'b' } }
  const { url, headers } = buildOpenaiResponsesRequest(request(), options)
  expect(url).toBe('http://localhost:1/v9/responses')
  expect(headers).toEqual({ 'x-a': 'b' })
})

test.each([
  ['gpt-4.1', undefined],
  ['openai/gpt-4o-mini', undefined],
  ['chatgpt-4o-latest', undefined],
  ['o3', ['reasoning.encrypted_content']],
  ['gpt-5', ['reasoning.encrypted_content']],
])('reasoning is requested from reasoning models: %s', (model, include) => {
  expect(bodyOf({ model })['include']).toEqual(include)
})

describe('parameters', () => {
  const schema = { type: 'object', properties: {} }
  const tool = { type: 'function', ...weather, strict: false }
  test.each<[string, Partial<ProviderRequest>, Fields]>([
    ['tools', { tools: [weather] }, { tools: [tool] }],
    ['a choice', { tools: [weather], toolChoice: 'required' }, { tool_choice: 'required' }],
    ['no tool', { tools: [weather], toolChoice: 'none' }, { tool_choice: 'none' }],
    [
      'a chosen tool',
      { tools: [weather], toolChoice: { name: 'get_weather' } },
      { tool_choice: { type: 'function', name: 'get_weather' } },
    ],
    ['one call at a time', { parallelToolCalls: false }, { parallel_tool_calls: false }],
    ['effort', { reasoningEffort: 'low' }, { reasoning: { effort: 'low', summary: 'auto' } }],
    ['no effort', { reasoningEffort: 'none' }, { reasoning: { effort: 'none' } }],
    [
      'limits',
      { maxOutputTokens: 99, temperature: 0, topP: 0.5 },
      { max_output_tokens: 99, temperature: 0, top_p: 0.5 },
    ],
    [
      'JSON',
      { responseFormat: { type: 'json_object' } },
      { text: { format: { type: 'json_object' } } },
    ],
    [
      'JSON of a schema',
      { responseFormat: { type: 'json_schema', name: 'n', schema, strict: true } },
      { text: { format: { type: 'json_schema', name: 'n', schema, strict: true } } },
    ],
    ['text', { responseFormat: { type: 'text' } }, {}],
    ['no stop sequences', { stop: [] }, {}],
    ['a choice among no tools', { toolChoice: 'auto' }, {}],
  ])('%s', (_, more, expected) => {
    const { tools, ...rest } = expected
    const { tools: given, ...body } = bodyOf(more)
    expect(body).toEqual({ ...bodyOf(), ...rest })
    expect(given).toEqual(tools ?? more.tools?.map(() => tool))
  })

  test.each<[string, Partial<ProviderRequest>]>([
    ['stop', { stop: ['x'] }],
    ['thinkingBudget', { thinkingBudget: 1024 }],
    ['toolChoice', { toolChoice: 'required' }],
    ['toolChoice', { tools: [weather], toolChoice: { name: 'other' } }],
  ])('an unsupported %s is refused by name', (name, more) => {
    expect(() => bodyOf(more)).toThrow(TurnstreamError)
    expect(() => bodyOf(more)).toThrow(`Invalid option: ${name}: `)
  })
})

test('the provider calls the vendor and returns its response', async () => {
  const events = [created, ...text(0, 'Hello'), completed]
  const vendor = await startVendor((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''))
  })
  const provider = createOpenaiResponsesProvider({ baseUrl: vendor.url, apiKey: 'k' })
  const stream = provider.stream(request(), { runId: 'r', turnId: 't', threadId: 'th' })
  const received = await stream.toArray()
  await vendor.close()
  expect(provider.id).toBe('openai')
  expect(JSON.parse(vendor.bodies[0] ?? '')).toEqual(bodyOf())
  expect(received.map(({ type }) => type)).toEqual([
    'response_start',
    'item_start',
    'item_delta',
    'item_done',
    'response_done',
  ])
})
