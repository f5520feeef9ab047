import { describe, expect, test } from 'vitest'
import { buildOpenaiChatRequest } from '../../../src/formats/chat-completions/request-out.ts'
import type { OutputItem, ProviderRequest } from '../../../src/index.ts'
import { fixtureEvents, responsesOf } from '../outcome.ts'
import { translate } from './chunks.ts'

const user = { type: 'message', id: 'u', origin: 'user', content: 'Hi' } as const
const base: ProviderRequest = { model: 'm', input: [user] }
const tool = { name: 'add', description: 'Adds', parameters: { type: 'object' } }

const bodyOf = (request: Partial<ProviderRequest>, options = {}) =>
  buildOpenaiChatRequest({ ...base, ...request }, options).body

const messagesOf = (input: readonly OutputItem[], id = 'acme') =>
  bodyOf({ input }, { id })['messages']

test('a plain request has a model, a message, stream and include_usage', () => {
  expect(buildOpenaiChatRequest(base, {})).toEqual({
    url: 'https://api.openai.com/v1/chat/completions',
    headers: {},
    body: {
      model: 'm',
      messages: [{ role: 'user', content: 'Hi' }],
      stream: true,
      stream_options: { include_usage: true },
    },
  })
})

test('key, URL and extra headers come from the options', () => {
  const options = { baseUrl: 'http://localhost:1/v1/', apiKey: 'key', headers: { 'x-title': 't' } }
  expect(buildOpenaiChatRequest(base, options)).toMatchObject({
    url: 'http://localhost:1/v1/chat/completions',
    headers: { authorization: 'Bearer key', 'x-title': 't' },
  })
})

describe('a parameter becomes a field of the body', () => {
  const tools = [tool]
  const schema = { type: 'object' }
  const rows: [request: Partial<ProviderRequest>, fields: Record<string, unknown>][] = [
    [{ reasoningEffort: 'low' }, { reasoning_effort: 'low' }],
    [{ maxOutputTokens: 99 }, { max_completion_tokens: 99 }],
    [
      { temperature: 0, topP: 0.5 },
      { temperature: 0, top_p: 0.5 },
    ],
    [{ stop: ['END'] }, { stop: ['END'] }],
    [{ tools }, { tools: [{ type: 'function', function: tool }] }],
    [{ tools, toolChoice: 'required' }, { tool_choice: 'required' }],
    [
      { tools, toolChoice: { name: 'add' } },
      { tool_choice: { type: 'function', function: { name: 'add' } } },
    ],
    [{ tools, parallelToolCalls: false }, { parallel_tool_calls: false }],
    [{ responseFormat: { type: 'json_object' } }, { response_format: { type: 'json_object' } }],
    [
      { responseFormat: { type: 'json_schema', name: 'n', schema, strict: true } },
      {
        response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } },
      },
    ],
    [
      { responseFormat: { type: 'json_schema', name: 'n', schema } },
      { response_format: { type: 'json_schema', json_schema: { name: 'n', schema } } },
    ],
  ]

  test.each(rows)('%j', (request, fields) => {
    const { model, messages, stream, stream_options, tools: sent, ...rest } = bodyOf(request)
    expect({ model, stream, stream_options, messages }).toEqual(bodyOf({}))
    expect('tools' in fields ? { tools: sent } : rest).toEqual(fields)
  })

  test('the maximum has its old name for older servers', () => {
    const body = bodyOf({ maxOutputTokens: 99 }, { legacyMaxTokens: true })
    expect(body).toMatchObject({ max_tokens: 99 })
    expect(body).not.toHaveProperty('max_completion_tokens')
  })

  test('tool fields are omitted without tools', () => {
    const request = { tools: [], toolChoice: 'auto', parallelToolCalls: true, stop: [] } as const
    expect(bodyOf(request)).toEqual(bodyOf({}))
  })
})

describe('unsupported parameters are refused by name', () => {
  const rows: [request: Partial<ProviderRequest>, message: RegExp][] = [
    [{ thinkingBudget: 5 }, /thinkingBudget/],
    [{ toolChoice: 'required' }, /toolChoice: there are no tools/],
    [{ tools: [tool], toolChoice: { name: 'sub' } }, /toolChoice: unknown tool sub/],
    [
      {
        input: [{ type: 'function_call_output', id: 'o', call_id: 'x', output: '', success: true }],
      },
      /input: the output of x has no call/,
    ],
  ]

  test.each(rows)('%j', (request, message) => {
    expect(() => bodyOf(request)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringMatching(message) }),
    )
  })
})

const call = (call_id: string, more = {}): OutputItem => ({
  type: 'function_call',
  id: call_id,
  call_id,
  name: 'add',
  arguments: '{"n":1}',
  ...more,
})
const output = (call_id: string): OutputItem => ({
  type: 'function_call_output',
  id: `o-${call_id}`,
  call_id,
  output: `out ${call_id}`,
  success: true,
})
const agent = (content: string): OutputItem => ({
  type: 'message',
  id: content,
  origin: 'agent',
  content,
})
const toolCall = (id: string) => ({
  id,
  type: 'function',
  function: { name: 'add', arguments: '{"n":1}' },
})
const answer = (id: string) => ({ role: 'tool', tool_call_id: id, content: `out ${id}` })

