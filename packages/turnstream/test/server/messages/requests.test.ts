/** What `/v1/messages` accepts, ignores and refuses. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../../test/case-count.ts'
import { sse } from '../../providers/vendor-server.ts'
import { fixtures, stage, type VendorName } from '../openai/stage.ts'
import { PNG } from '../openai/vendor-forms.ts'
import { json, send } from '../responses/support.ts'
import { startServer } from '../support.ts'

const ASK = { model: 'vendor/m', max_tokens: 1000, messages: [{ role: 'user', content: 'Hi' }] }

const CACHED = { type: 'ephemeral', ttl: '5m' }

async function upstream(body: object, vendor: VendorName = 'anthropic-messages') {
  const { server, asked } = await stage(vendor, fixtures(vendor, 'text'))
  const answer = await send(server, 'POST /v1/messages', { ...ASK, ...body })
  expect([answer.status, answer.text]).toEqual([200, expect.anything()])
  return { asked: asked(), ignored: answer.headers.get('x-turnstream-ignored') }
}

test('a request of Claude Code reaches Anthropic without what only its own gateway reads', async () => {
  const { asked, ignored } = await upstream({
    system: [
      { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1.325' },
      { type: 'text', text: 'You are Claude Code.', cache_control: { type: 'ephemeral' } },
    ],
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'system', content: 'The date is known.' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm', signature: '' },
          { type: 'tool_use', id: 'functions.Bash:0', name: 'Bash', input: { command: 'ls' } },
        ],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'functions.Bash:0',
            content: [{ type: 'text', text: 'a.txt' }],
            is_error: true,
            cache_control: { type: 'ephemeral' },
          },
        ],
      },
    ],
    tools: [
      { name: 'Bash', input_schema: { type: 'object' }, defer_loading: true },
      { type: 'web_search_20250305', name: 'web_search' },
    ],
    thinking: { type: 'adaptive', display: 'omitted' },
    output_config: { effort: 'high' },
    context_management: { edits: [] },
    max_tokens: 128_000,
    metadata: { user_id: 'u' },
  })
  expect(asked.system).toEqual([
    { type: 'text', text: 'You are Claude Code.' },
    { type: 'text', text: 'The date is known.', cache_control: CACHED },
  ])
  expect(asked.messages[0].content).toEqual([{ type: 'text', text: 'Hi', cache_control: CACHED }])
  expect(asked.messages[1].content).toEqual([
    {
      type: 'tool_use',
      id: expect.stringMatching(/^[\w-]+$/),
      name: 'Bash',
      input: { command: 'ls' },
    },
  ])
  expect(asked.messages[2].content[0]).toMatchObject({
    type: 'tool_result',
    content: 'a.txt',
    is_error: true,
    cache_control: CACHED,
  })
  // The API refuses to think between the calls of an answer that began without signed thinking.
  expect(asked).toMatchObject({ max_tokens: 128_000, thinking: { type: 'disabled' } })
  expect(asked.tools).toHaveLength(1)
  expect(asked.metadata).toEqual({ user_id: 'u' })
  expect(ignored?.split(', ')).toEqual([
    'tools[].defer_loading',
    'tools[1] (web_search_20250305)',
    'context_management',
    'thinking.display',
  ])
})

test('a prompt is cached for the longest time that a request names', async () => {
  const tools = [{ name: 'f', input_schema: {}, cache_control: { type: 'ephemeral', ttl: '1h' } }]
  const long = { type: 'ephemeral', ttl: '1h' }
  const { asked } = await upstream({ cache_control: CACHED, tools })
  expect(asked.messages[0].content[0].cache_control).toEqual(long)
  expect(JSON.stringify((await upstream({})).asked)).not.toContain('cache_control')
  const other = await upstream({ cache_control: CACHED, tools }, 'openai-chat')
  expect(JSON.stringify(other.asked)).not.toContain('cache')
  expect(other.ignored).toBe('cache_control')
})

test('content of every kind is kept', async () => {
  const source = { type: 'base64', media_type: 'image/png', data: PNG }
  const pdf = {
    type: 'base64',
    media_type: 'application/pdf',
    data: Buffer.from('%PDF-1.4 ').toString('base64'),
  }
  const redacted = { type: 'redacted_thinking', data: 'abc' }
  const { asked, ignored } = await upstream({
    system: 'Be brief.',
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'image', source },
          { type: 'document', source: pdf, title: 'a.pdf' },
          { type: 'document', source: { type: 'text', data: 'plain' } },
          { type: 'unheard_of' },
        ],
      },
      {
        role: 'assistant',
        content: [redacted, { type: 'text', text: 'A cat' }, { type: 'server_tool_use' }],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'none' }].slice(1) },
      { role: 'user', content: 'Go on' },
    ],
  })
  expect(JSON.stringify(asked.messages[0])).toContain(PNG)
  expect(JSON.stringify(asked.messages[0])).toContain('plain')
  expect(asked.messages[0].content.map(({ type }: { type: string }) => type).toSorted()).toEqual([
    'document',
    'image',
    'text',
    'text',
  ])
  expect(asked.messages[1].content).toEqual([redacted, { type: 'text', text: 'A cat' }])
  expect(ignored).toBe('messages.0.content.4 (unheard_of), messages.1.content.2 (server_tool_use)')
})

test('documents of text and search results become text', async () => {
  const text = (text: string) => ({ type: 'text', text })
  const content = [
    { type: 'document', source: { type: 'content', content: 'Alpha' } },
    { type: 'document', source: { type: 'content', content: [text('Beta')] } },
    { type: 'search_result', source: 'https://x', title: 'Gamma', content: [text('Delta')] },
  ]
  const { asked, ignored } = await upstream({ messages: [{ role: 'user', content }] })
  const sent = asked.messages[0].content.map((block: { text: string }) => block.text)
  expect(sent).toEqual(['Alpha', 'Beta', 'Gamma\nhttps://x\nDelta'])
  expect(ignored).toBeNull()
})

test('documents of text and search results in a result are part of it', async () => {
  const text = (text: string) => ({ type: 'text', text })
  const source = { type: 'text', media_type: 'text/plain', data: 'Beta' }
  const result = { type: 'search_result', source: 'x', title: 'Gamma', content: [text('Delta')] }
  const content = [text('Alpha'), { type: 'document', source }, result]
  const use = { type: 'tool_use', id: 'c', name: 'f', input: {} }
  const { asked, ignored } = await upstream({
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [use] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content }] },
    ],
  })
  expect(asked.messages[2].content).toMatchObject([
    { type: 'tool_result', content: 'Alpha\nBeta\nGamma\nx\nDelta' },
  ])
  expect(ignored).toBeNull()
})

test('texts and images stay in order', async () => {
  const text = (text: string) => ({ type: 'text', text })
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } }
  const document = { type: 'document', source: { type: 'text', data: 'C' } }
  const content = [text('A'), image, text('B'), image, document, text('D')]
  const { asked } = await upstream({ messages: [{ role: 'user', content }] })
  const sent = asked.messages.flatMap((message: { content: object[] }) => message.content)
  const names = sent.map((block: { type: string; text?: string }) => block.text ?? block.type)
  expect(names).toEqual(['A', 'image', 'B', 'image', 'C', 'D'])
})

test('tools that a search has found are named in its result', async () => {
  const content = [{ type: 'tool_reference', tool_name: 'get_weather' }]
  const { asked, ignored } = await upstream({
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content }] },
    ],
  })
  expect(asked.messages[2].content[0].content).toBe('The tool get_weather is available.')
  expect(ignored).toBeNull()
})

test('a request has up to 100 images, with those of its history', async () => {
  const source = { type: 'base64', media_type: 'image/png', data: PNG }
  const shot = { role: 'user', content: [{ type: 'image', source }] }
  const messages = (count: number) => Array.from({ length: count }, () => shot)
  const server = await startServer()
  for (const [count, status] of [
    [100, 200],
    [101, 400],
  ] as const) {
    const body = { ...ASK, model: 'plain/m', messages: messages(count) }
    expect((await send(server, 'POST /v1/messages', body)).status).toBe(status)
  }
})

test('images in results come after the results', async () => {
  const source = { type: 'base64', media_type: 'image/png', data: PNG }
  const { asked } = await upstream({
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input: 'x' }] },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'c',
            content: [
              { type: 'image', source },
              { type: 'text', text: 'see' },
            ],
          },
        ],
      },
    ],
  })
  const types = asked.messages[2].content.map(({ type }: { type: string }) => type)
  expect(types).toEqual(['tool_result', 'image'])
})

describe('settings', () => {
  test('go to the provider', async () => {
    const schema = { type: 'object', properties: {} }
    const { asked } = await upstream({
      temperature: 0.5,
      top_p: 0.9,
      stop_sequences: ['END'],
      tools: [{ name: 'f', description: 'F', input_schema: schema }],
      tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true },
      output_config: { format: { type: 'json_schema', schema } },
    })
    expect(asked).toMatchObject({
      temperature: 0.5,
      top_p: 0.9,
      stop_sequences: ['END'],
      tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true },
      output_config: { format: { type: 'json_schema', schema } },
    })
  })

  test.each([
    [{ type: 'any' }, { type: 'any' }],
    [{ type: 'auto' }, { type: 'auto' }],
    [{ type: 'none' }, { type: 'none' }],
    [{ type: 'tool' }, undefined],
    [{ type: 'unheard_of' }, undefined],
  ])('the tool choice %j becomes %j', async (tool_choice, expected) => {
    const { asked } = await upstream({ tools: [{ name: 'f' }], tool_choice })
    expect(asked.tool_choice).toEqual(expected)
  })

  test.each([
    [{ type: 'enabled', budget_tokens: 1024 }, 100_000, 'minimal'],
    [{ type: 'enabled', budget_tokens: 4000 }, 100_000, 'low'],
    [{ type: 'enabled', budget_tokens: 10_000 }, 100_000, 'medium'],
    [{ type: 'enabled', budget_tokens: 50_000 }, 100_000, 'high'],
    [{ type: 'enabled', budget_tokens: 50_000 }, 3000, 'low'],
    [{ type: 'enabled', budget_tokens: 50_000 }, 1000, undefined],
    [{ type: 'adaptive' }, 100_000, 'medium'],
    [{ type: 'disabled' }, 100_000, undefined],
  ])('thinking %j with %i tokens is the effort %s', async (thinking, max_tokens, effort) => {
    const { asked } = await upstream({ thinking, max_tokens }, 'openai-responses')
    expect(asked.reasoning?.effort).toBe(effort)
  })

  test('of sampling are dropped with thinking, which does not allow them', async () => {
    const thinking = { type: 'enabled', budget_tokens: 1024 }
    const { asked, ignored } = await upstream({ thinking, max_tokens: 4000, temperature: 0.2 })
    expect(asked.temperature).toBeUndefined()
    expect(ignored).toBe('temperature')
  })
})

test.each([
  [{ max_tokens: undefined }, 'max_tokens'],
  [{ messages: [] }, 'messages'],
  [{ messages: [{ role: 'robot', content: 'x' }] }, 'messages.0.role'],
  [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, 'messages.0.content.0.text'],
  [
    {
      messages: [
        { role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'https://x' } }] },
      ],
    },
    'messages.0.content.0.source',
  ],
  [
    {
      messages: [
        {
          role: 'user',
          content: [{ type: 'image', source: { type: 'base64', media_type: 'x', data: 'y' } }],
        },
      ],
    },
    'messages.0.content.0.source',
  ],
  [
    { messages: [{ role: 'assistant', content: [{ type: 'tool_use', name: 'f' }] }] },
    'messages.0.content.0.id',
  ],
  [{ output_config: { format: { type: 'json_schema' } } }, 'output_config.format.schema'],
  [{ temperature: 3 }, 'temperature'],
  [{ output_config: { format: { type: 'grammar' } } }, 'output_config.format.type'],
  [{ n: 2 }, 'n'],
  [{ logprobs: true }, 'logprobs'],
  [{ modalities: ['audio'] }, 'modalities'],
])('%j is refused, and the message says where', async (body, path) => {
  const answer = await send(await startServer(), 'POST /v1/messages', {
    ...ASK,
    model: 'plain/m',
    ...body,
  })
  expect(answer.status).toBe(400)
  const { type, error, request_id } = json(answer)
  expect([type, error.type]).toEqual(['error', 'invalid_request_error'])
  expect(error.message).toContain(path)
  expect(answer.headers.get('request-id')).toBe(request_id)
})

test.each([
  ['POST /v1/messages', { ...ASK, model: 'x/y' }, 404, 'not_found_error'],
  ['PUT /v1/messages', {}, 405, 'invalid_request_error'],
  ['GET /v1/messages/a/b', undefined, 404, 'not_found_error'],
] as const)('%s is refused in Anthropic’s format', async (request, body, status, type) => {
  const answer = await send(await startServer(), request, body)
  expect([answer.status, json(answer).error.type]).toEqual([status, type])
})

const block = fc.oneof(
  fc.record(
    {
      type: fc.constantFrom('text', 'image', 'tool_use', 'tool_result', 'thinking', 'x'),
      text: fc.string(),
      id: fc.string(),
      name: fc.string(),
      source: fc.anything(),
      content: fc.anything(),
    },
    { requiredKeys: ['type'] },
  ),
  fc.anything(),
)
const message = fc.record({
  role: fc.constantFrom('user', 'assistant', 'system', 'x'),
  content: fc.oneof(fc.string(), fc.array(block, { maxLength: 4 })),
})

test('any body gets an answer in Anthropic’s format, never a server error', async () => {
  const server = await startServer()
  const body = fc.record(
    {
      messages: fc.array(message, { maxLength: 4 }),
      tools: fc.array(fc.object()),
      thinking: fc.anything(),
      more: fc.anything(),
    },
    { requiredKeys: ['messages'] },
  )
  await fc.assert(
    fc.asyncProperty(body, async (fields) => {
      const answer = await send(server, 'POST /v1/messages', {
        ...ASK,
        model: 'plain/m',
        ...fields,
      })
      expect(answer.status).toBeLessThan(500)
      if (answer.status !== 200) expect(json(answer).type).toBe('error')
    }),
    { numRuns: caseCount(200) },
  )
  expect(server.errors).toEqual([])
})

/** A code in the provider's stream, before any output. */
const FAILURES: [code: string, status: number, type: string][] = [
  ['server_is_overloaded', 529, 'overloaded_error'],
  ['slow_down', 529, 'overloaded_error'],
  ['timeout_error', 504, 'timeout_error'],
  ['request_too_large', 413, 'request_too_large'],
  ['insufficient_quota', 402, 'billing_error'],
  ['context_length_exceeded', 400, 'invalid_request_error'],
  ['authentication_error', 502, 'api_error'],
  ['anything', 502, 'api_error'],
]

test.each(FAILURES)('a turn that fails with %s gets %i %s', async (code, status, type) => {
  const failed = JSON.stringify({ type: 'error', error: { type: code, message: 'no' } })
  const { server } = await stage('anthropic-messages', sse(failed))
  for (const stream of [true, false]) {
    const answer = await send(server, 'POST /v1/messages', { ...ASK, stream })
    expect([answer.status, json(answer).error.type]).toEqual([status, type])
  }
})
