/** What a request may hold, what becomes of it, and what is refused. */

import { describe, expect, test } from 'vitest'
import type { ProviderRequest } from '../../../../core/src/index.ts'
import { call, sealed, startServer, type TestServer } from '../support.ts'
import { asked, GIF, IGNORED, PLAIN, REFUSED, tool } from './refused-rows.ts'
import { HELLO, post } from './stage.ts'

describe('a request is refused without creating a turn:', () => {
  test.each(REFUSED)('%j', async (body, param, code) => {
    const server = await startServer()
    const { status, text } = await post(server, { ...PLAIN, ...body })
    const { error } = JSON.parse(text)
    expect([status, error.param, error.code]).toEqual([400, param, code])
    expect(error).toMatchObject({ type: 'invalid_request_error' })
    expect(error.message.length).toBeLessThan(500)
    if (code === 'missing_required_parameter') expect(error.message).toBe(`${param}: is missing`)
    expect((await server.log.listThreads()).items).toEqual([])
    expect(server.errors).toEqual([])
  })

  test.each(['', '{', '[]', 'null', '7', '"Hi"', '{"__proto__":{}}', '\ud800'])(
    'the body %j',
    async (body) => {
      const server = await startServer()
      const { status, text } = await post(server, body === '' ? ' ' : body)
      expect(status).toBe(400)
      expect(JSON.parse(text).error).toMatchObject({ type: 'invalid_request_error' })
      expect((await server.log.listThreads()).items).toEqual([])
    },
  )
})

describe('a request is accepted', () => {
  test.each(IGNORED)('%j, and %j is ignored', async (body, ignored) => {
    const { status, headers } = await post(await startServer(), { ...PLAIN, ...body })
    expect([status, headers.get('x-turnstream-ignored')]).toEqual([200, ignored])
  })
})

describe('tools of the server', () => {
  const own = { name: 'f', parameters: { type: 'object' }, execute: () => 'from the server' }
  const names = ({ tools = [] }: ProviderRequest) => tools.map(({ name }) => name)

  test('are offered to a request without tools', async () => {
    const server = await startServer({ tools: [own] })
    expect(names(await requestOf(server, {}))).toEqual(['f'])
  })

  test('give way to tools of the request, even with the same name', async () => {
    const server = await startServer({ tools: [own] })
    expect(names(await requestOf(server, tool({ name: 'g' })))).toEqual(['g'])
    expect(names(await requestOf(server, tool({ name: 'f' })))).toEqual(['f'])
  })
})

/** What the provider is asked when a client sends this. */
async function requestOf(server: TestServer, body: object): Promise<ProviderRequest> {
  const next = server.held.nextCall()
  const answer = post(server, { model: 'held/m', messages: HELLO, ...body })
  const running = await next
  running.finish()
  await answer
  return running.request
}