describe('a thread becomes messages', () => {
  const rows: [name: string, input: OutputItem[], messages: unknown[]][] = [
    [
      'of the system where they stand',
      [{ type: 'message', id: 's', origin: 'system', content: 'Be kind' }, user],
      [
        { role: 'system', content: 'Be kind' },
        { role: 'user', content: 'Hi' },
      ],
    ],
    [
      'with text and calls of one step in one message',
      [agent('Let me see.'), call('a'), call('b'), output('a'), output('b'), agent('Two.')],
      [
        { role: 'assistant', content: 'Let me see.', tool_calls: [toolCall('a'), toolCall('b')] },
        answer('a'),
        answer('b'),
        { role: 'assistant', content: 'Two.' },
      ],
    ],
    [
      'with each output after its call',
      [call('a'), output('a'), call('b'), output('b')],
      [
        { role: 'assistant', content: null, tool_calls: [toolCall('a')] },
        answer('a'),
        { role: 'assistant', content: null, tool_calls: [toolCall('b')] },
        answer('b'),
      ],
    ],
    [
      'with an answer for a call that has none',
      [call('a'), user],
      [
        { role: 'assistant', content: null, tool_calls: [toolCall('a')] },
        { role: 'tool', tool_call_id: 'a', content: 'The tool was not run' },
        { role: 'user', content: 'Hi' },
      ],
    ],
    [
      'without the reasoning of others, errors and what was given up',
      [
        { type: 'reasoning', id: 'r', content: 'Hm', provider_metadata: { other: { field: 'x' } } },
        { type: 'error', id: 'e', code: 'X', message: 'x' },
        call('a', { error: { code: 'UPSTREAM_TRUNCATED', message: 'cut' } }),
        user,
      ],
      [{ role: 'user', content: 'Hi' }],
    ],
    [
      'without what another provider ran for itself',
      [
        call('a', { provider_metadata: { executed_by: 'provider', other: {} } }),
        output('a'),
        agent('So.'),
      ],
      [{ role: 'assistant', content: 'So.' }],
    ],
  ]

  test.each(rows)('%s', (_, input, messages) => {
    expect(messagesOf(input)).toEqual(messages)
  })
})

describe('items from this server are sent back to it, and to no other', () => {
  const rows: [fixture: string, own: unknown[], foreign: unknown[]][] = [
    [
      'reasoning-content',
      [{ role: 'assistant', content: 'Hi there', reasoning_content: 'The user greets.' }],
      [{ role: 'assistant', content: 'Hi there' }],
    ],
    [
      'reasoning-openrouter',
      [
        {
          role: 'assistant',
          content: 'Done.',
          reasoning: 'Let me think.',
          reasoning_details: [
            {
              type: 'reasoning.text',
              format: 'v1',
              index: 0,
              text: 'Let me think.',
              signature: 'c2ln',
            },
          ],
        },
      ],
      [{ role: 'assistant', content: 'Done.' }],
    ],
    [
      'refusal',
      [{ role: 'assistant', content: null, refusal: 'I cannot help with that.' }],
      [{ role: 'assistant', content: 'I cannot help with that.' }],
    ],
  ]

  test.each(rows)('%s', (fixture, own, foreign) => {
    const payloads = translate(fixtureEvents('openai-chat', fixture), { providerId: 'acme' })
    const input = responsesOf(payloads).flatMap(({ output_items }) => output_items)
    expect(messagesOf(input, 'acme')).toEqual(own)
    expect(messagesOf(input, 'other')).toEqual(foreign)
  })

  const callRows: [fixture: string, call: unknown][] = [
    [
      'custom-tool',
      { id: 'call_a', type: 'custom', custom: { name: 'run_sql', input: 'SELECT 1;' } },
    ],
    [
      'call-with-signature',
      {
        id: 'function-call-1',
        type: 'function',
        function: { name: 'add', arguments: '{"n":1}' },
        extra_content: { google: { thought_signature: 'c2lnbmVk' } },
      },
    ],
  ]

  test.each(callRows)('the call of %s', (fixture, call) => {
    const payloads = translate(fixtureEvents('openai-chat', fixture), { providerId: 'acme' })
    const input = responsesOf(payloads).flatMap(({ output_items }) => output_items)
    expect(messagesOf(input)).toMatchObject([{ role: 'assistant', tool_calls: [call] }, {}])
  })

  test('calls of one response stay in one message despite outputs between them', () => {
    const events = fixtureEvents('openai-chat', 'parallel-calls-interleaved')
    const [response] = responsesOf(translate(events, { providerId: 'acme' }))
    const [first, second] = response?.output_items ?? []
    if (first?.type !== 'function_call' || second?.type !== 'function_call') throw new Error()
    const output = { type: 'function_call_output', id: 'o', output: 'x', success: true } as const
    const input = [first, { ...output, call_id: first.call_id }, second]
    expect(messagesOf([...input, { ...output, call_id: second.call_id }])).toMatchObject([
      { role: 'assistant', tool_calls: [{ id: 'call_a' }, { id: 'call_b' }] },
      { role: 'tool', tool_call_id: 'call_a' },
      { role: 'tool', tool_call_id: 'call_b' },
    ])
  })
})
