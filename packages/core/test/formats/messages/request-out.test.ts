import { describe, expect, test } from 'vitest'
import { buildAnthropicMessagesRequest } from '../../../src/formats/messages/request-out.ts'
import type { ProviderRequest } from '../../../src/index.ts'

const base: ProviderRequest = {
  model: 'claude-sonnet-4-0',
  input: [{ type: 'message', id: 'i1', origin: 'user', content: 'Hi' }],
}
const tool = {
  name: 'get_weather',
  description: 'The weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
}

const bodyOf = (request: Partial<ProviderRequest>) =>
  buildAnthropicMessagesRequest({ ...base, ...request }).body

test('a plain request has a model, a maximum and a message', () => {
  expect(buildAnthropicMessagesRequest(base)).toEqual({
    url: 'https://api.anthropic.com/v1/messages',
    headers: { 'anthropic-version': '2023-06-01' },
    body: {
      model: 'claude-sonnet-4-0',
      max_tokens: 8192,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
      stream: true,
    },
  })
})

test('key, URL and extra headers come from the options', () => {
  const { url, headers } = buildAnthropicMessagesRequest(base, {
    baseUrl: 'http://localhost:1/proxy/',
    apiKey: 'key',
    headers: { 'anthropic-beta': 'b', 'anthropic-version': '2030-01-01' },
  })
  expect(url).toBe('http://localhost:1/proxy/v1/messages')
  expect(headers).toEqual({
    'x-api-key': 'key',
    'anthropic-beta': 'b',
    'anthropic-version': '2030-01-01',
  })
})

describe('a parameter becomes a field of the body', () => {
  const tools = [tool]
  const schema = { type: 'object', properties: {} }
  const rows: { request: Partial<ProviderRequest>; fields: Record<string, unknown> }[] = [
    { request: { maxOutputTokens: 100 }, fields: { max_tokens: 100 } },
    { request: { temperature: 0.5, topP: 0.9 }, fields: { temperature: 0.5, top_p: 0.9 } },
    { request: { stop: ['END'] }, fields: { stop_sequences: ['END'] } },
    {
      request: { thinkingBudget: 2000 },
      fields: { thinking: { type: 'enabled', budget_tokens: 2000 }, max_tokens: 10_192 },
    },
    {
      request: { thinkingBudget: 2000, maxOutputTokens: 2001, temperature: 1, topP: 0.95 },
      fields: { thinking: { type: 'enabled', budget_tokens: 2000 }, max_tokens: 2001 },
    },
    { request: { reasoningEffort: 'none' }, fields: { thinking: { type: 'disabled' } } },
    {
      request: { reasoningEffort: 'minimal' },
      fields: { thinking: { type: 'enabled', budget_tokens: 1024 }, max_tokens: 9216 },
    },
    {
      request: { reasoningEffort: 'low' },
      fields: { thinking: { type: 'enabled', budget_tokens: 2048 } },
    },
    {
      request: { reasoningEffort: 'high', maxOutputTokens: 4096 },
      fields: { thinking: { type: 'enabled', budget_tokens: 2048 }, max_tokens: 4096 },
    },
    {
      request: { reasoningEffort: 'medium' },
      fields: { thinking: { type: 'enabled', budget_tokens: 8192 } },
    },
    {
      request: { reasoningEffort: 'high', toolChoice: 'auto', tools },
      fields: {
        thinking: { type: 'enabled', budget_tokens: 16_384 },
        max_tokens: 24_576,
        tool_choice: { type: 'auto' },
      },
    },
    {
      request: { tools: [tool, { name: 'now', parameters: {} }] },
      fields: {
        tools: [
          { name: 'get_weather', description: 'The weather', input_schema: tool.parameters },
          { name: 'now', input_schema: { type: 'object' } },
        ],
      },
    },
    { request: { tools, toolChoice: 'none' }, fields: { tool_choice: { type: 'none' } } },
    { request: { tools, toolChoice: 'required' }, fields: { tool_choice: { type: 'any' } } },
    {
      request: { tools, toolChoice: { name: 'get_weather' } },
      fields: { tool_choice: { type: 'tool', name: 'get_weather' } },
    },
    {
      request: { tools, parallelToolCalls: false },
      fields: { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
    },
    {
      request: { tools, toolChoice: 'required', parallelToolCalls: false },
      fields: { tool_choice: { type: 'any', disable_parallel_tool_use: true } },
    },
    {
      request: { tools, toolChoice: 'none', parallelToolCalls: false },
      fields: { tool_choice: { type: 'none' } },
    },
    {
      request: { responseFormat: { type: 'json_schema', name: 'n', schema } },
      fields: { output_config: { format: { type: 'json_schema', schema } } },
    },
  ]
  test.each(rows)('$request', ({ request, fields }) => {
    expect(bodyOf(request)).toMatchObject(fields)
  })

  test.each<Partial<ProviderRequest>>([
    { tools: [], toolChoice: 'auto', parallelToolCalls: false },
    { toolChoice: 'none', stop: [], responseFormat: { type: 'text' } },
  ])('%j needs no field', (request) => {
    expect(bodyOf(request)).toEqual(bodyOf({}))
  })
})

describe('unsupported parameters are refused by name', () => {
  const tools = [tool]
  test.each<[Partial<ProviderRequest>, string]>([
    [{ temperature: 1.5 }, 'temperature: it must be from 0 to 1'],
    [{ temperature: -0.1 }, 'temperature: it must be from 0 to 1'],
    [
      { temperature: 0.5, thinkingBudget: 1024 },
      'temperature: it cannot be combined with thinking',
    ],
    [{ topP: 0.9, reasoningEffort: 'low' }, 'topP: it must be at least 0.95 with thinking'],
    [
      { tools, toolChoice: 'required', reasoningEffort: 'low' },
      'reasoningEffort: it cannot be combined with a forced call',
    ],
    [
      { tools, toolChoice: { name: 'get_weather' }, reasoningEffort: 'low' },
      'reasoningEffort: it cannot be combined with a forced call',
    ],
    [{ thinkingBudget: 1023 }, 'thinkingBudget: it must be an integer from 1024'],
    [{ thinkingBudget: 2000.5 }, 'thinkingBudget: it must be an integer from 1024'],
    [
      { thinkingBudget: 2000, reasoningEffort: 'none' },
      'reasoningEffort: it conflicts with thinkingBudget; set only one',
    ],
    [
      { thinkingBudget: 2000, maxOutputTokens: 2000 },
      'thinkingBudget: it must be below maxOutputTokens',
    ],
    [
      { reasoningEffort: 'high', maxOutputTokens: 1024 },
      'reasoningEffort: it needs a maxOutputTokens above 1024',
    ],
    [{ topK: 5, reasoningEffort: 'low' }, 'topK: it cannot be combined with thinking'],
    [{ serviceTier: 'flex' }, 'serviceTier: it must be auto or default'],
    [{ seed: 1 }, 'seed: Anthropic has no such parameter'],
    [{ toolChoice: 'required' }, 'toolChoice: there are no tools to choose from'],
    [{ tools, toolChoice: { name: 'x' } }, 'toolChoice: unknown tool x'],
    [{ responseFormat: { type: 'json_object' } }, 'responseFormat: JSON output requires a schema'],
  ])('%j', (request, reason) => {
    expect(() => bodyOf(request)).toThrow(
      expect.objectContaining({
        code: 'OPTION_INVALID',
        message: `Invalid option: ${reason}`,
      }),
    )
  })
})