describe('W6 the messages of a request', () => {
  const THREAD = [
    { role: 'system', content: 'Be short.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'One' },
        { type: 'text', text: 'two' },
      ],
    },
    {
      ...asked('c1'),
      content: 'Let me see.',
      reasoning_content: 'Hm.',
      refusal: null,
      annotations: [],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'ok' },
    { role: 'assistant', content: [{ type: 'text', text: 'Done.' }], parsed: null },
    { role: 'developer', content: 'Be shorter.' },
    { role: 'user', content: 'Three' },
  ]

  const ITEMS = [
    { type: 'message', origin: 'system', content: 'Be short.', id: 'key-input-1' },
    { type: 'message', origin: 'user', content: 'One\ntwo', id: 'key-input-2' },
    { type: 'message', origin: 'agent', content: 'Let me see.', id: 'key-input-3' },
    { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}', id: 'key-input-4' },
    { type: 'function_call_output', call_id: 'c1', output: 'ok', success: true, id: 'key-input-5' },
    { type: 'message', origin: 'agent', content: 'Done.', id: 'key-input-6' },
    { type: 'message', origin: 'system', content: 'Be shorter.', id: 'key-user-prompt' },
    { type: 'message', origin: 'user', content: 'Three', id: 'key-user-prompt-2' },
  ]

  test('reach the provider in order, and again in the next turn of the thread', async () => {
    const server = await startServer()
    const next = server.held.nextCall()
    const body = { model: 'held/m', messages: THREAD, stream: true }
    const answer = post(server, body, { 'idempotency-key': 'key' })
    const running = await next
    expect(running.request.input).toEqual(ITEMS)
    running.say('Four')
    running.finish()
    const { text, headers } = await answer
    // What was said before is no part of the answer.
    expect(text).toContain('Four')
    expect(text).not.toMatch(/Let me see|Done|c1/)
    await sealed(server.log, 'key')
    const again = server.held.nextCall()
    const threadId = headers.get('x-thread-id') ?? ''
    await call(server, 'POST /api/v2/submit', {
      body: { prompt: 'Five', providerId: 'held', threadId },
    })
    const later = await again
    expect(later.request.input.map(contentOf)).toEqual([...ITEMS.map(contentOf), 'Four', 'Five'])
    later.finish()
  })

  test('are not part of a Response', async () => {
    const { text } = await post(await startServer(), { model: 'plain/m', messages: THREAD })
    expect(JSON.parse(text).choices).toEqual([
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello, world.', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ])
  })

  test('appear in snapshots only as the prompt and the answer', async () => {
    const server = await startServer()
    await post(server, { model: 'plain/m', messages: THREAD }, { 'idempotency-key': 'key' })
    await sealed(server.log, 'key')
    const { json } = await call(server, 'GET /xapi/turns/key')
    const shown = json.outputs.map(({ content }: { content?: string }) => content ?? '')
    expect(shown.filter((content: string) => content !== '')).toEqual([
      'Be shorter.',
      'Three',
      'Hello, world.',
    ])
  })

  test('that end with tool outputs are a turn without a prompt', async () => {
    const messages = [
      ...HELLO,
      asked('c1'),
      { role: 'tool', tool_call_id: 'c1', content: '7', name: 'f' },
    ]
    const { input } = await requestOf(await startServer(), { messages })
    expect(input.map(contentOf)).toEqual(['Hello', 'f', '7'])
  })

  test('may have names, and calls and results in the older form', async () => {
    const messages = [
      { role: 'user', content: 'Hello', name: 'Ann' },
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
      { role: 'function', name: 'f', content: '7' },
    ]
    const { input } = await requestOf(await startServer(), { messages })
    const call_id = 'call_1'
    expect(input).toMatchObject([
      { content: 'Hello', name: 'Ann' },
      { type: 'function_call', call_id, name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id, output: '7' },
    ])
  })

  test('with calls of server tools do not run them', async () => {
    let ran = 0
    const own = { name: 'f', parameters: {}, execute: () => `${(ran += 1)}` }
    const server = await startServer({ tools: [own] })
    const messages = [...HELLO, asked('c1'), { role: 'tool', tool_call_id: 'c1', content: '7' }]
    const { status } = await post(server, { model: 'plain/m', messages })
    expect([status, ran]).toEqual([200, 0])
  })

  test('keep the order of images and texts', async () => {
    const messages = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'This' },
          { type: 'image_url', image_url: { url: GIF, detail: 'auto' } },
          { type: 'text', text: 'and that' },
        ],
      },
    ]
    const { input } = await requestOf(await startServer(), { messages })
    const attachments = [{ type: 'image', media_type: 'image/gif', data: GIF.split(',')[1] }]
    expect(input).toMatchObject([{ content: 'This', attachments }, { content: 'and that' }])
    expect(input[1]).not.toHaveProperty('attachments')
  })
})

function contentOf(item: object): unknown {
  const { content, output, name }: { content?: string; output?: string; name?: string } = item
  return content ?? output ?? name
}

