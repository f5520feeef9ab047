/** What `/v1/responses` accepts, ignores and refuses. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../../test/case-count.ts'
import { sse } from '../../providers/vendor-server.ts'
import { fixtures, stage } from '../openai/stage.ts'
import { PNG } from '../openai/vendor-forms.ts'
import { startServer } from '../support.ts'
import { json, send } from './support.ts'

const vendor = 'openai-responses'
const IGNORED = 'x-turnstream-ignored'

async function upstream(body: object) {
  const { server, asked } = await stage(vendor, fixtures(vendor, 'text'))
  const answer = await send(server, 'POST /v1/responses', { model: 'vendor/m', ...body })
  expect([answer.status, answer.text]).toEqual([200, expect.anything()])
  return { asked: asked(), ignored: answer.headers.get(IGNORED), response: json(answer) }
}

describe('input', () => {
  test('may be a string, with instructions before it', async () => {
    const { asked } = await upstream({ input: 'Hi', instructions: 'Be brief.' })
    expect(asked.input).toEqual([
      { type: 'message', role: 'system', content: [{ type: 'input_text', text: 'Be brief.' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
    ])
  })

  test('may be items of every kind', async () => {
    const image_url = `data:image/png;base64,${PNG}`
    const { asked, ignored } = await upstream({
      input: [
        { role: 'developer', content: 'A' },
        {
          type: 'message',
          role: 'user',
          content: [{ type: 'input_text', text: 'B' }, { type: 'x' }],
        },
        {
          role: 'assistant',
          content: [
            { type: 'output_text', text: 'C' },
            { type: 'refusal', refusal: 'D' },
          ],
        },
        { type: 'reasoning', summary: [{ type: 'summary_text', text: 'E' }] },
        { type: 'compaction', encrypted_content: 'F' },
        { type: 'web_search_call', id: 'ws_1' },
        { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
        { type: 'function_call', call_id: 'c2', name: 'g', arguments: '{}', namespace: 'ns' },
        {
          type: 'function_call_output',
          call_id: 'c1',
          output: [
            { type: 'input_text', text: 'G' },
            { type: 'input_image', image_url },
          ],
        },
        { type: 'function_call_output', call_id: 'c2', output: 'H' },
        { role: 'user', content: 'I' },
      ],
    })
    expect(
      asked.input.map((item: Record<string, unknown>) => item['role'] ?? item['type']),
    ).toEqual([
      'system',
      'user',
      'assistant',
      'compaction',
      'function_call',
      'function_call',
      'function_call_output',
      'function_call_output',
      'user',
      'user',
    ])
    expect(asked.input[5].name).toBe('ns__g')
    expect(JSON.stringify(asked.input[8])).toContain(PNG)
    expect(ignored).toBe('input[1].content[1] (x), input[5] (web_search_call)')
  })
})

test('the phase of a message goes back to OpenAI, and is part of the output', async () => {
  const phase = 'commentary'
  const { asked } = await upstream({
    input: [
      { role: 'user', content: 'A' },
      { role: 'assistant', content: 'B', phase },
      { role: 'user', content: 'C' },
    ],
  })
  expect(asked.input[1]).toMatchObject({ role: 'assistant', phase })
  const content = [{ type: 'output_text', text: 'Hi', annotations: [] }]
  const item = { id: 'msg_1', type: 'message', role: 'assistant', phase, content }
  const frames = [
    { type: 'response.created', response: { id: 'r' } },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: { id: 'r', status: 'completed', output: [item] } },
  ]
  const { server, asked: next } = await stage(vendor, sse(...frames.map((f) => JSON.stringify(f))))
  const body = { model: 'vendor/m', input: 'Hi' }
  const first = json(await send(server, 'POST /v1/responses', body))
  expect(first.output).toMatchObject([{ type: 'message', phase }])
  await send(server, 'POST /v1/responses', { ...body, previous_response_id: first.id })
  expect(next().input[1]).toMatchObject({ role: 'assistant', phase })
})

test('texts and images of a message stay in order', async () => {
  const text = (text: string) => ({ type: 'input_text', text })
  const image = { type: 'input_image', image_url: `data:image/png;base64,${PNG}` }
  const content = [text('A'), image, text('B'), image]
  const { asked } = await upstream({ input: [{ role: 'user', content }] })
  const sent = asked.input.flatMap((item: { content: object[] }) => item.content)
  const names = sent.map((part: { type: string; text?: string }) => part.text ?? part.type)
  expect(names).toEqual(['A', 'input_image', 'B', 'input_image'])
})

describe('tools', () => {
  const TOOLS = [
    { type: 'function', name: 'f', description: 'F', parameters: { type: 'object' }, strict: true },
    { type: 'custom', name: 'patch', format: { type: 'grammar', definition: 'start: "x"' } },
    {
      type: 'namespace',
      name: 'fs',
      tools: [{ type: 'function', name: 'read' }, { type: 'web_search' }],
    },
    { type: 'web_search' },
    { type: 'tool_search' },
    { type: 'unheard_of', name: 'x' },
  ]

  test('that providers do not know are mapped, and hosted ones are dropped', async () => {
    const { asked, ignored, response } = await upstream({ input: 'Hi', tools: TOOLS })
    expect(
      asked.tools.map(({ type, name }: { type: string; name: string }) => [type, name]),
    ).toEqual([
      ['function', 'f'],
      ['function', 'patch'],
      ['function', 'fs__read'],
    ])
    expect(asked.tools[1].parameters.required).toEqual(['input'])
    expect(asked.tools[1].description).toContain('start: "x"')
    expect(ignored).toBe('tools[3] (web_search), tools[4] (tool_search), tools[5] (unheard_of)')
    expect(response.tools).toEqual(TOOLS.slice(0, 3))
  })

  test('of codex come as items, too', async () => {
    const input = [
      { type: 'additional_tools', tools: TOOLS.slice(0, 1) },
      { role: 'user', content: 'Hi' },
    ]
    const { asked, ignored } = await upstream({ input })
    expect(asked.tools).toHaveLength(1)
    expect(ignored).toBeNull()
  })

  test('custom ones are called with text', async () => {
    const { server } = await stage(vendor, fixtures(vendor, 'custom-tool-call'))
    const tools = [
      { type: 'custom', name: 'apply_patch' },
      { type: 'custom', name: 'run_query' },
    ]
    const answer = json(
      await send(server, 'POST /v1/responses', { model: 'vendor/m', input: 'Hi', tools }),
    )
    const names = answer.output.filter(({ type }: { type: string }) => type.endsWith('_call'))
    expect(names.length).toBeGreaterThan(0)
  })

  test.each([
    ['auto', 'auto'],
    ['none', 'none'],
    ['required', 'required'],
    [
      { type: 'function', name: 'f' },
      { type: 'function', name: 'f' },
    ],
    [
      { type: 'custom', name: 'patch' },
      { type: 'function', name: 'patch' },
    ],
    [
      { type: 'function', name: 'read', namespace: 'fs' },
      { type: 'function', name: 'fs__read' },
    ],
    [
      { type: 'function', name: 'read' },
      { type: 'function', name: 'fs__read' },
    ],
    [{ type: 'allowed_tools', mode: 'required', tools: [] }, 'required'],
    [{ type: 'web_search' }, undefined],
  ])('with the choice %j are asked for with %j', async (tool_choice, expected) => {
    const { asked } = await upstream({ input: 'Hi', tools: TOOLS, tool_choice })
    expect(asked.tool_choice).toEqual(expected)
  })

  test('that a choice does not allow are not sent', async () => {
    const allowed = [{ type: 'custom', name: 'patch' }]
    const { asked, response } = await upstream({
      input: 'Hi',
      tools: TOOLS,
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: allowed },
    })
    expect(asked.tools.map(({ name }: { name: string }) => name)).toEqual(['patch'])
    expect(response.tools).toHaveLength(3)
  })

  const TWINS = [
    { type: 'function', name: 'read' },
    { type: 'namespace', name: 'fs', tools: [{ type: 'function', name: 'read' }] },
    { type: 'namespace', name: 'db', tools: [{ type: 'function', name: 'read' }] },
  ]

  test.each([
    [{ type: 'function', name: 'read' }, 'read'],
    [{ type: 'function', name: 'read', namespace: 'db' }, 'db__read'],
    [{ type: 'namespace', name: 'fs' }, 'fs__read'],
  ])('of several namespaces are told apart: %j allows %s', async (allowed, name) => {
    const tool_choice = { type: 'allowed_tools', mode: 'auto', tools: [allowed] }
    const { asked } = await upstream({ input: 'Hi', tools: TWINS, tool_choice })
    expect(asked.tools.map((tool: { name: string }) => tool.name)).toEqual([name])
    if (allowed.type === 'namespace') return
    const forced = await upstream({ input: 'Hi', tools: TWINS, tool_choice: allowed })
    expect(forced.asked.tool_choice).toEqual({ type: 'function', name })
  })

  test.each([
    [{ tools: TOOLS, tool_choice: { type: 'function', name: 'no' } }],
    [{ tools: TOOLS, tool_choice: { type: 'custom', name: 'no' } }],
    [{ tools: TWINS, tool_choice: { type: 'function', name: 'read', namespace: 'no' } }],
    [{ tool_choice: { type: 'function', name: 'f' } }],
    [{ tool_choice: 'required' }],
  ])('that a request forces without having them are refused: %j', async (body) => {
    const { server, vendor: called } = await stage(vendor, fixtures(vendor, 'text'))
    const request = { model: 'vendor/m', input: 'Hi', ...body }
    const answer = await send(server, 'POST /v1/responses', request)
    expect([answer.status, json(answer).error.param]).toEqual([400, 'tool_choice'])
    expect(called.bodies).toEqual([])
  })

  test('that were all dropped need no choice', async () => {
    const { asked, ignored } = await upstream({
      input: 'Hi',
      tools: [{ type: 'web_search' }],
      tool_choice: 'required',
    })
    expect(asked.tool_choice).toBeUndefined()
    expect(ignored).toBe('tools[0] (web_search), tool_choice')
  })
})

test('parameters go to the provider, and come back in the response', async () => {
  const schema = { type: 'object', properties: {} }
  const { asked, ignored, response } = await upstream({
    input: 'Hi',
    max_output_tokens: 100,
    temperature: 0.5,
    top_p: 0.9,
    reasoning: { effort: 'xhigh', summary: 'auto' },
    text: { format: { type: 'json_schema', name: 'n', schema, strict: true }, verbosity: 'low' },
    metadata: { a: 'b' },
    prompt_cache_key: 'key',
    service_tier: 'flex',
    safety_identifier: 'u',
    frequency_penalty: 1,
    client_metadata: { x: 1 },
    unheard_of: true,
    nothing: null,
  })
  expect(asked).toMatchObject({ max_output_tokens: 100, temperature: 0.5, top_p: 0.9 })
  expect(asked.reasoning.effort).toBe('xhigh')
  expect(asked.text.format).toMatchObject({ type: 'json_schema', name: 'n', strict: true })
  expect(asked).toMatchObject({ text: { verbosity: 'low' }, service_tier: 'flex' })
  expect(asked).toMatchObject({ prompt_cache_key: 'key', safety_identifier: 'u' })
  expect(ignored).toBe('client_metadata, unheard_of, frequency_penalty')
  expect(response).toMatchObject({
    model: 'vendor/m',
    max_output_tokens: 100,
    metadata: { a: 'b' },
    prompt_cache_key: 'key',
    reasoning: { effort: 'xhigh', summary: 'auto' },
    safety_identifier: 'u',
    service_tier: 'flex',
    text: { verbosity: 'low' },
    // Only what was used.
    frequency_penalty: 0,
    store: true,
  })
})

test('what an unknown hint asks for is ignored', async () => {
  const { ignored } = await upstream({
    input: 'Hi',
    reasoning: { effort: 'extreme' },
    text: { format: { type: 'text' } },
  })
  expect(ignored).toBe('reasoning.effort')
})

test.each([
  [{ input: undefined }, 'input', 'invalid_value'],
  [{ input: [] }, 'input', 'invalid_value'],
  [{ model: undefined }, 'model', 'missing_required_parameter'],
  [{ input: [{ role: 'robot', content: 'x' }] }, 'input[0].role', 'invalid_value'],
  [{ input: [{ role: 'user' }] }, 'input[0].content', 'invalid_value'],
  [{ input: [{ role: 'user', content: ['x'] }] }, 'input[0].content[0]', 'invalid_type'],
  [
    { input: [{ role: 'user', content: [{ type: 'input_text' }] }] },
    'input[0].content[0].text',
    'missing_required_parameter',
  ],
  [
    { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'https://x/y.png' }] }] },
    'input[0].content[0].image_url',
    'invalid_value',
  ],
  [
    { input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] },
    'input[0].content[0].file_data',
    'invalid_value',
  ],
  [
    { input: [{ type: 'function_call', call_id: 1, name: 'f', arguments: '' }] },
    'input[0].call_id',
    'invalid_type',
  ],
  [{ input: [{ type: 'item_reference' }] }, 'input[0].id', 'invalid_value'],
  [{ conversation: 'conv_1' }, 'conversation', 'unsupported_parameter'],
  [{ prompt: { id: 'p' } }, 'prompt', 'unsupported_parameter'],
  [{ top_logprobs: 5 }, 'top_logprobs', 'unsupported_parameter'],
  [{ background: true, store: false }, 'background', 'invalid_value'],
  [{ previous_response_id: 'resp_none' }, 'previous_response_id', 'previous_response_not_found'],
  [{ previous_response_id: 'other' }, 'previous_response_id', 'previous_response_not_found'],
  [
    { text: { format: { type: 'json_schema' } } },
    'text.format.schema',
    'missing_required_parameter',
  ],
  [{ text: { format: { type: 'grammar' } } }, 'text.format.type', 'invalid_value'],
  [{ include: ['message.output_text.logprobs'] }, 'include', 'unsupported_parameter'],
  [{ n: 2 }, 'n', 'unsupported_parameter'],
  [{ modalities: ['audio'] }, 'modalities', 'unsupported_parameter'],
  [{ temperature: 'hot' }, 'temperature', 'invalid_type'],
])('%j is refused', async (body, param, code) => {
  const server = await startServer()
  const request = { model: 'plain/m', input: 'Hi', ...body }
  const answer = await send(server, 'POST /v1/responses', request)
  expect(answer.status).toBe(400)
  expect(json(answer).error).toMatchObject({ type: 'invalid_request_error', param, code })
})

test('an unknown model is 404', async () => {
  const answer = await send(await startServer(), 'POST /v1/responses', {
    model: 'x/y',
    input: 'Hi',
  })
  expect([answer.status, json(answer).error.code]).toEqual([404, 'model_not_found'])
})

const part = fc.oneof(
  fc.record({
    type: fc.constantFrom('input_text', 'output_text', 'refusal', 'x'),
    text: fc.string(),
  }),
  fc.anything(),
)
const item = fc.oneof(
  fc.record({
    role: fc.constantFrom('user', 'assistant', 'developer', 'x'),
    content: fc.oneof(fc.string(), fc.array(part)),
  }),
  fc.record(
    {
      type: fc.constantFrom(
        'function_call',
        'function_call_output',
        'custom_tool_call',
        'reasoning',
        'item_reference',
        'x',
      ),
      call_id: fc.oneof(fc.string(), fc.anything()),
      name: fc.string(),
      arguments: fc.string(),
      output: fc.oneof(fc.string(), fc.array(part)),
      id: fc.string(),
    },
    { requiredKeys: ['type'] },
  ),
  fc.object(),
)

test('any body gets an answer in OpenAI’s format, never a server error', async () => {
  const server = await startServer()
  const body = fc.record(
    {
      input: fc.oneof(fc.string(), fc.array(item, { maxLength: 5 })),
      tools: fc.array(fc.object()),
      tool_choice: fc.anything(),
      more: fc.anything(),
    },
    { requiredKeys: [] },
  )
  await fc.assert(
    fc.asyncProperty(body, async (fields) => {
      const answer = await send(server, 'POST /v1/responses', { model: 'plain/m', ...fields })
      expect(answer.status).toBeLessThan(500)
      if (answer.status !== 200)
        expect(json(answer).error).toHaveProperty('type', 'invalid_request_error')
    }),
    { numRuns: caseCount(200) },
  )
  expect(server.errors).toEqual([])
})

test('compaction is refused as unsupported, which is no fault of the server', async () => {
  const server = await startServer()
  const refused = await send(server, 'POST /v1/responses/compact', { model: 'plain/m' })
  expect(refused.status).toBe(501)
  expect(json(refused).error).toMatchObject({ type: 'server_error', code: 'unsupported' })
  expect(server.errors).toEqual([])
})

test('what a provider refuses is named as in this API', async () => {
  const { server } = await stage('openai-chat', fixtures('openai-chat', 'text'))
  const input = [{ type: 'function_call_output', call_id: 'c', output: 'x' }]
  const refused = await send(server, 'POST /v1/responses', { model: 'vendor/m', input })
  expect(refused.status).toBe(400)
  expect(json(refused).error).toMatchObject({ type: 'invalid_request_error', param: 'input' })
})

test.each(['', '-1', '1.5', 'x', '9'.repeat(20)])('an event cannot be “%s”', async (after) => {
  const server = await startServer()
  const { id } = json(await send(server, 'POST /v1/responses', { model: 'plain/m', input: 'Hi' }))
  const query = `stream=true&starting_after=${after}`
  const refused = await send(server, `GET /v1/responses/${id}?${query}`)
  expect(refused.status).toBe(400)
  expect(json(refused).error.param).toBe('starting_after')
})