describe('settings', () => {
  const ROWS: [body: object, settings: Partial<ProviderRequest>][] = [
    [{ max_tokens: 7 }, { maxOutputTokens: 7 }],
    [{ max_completion_tokens: 7, max_tokens: 7 }, { maxOutputTokens: 7 }],
    [
      { temperature: 0, top_p: 0.5 },
      { temperature: 0, topP: 0.5 },
    ],
    [{ stop: 'x' }, { stop: ['x'] }],
    [{ stop: ['x', 'y'] }, { stop: ['x', 'y'] }],
    [{ reasoning_effort: 'low' }, { reasoningEffort: 'low' }],
    [{ parallel_tool_calls: false }, { parallelToolCalls: false }],
    [{ tool_choice: 'none' }, { toolChoice: 'none' }],
    [{ response_format: { type: 'text' } }, { responseFormat: { type: 'text' } }],
    [
      { ...tool({ name: 'f' }), tool_choice: { type: 'function', function: { name: 'f' } } },
      {
        tools: [{ name: 'f', parameters: { type: 'object', properties: {} } }],
        toolChoice: { name: 'f' },
      },
    ],
    [
      {
        tools: ['f', 'g'].map((name) => ({ type: 'function', function: { name } })),
        tool_choice: {
          type: 'allowed_tools',
          allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'g' } }] },
        },
      },
      {
        tools: [{ name: 'g', parameters: { type: 'object', properties: {} } }],
        toolChoice: 'auto',
      },
    ],
    [
      { seed: 7, top_k: 5 },
      { topK: 5, seed: 7 },
    ],
    [
      { frequency_penalty: 1, presence_penalty: -1 },
      { frequencyPenalty: 1, presencePenalty: -1 },
    ],
    [{ logit_bias: { 50256: -100 } }, { logitBias: { 50256: -100 } }],
    [
      { verbosity: 'low', service_tier: 'flex' },
      { verbosity: 'low', serviceTier: 'flex' },
    ],
    [{ service_tier: 'standard_only' }, { serviceTier: 'default' }],
    [
      { user: 'u', prompt_cache_key: 'k' },
      { user: 'u', promptCacheKey: 'k' },
    ],
    [{ safety_identifier: 's', user: 'u' }, { user: 's' }],
    [
      { stop_sequences: ['x'], max_output_tokens: 7 },
      { stop: ['x'], maxOutputTokens: 7 },
    ],
    ...[
      { reasoning_effort: 'high' },
      { reasoning: { effort: 'high' } },
      { output_config: { effort: 'high' } },
    ].map((body): [object, Partial<ProviderRequest>] => [body, { reasoningEffort: 'high' }]),
    [{ reasoning_effort: 'xhigh' }, { reasoningEffort: 'xhigh' }],
    [{ output_config: { effort: 'max' } }, { reasoningEffort: 'max' }],
    [{ thinking: { type: 'enabled', budget_tokens: 50_000 } }, { thinkingBudget: 50_000 }],
    [{ thinking: { type: 'adaptive' } }, { reasoningEffort: 'medium' }],
    [{ thinking: { type: 'disabled' } }, { reasoningEffort: 'none' }],
    ...[
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'n', schema: { a: 1 }, strict: true },
        },
      },
      { response_format: { type: 'json_schema', name: 'n', schema: { a: 1 }, strict: true } },
      { text: { format: { type: 'json_schema', name: 'n', schema: { a: 1 }, strict: true } } },
    ].map((body): [object, Partial<ProviderRequest>] => [
      body,
      { responseFormat: { type: 'json_schema', name: 'n', schema: { a: 1 }, strict: true } },
    ]),
    ...[
      { response_format: { type: 'json_object', schema: { a: 1 } } },
      { output_config: { format: { type: 'json_schema', schema: { a: 1 } } } },
      { format: { a: 1 } },
      { guided_json: { a: 1 } },
      { guided_json: '{"a":1}' },
    ].map((body): [object, Partial<ProviderRequest>] => [
      body,
      { responseFormat: { type: 'json_schema', name: 'output', schema: { a: 1 } } },
    ]),
    ...[
      { format: 'json' },
      { format: {} },
      { response_format: { type: 'json_object', schema: {} } },
      { response_format: { type: 'json_object', schema: null } },
    ].map((body): [object, Partial<ProviderRequest>] => [
      body,
      { responseFormat: { type: 'json_object' } },
    ]),
    [
      { functions: [{ name: 'f' }], function_call: { name: 'f' } },
      {
        tools: [{ name: 'f', parameters: { type: 'object', properties: {} } }],
        toolChoice: { name: 'f' },
        parallelToolCalls: false,
      },
    ],
  ]

  test.each(ROWS)('%j', async (body, settings) => {
    const { model, input, ...asked } = await requestOf(await startServer(), body)
    expect([model, input.length]).toEqual(['m', 1])
    expect(asked).toEqual(settings)
  })
})

describe('request metadata', () => {
  test('is stored with the thread', async () => {
    const server = await startServer()
    const kept = {
      ...{ user: 'u', safety_identifier: 's', prompt_cache_key: 'p', store: false },
      metadata: { a: 'b' },
    }
    const { headers } = await post(server, { ...PLAIN, ...kept })
    const threadId = headers.get('x-thread-id') ?? ''
    expect(await server.log.getThread(threadId)).toMatchObject({ metadata: kept })
  })

  test('is not overwritten when the request is repeated', async () => {
    const server = await startServer()
    const send = () => post(server, { ...PLAIN, user: 'u' }, { 'idempotency-key': 'key' })
    const threadId = (await send()).headers.get('x-thread-id') ?? ''
    await server.log.putThread({ threadId, metadata: { mine: true } })
    await send()
    expect(await server.log.getThread(threadId)).toMatchObject({ metadata: { mine: true } })
  })
})

describe('W7 an idempotency key', () => {
  test('identifies one turn, streamed or not', async () => {
    const server = await startServer()
    const key = { 'idempotency-key': 'key' }
    const whole = await post(server, PLAIN, key)
    const streamed = await post(server, { ...PLAIN, stream: true }, key)
    expect(whole.headers.get('x-turn-id')).toBe('key')
    expect(streamed.headers.get('x-turn-id')).toBe('key')
    expect(streamed.text).toContain('Hello, world.')
    const { id, created } = JSON.parse(whole.text)
    expect(streamed.text).toContain(`"id":"${id}"`)
    expect(streamed.text).toContain(`"created":${created}`)
    expect((await server.log.listThreads()).items).toHaveLength(1)
  })

  test('of a different request is refused, even when only the history differs', async () => {
    const server = await startServer()
    const key = { 'idempotency-key': 'key' }
    const said = (content: string) => [{ role: 'assistant', content }, ...HELLO]
    await post(server, { ...PLAIN, messages: said('A') }, key)
    const other = await post(server, { ...PLAIN, messages: said('B') }, key)
    expect([other.status, JSON.parse(other.text).error.code]).toEqual([409, 'SUBMIT_CONFLICT'])
  })

  test('that is invalid is refused', async () => {
    const { status, text } = await post(await startServer(), PLAIN, { 'idempotency-key': 'a b' })
    expect([status, JSON.parse(text).error.param]).toEqual([400, 'idempotency-key'])
  })
})
