/** Parameters of each vendor's API, and what each vendor is then asked with. */
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import {
  createAnthropicMessagesProvider,
  createGeminiProvider,
  createOpenaiChatProvider,
  createOpenaiResponsesProvider,
} from '../../src/index.ts'
import { pollutingKey } from '../../src/server/request-body.ts'
import { startVendor } from '../providers/vendor-server.ts'
import { fixtures, stage, type VendorName } from './openai/stage.ts'
import { json, send } from './responses/support.ts'
import { startServer } from './support.ts'

const IGNORED = 'x-turnstream-ignored'

interface Door {
  readonly path: `POST /${string}`
  readonly ask: Record<string, unknown>
  /** Every hint, as clients of this API spell it. */
  readonly hints: Record<string, unknown>
}

const schema = { type: 'object', properties: {} }

const DOORS = {
  chat: {
    path: 'POST /v1/chat/completions',
    ask: { messages: [{ role: 'user', content: 'Hi', name: 'Ann' }] },
    hints: {
      max_completion_tokens: 99,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      stop: 'END',
      seed: 7,
      frequency_penalty: 1,
      presence_penalty: -1,
      logit_bias: { 50256: -100 },
      verbosity: 'low',
      service_tier: 'default',
      user: 'u',
      prompt_cache_key: 'k',
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema } },
      tools: [{ type: 'function', function: { name: 'f', strict: true } }],
      parallel_tool_calls: false,
    },
  },
  responses: {
    path: 'POST /v1/responses',
    ask: { input: 'Hi' },
    hints: {
      max_output_tokens: 99,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      stop: ['END'],
      seed: 7,
      frequency_penalty: 1,
      presence_penalty: -1,
      logit_bias: { 50256: -100 },
      text: { verbosity: 'low', format: { type: 'json_schema', name: 'n', schema } },
      service_tier: 'default',
      safety_identifier: 'u',
      prompt_cache_key: 'k',
      tools: [{ type: 'function', name: 'f', strict: true }],
      parallel_tool_calls: false,
    },
  },
  messages: {
    path: 'POST /v1/messages',
    ask: { messages: [{ role: 'user', content: 'Hi' }] },
    hints: {
      max_tokens: 99,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 5,
      stop_sequences: ['END'],
      seed: 7,
      frequency_penalty: 1,
      presence_penalty: -1,
      logit_bias: { 50256: -100 },
      verbosity: 'low',
      service_tier: 'standard_only',
      metadata: { user_id: 'u' },
      prompt_cache_key: 'k',
      output_config: { format: { type: 'json_schema', name: 'n', schema } },
      tools: [{ name: 'f', strict: true }],
      tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    },
  },
} satisfies Record<string, Door>

type DoorName = keyof typeof DOORS

/** What each vendor is asked with, whatever the API of the client. */
const UPSTREAM: Record<VendorName, object> = {
  'openai-responses': {
    max_output_tokens: 99,
    temperature: 0.5,
    top_p: 0.9,
    text: { verbosity: 'low', format: { type: 'json_schema', name: 'n', schema } },
    service_tier: 'default',
    safety_identifier: 'u',
    prompt_cache_key: 'k',
    tools: [{ type: 'function', name: 'f', parameters: schema, strict: true }],
    parallel_tool_calls: false,
  },
  'openai-chat': {
    max_completion_tokens: 99,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 5,
    stop: ['END'],
    seed: 7,
    frequency_penalty: 1,
    presence_penalty: -1,
    logit_bias: { 50256: -100 },
    verbosity: 'low',
    service_tier: 'default',
    user: 'u',
    prompt_cache_key: 'k',
    response_format: { type: 'json_schema', json_schema: { name: 'n', schema } },
    tools: [{ type: 'function', function: { name: 'f', parameters: schema, strict: true } }],
    parallel_tool_calls: false,
  },
  'anthropic-messages': {
    max_tokens: 99,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 5,
    stop_sequences: ['END'],
    service_tier: 'standard_only',
    metadata: { user_id: 'u' },
    output_config: { format: { type: 'json_schema', schema } },
    tools: [{ name: 'f', input_schema: schema, strict: true }],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  },
  gemini: {
    generationConfig: {
      maxOutputTokens: 99,
      temperature: 0.5,
      topP: 0.9,
      topK: 5,
      stopSequences: ['END'],
      seed: 7,
      frequencyPenalty: 1,
      presencePenalty: -1,
      responseMimeType: 'application/json',
      responseJsonSchema: schema,
    },
    tools: [{ functionDeclarations: [{ name: 'f', parametersJsonSchema: schema }] }],
  },
}

/** The rest of every request to a vendor. */
const REST: Record<VendorName, readonly string[]> = {
  'openai-responses': ['model', 'input', 'store', 'include', 'stream', 'tool_choice'],
  'openai-chat': ['model', 'messages', 'stream', 'stream_options', 'tool_choice'],
  'anthropic-messages': ['model', 'messages', 'stream'],
  gemini: ['contents', 'toolConfig'],
}

const SAMPLING = ['seed', 'frequency_penalty', 'presence_penalty']
const verbosity = (door: DoorName) => (door === 'responses' ? 'text.verbosity' : 'verbosity')
const STOP = { chat: 'stop', responses: 'stop', messages: 'stop_sequences' }
const STRICT = {
  chat: 'tools[].function.strict',
  responses: 'tools[].strict',
  messages: 'tools[].strict',
}
const USER = { chat: 'user', responses: 'safety_identifier', messages: 'metadata.user_id' }
const PARALLEL = {
  chat: 'parallel_tool_calls',
  responses: 'parallel_tool_calls',
  messages: 'tool_choice.disable_parallel_tool_use',
}

/** What the header names. */
const NAMED: Record<VendorName, (door: DoorName) => string[]> = {
  'openai-responses': (door) => [STOP[door], 'top_k', ...SAMPLING, 'logit_bias'],
  'openai-chat': () => [],
  'anthropic-messages': (door) => [...SAMPLING, 'logit_bias', verbosity(door), 'prompt_cache_key'],
  gemini: (door) => [
    STRICT[door],
    PARALLEL[door],
    'logit_bias',
    verbosity(door),
    'service_tier',
    USER[door],
    'prompt_cache_key',
  ],
}

const VENDOR_NAMES = Object.keys(UPSTREAM) as VendorName[]
const ALL = (Object.keys(DOORS) as DoorName[]).flatMap((door) =>
  VENDOR_NAMES.map((vendor) => [door, vendor] as const),
)

test.each(ALL)(
  '%s to %s passes on what the vendor has, and names the rest',
  async (door, vendor) => {
    const { path, ask, hints } = DOORS[door]
    const { server, asked } = await stage(vendor, fixtures(vendor, 'text'))
    const answer = await send(server, path, { model: 'vendor/m', ...ask, ...hints })
    expect([answer.status, answer.text]).toEqual([200, expect.anything()])
    const rest = Object.entries(asked()).filter(([name]) => !REST[vendor].includes(name))
    expect(Object.fromEntries(rest)).toEqual(UPSTREAM[vendor])
    const hasNames = vendor === 'openai-chat'
    const named = door === 'chat' && !hasNames ? ['messages[].name'] : []
    const header = answer.headers.get(IGNORED)?.split(', ') ?? []
    expect(header.toSorted()).toEqual([...named, ...NAMED[vendor](door)].toSorted())
    expect(JSON.stringify(asked()).includes('Ann')).toBe(door === 'chat' && hasNames)
  },
)

/** What the vendor is asked with instead of refusing a request, and the header. */
const CONFLICTS: [VendorName, body: object, upstream: object, ignored: string][] = [
  ['anthropic-messages', { temperature: 1.5 }, { max_tokens: 8192 }, 'temperature'],
  [
    'anthropic-messages',
    { response_format: { type: 'json_object' } },
    { max_tokens: 8192 },
    'response_format',
  ],
  [
    'anthropic-messages',
    { reasoning_effort: 'high', max_tokens: 5, temperature: 0.5 },
    { max_tokens: 5, temperature: 0.5 },
    'reasoning_effort',
  ],
  [
    'anthropic-messages',
    { reasoning_effort: 'low', top_p: 0.5, temperature: 0.5, top_k: 3 },
    { thinking: { type: 'enabled', budget_tokens: 2048 }, max_tokens: 10_240 },
    'temperature, top_p, top_k',
  ],
  [
    'anthropic-messages',
    {
      reasoning_effort: 'low',
      temperature: 0.5,
      tools: [{ type: 'function', function: { name: 'f' } }],
      tool_choice: 'required',
    },
    {
      temperature: 0.5,
      max_tokens: 8192,
      tools: [{ name: 'f', input_schema: schema }],
      tool_choice: { type: 'any' },
    },
    'reasoning_effort',
  ],
]

test.each(CONFLICTS)(
  '%s is asked for %j without what contradicts it',
  async (vendor, body, upstream, ignored) => {
    const { path, ask } = DOORS.chat
    const { server, asked } = await stage(vendor, fixtures(vendor, 'text'))
    const messages = [{ role: 'user', content: 'Hi' }]
    const answer = await send(server, path, { model: 'vendor/m', ...ask, messages, ...body })
    const rest = Object.entries(asked()).filter(([name]) => !REST[vendor].includes(name))
    expect(Object.fromEntries(rest)).toEqual(upstream)
    expect([answer.status, answer.headers.get(IGNORED)]).toEqual([200, ignored])
  },
)

test('a response has all fields of objects that lost some', async () => {
  const { server } = await stage('anthropic-messages', fixtures('anthropic-messages', 'text'))
  const { path, ask } = DOORS.responses
  const hints = { reasoning: { effort: 'low' }, text: { verbosity: 'low' }, max_output_tokens: 9 }
  const answer = await send(server, path, { model: 'vendor/m', ...ask, ...hints })
  expect(answer.headers.get(IGNORED)).toBe('reasoning.effort, text.verbosity')
  expect(json(answer)).toMatchObject({
    reasoning: { effort: null, summary: null },
    text: { format: { type: 'text' } },
  })
})

describe('a repeated request', () => {
  test.each(Object.values(DOORS))(
    'of $path gets the same turn and the same header',
    async (door) => {
      const { server, vendor } = await stage('gemini', fixtures('gemini', 'text'))
      const body = { model: 'vendor/m', ...door.ask, ...door.hints, foo: 1 }
      const key = { 'idempotency-key': 'key' }
      const first = await send(server, door.path, body, key)
      const second = await send(server, door.path, { ...body, stream: true }, key)
      for (const { status, headers } of [first, second]) {
        expect([status, headers.get('x-turn-id')]).toEqual([200, 'key'])
        expect(headers.get(IGNORED)).toBe(first.headers.get(IGNORED))
      }
      expect(first.headers.get(IGNORED)).toContain('foo')
      expect(vendor.bodies).toHaveLength(1)
    },
  )

  test('is another one if a dropped hint differs', async () => {
    const { server } = await stage('gemini', fixtures('gemini', 'text'))
    const { path, ask } = DOORS.chat
    const post = (verbosity: string) =>
      send(server, path, { model: 'vendor/m', ...ask, verbosity }, { 'idempotency-key': 'key' })
    expect((await post('low')).status).toBe(200)
    expect((await post('high')).status).toBe(409)
  })
})

test('a background response names what was ignored, and repeats only what was used', async () => {
  const { server } = await stage('gemini', fixtures('gemini', 'text'))
  const { path, ask, hints } = DOORS.responses
  const answer = await send(server, path, {
    ...{ model: 'vendor/m', ...ask, ...hints },
    ...{ background: true, service_tier: 'flex' },
  })
  expect(answer.headers.get(IGNORED)).toContain('service_tier')
  expect(json(answer)).toMatchObject({
    status: 'queued',
    frequency_penalty: 1,
    presence_penalty: -1,
    service_tier: 'default',
    safety_identifier: null,
    prompt_cache_key: null,
    parallel_tool_calls: true,
    text: { format: { type: 'json_schema' } },
    top_logprobs: 0,
  })
  expect(json(answer).text).not.toHaveProperty('verbosity')
})

const CALLS: Record<VendorName, string> = {
  'openai-chat': 'tool-call',
  'anthropic-messages': 'tool-call',
  'openai-responses': 'tool-call',
  gemini: 'function-call',
}

describe('functions in the older form', () => {
  const ASK = {
    model: 'vendor/m',
    messages: [{ role: 'user' as const, content: 'Hi' }],
    functions: [{ name: 'get_weather', parameters: schema }],
  }

  test.each(VENDOR_NAMES)('are answered in that form by %s', async (vendor) => {
    const { client, asked } = await stage(vendor, fixtures(vendor, CALLS[vendor]))
    const { choices } = await client.chat.completions.create(ASK)
    expect(JSON.stringify(asked())).toContain('get_weather')
    expect(choices[0]?.finish_reason).toBe('function_call')
    const { function_call: call, tool_calls } = choices[0]?.message ?? {}
    expect([call?.name, tool_calls]).toEqual([expect.any(String), undefined])
    expect(JSON.parse(call?.arguments ?? '')).toEqual(expect.any(Object))
    const streamed = { name: '', arguments: '', finish: '' }
    for await (const chunk of await client.chat.completions.create({ ...ASK, stream: true })) {
      const [choice] = chunk.choices
      expect(choice?.delta.tool_calls).toBeUndefined()
      streamed.name += choice?.delta.function_call?.name ?? ''
      streamed.arguments += choice?.delta.function_call?.arguments ?? ''
      streamed.finish += choice?.finish_reason ?? ''
    }
    expect(streamed).toEqual({ ...call, finish: 'function_call' })
  })
})

/** Any JSON value without keys that every route refuses, and text from anywhere. */
const anything = fc
  .jsonValue({ maxDepth: 3 })
  .filter((value) => pollutingKey(JSON.stringify(value)) === undefined)

/** Names that mean something are tried elsewhere. */
const unknownFields = fc.dictionary(
  fc.string({ minLength: 1, maxLength: 8 }).map((name) => `x_${name}`),
  anything,
  { maxKeys: 4 },
)

/** Adds fields to every object of a value. */
function sprinkle(value: unknown, fields: object): unknown {
  if (Array.isArray(value)) return value.map((each) => sprinkle(each, fields))
  if (typeof value !== 'object' || value === null) return value
  const inner = Object.entries(value).map(([name, each]) => [name, sprinkle(each, fields)])
  return { ...fields, ...Object.fromEntries(inner) }
}

interface Given extends Record<string, unknown> {
  readonly tools?: unknown[]
}

const unknownTool = fc
  .tuple(fc.constantFrom('web_search', 'x_2027', 7, null, true), unknownFields)
  .map(([type, fields]) => ({ ...fields, type }))

/** Each API answers any body like this, or with its own error. */
const SHAPES: Record<DoorName, (body: Record<string, unknown>) => unknown> = {
  chat: ({ error }) => error,
  responses: ({ error }) => error,
  messages: ({ type, error }) => type === 'error' && error,
}

async function fuzzServer() {
  const reply: Partial<Record<string, VendorName>> = {
    '/responses': 'openai-responses',
    '/v1/messages': 'anthropic-messages',
    '/chat/completions': 'openai-chat',
  }
  const vendor = await startVendor((response, request, count) =>
    fixtures(reply[request.url ?? ''] ?? 'gemini', 'text')(response, request, count),
  )
  onTestFinished(() => vendor.close())
  const options = (id: string) => ({ id, baseUrl: vendor.url, maxRetries: 0 })
  return startServer({
    more: [
      createOpenaiResponsesProvider(options('responses')),
      createAnthropicMessagesProvider(options('messages')),
      createGeminiProvider(options('gemini')),
      createOpenaiChatProvider(options('chat')),
    ],
  })
}

const model = fc.constantFrom('responses/m', 'messages/m', 'gemini/m', 'chat/m', 'plain/m')
const doorName = fc.constantFrom(...(Object.keys(DOORS) as DoorName[]))

test('unknown fields, tools and betas at any depth are never refused', async () => {
  const server = await fuzzServer()
  const subset = (hints: object) => fc.subarray(Object.entries(hints)).map(Object.fromEntries)
  const request = doorName.chain((door) =>
    fc.record({
      door: fc.constant(door),
      model,
      hints: subset(DOORS[door].hints),
      fields: unknownFields,
      tools: fc.array(unknownTool, { maxLength: 3 }),
      beta: fc.stringMatching(/^[a-z0-9-]{1,20}$/),
    }),
  )
  await fc.assert(
    fc.asyncProperty(request, async ({ door, model: asked, hints, fields, tools, beta }) => {
      const { path, ask } = DOORS[door]
      const given = { max_tokens: 50, ...hints }
      if (door !== 'messages' && 'max_completion_tokens' in given) given.max_tokens = 99
      const { logit_bias: _bias, metadata, tools: own = [], ...rest } = given as Given
      const body = {
        ...(sprinkle({ ...ask, ...rest }, fields) as object),
        ...(metadata !== undefined && { metadata }),
        model: asked,
        tools: [...(sprinkle(own, fields) as unknown[]), ...tools],
      }
      const answer = await send(server, path, body, { 'anthropic-beta': beta })
      expect([answer.status, answer.text]).toEqual([200, expect.anything()])
    }),
    { numRuns: caseCount(150) },
  )
  expect(server.errors).toEqual([])
}, 60_000)

test('any values of known parameters get an answer or an error in the vendor’s form', async () => {
  const server = await fuzzServer()
  const names = [...new Set(Object.values(DOORS).flatMap(({ hints }) => Object.keys(hints)))]
  const known = [
    ...names,
    'functions',
    'function_call',
    'reasoning',
    'thinking',
    'tool_choice',
    'n',
  ]
  const request = fc.record({
    door: doorName,
    model,
    fields: fc.dictionary(
      fc.constantFrom(...known, 'stream_options', 'include', 'format'),
      anything,
    ),
  })
  await fc.assert(
    fc.asyncProperty(request, async ({ door, model: asked, fields }) => {
      const { path, ask } = DOORS[door]
      const answer = await send(server, path, { max_tokens: 50, ...ask, ...fields, model: asked })
      expect([answer.status < 500, answer.text]).toEqual([true, expect.anything()])
      if (answer.status === 200) return
      expect([answer.status, answer.text]).toEqual([400, expect.anything()])
      expect(SHAPES[door](json(answer))).toMatchObject({ type: 'invalid_request_error' })
    }),
    { numRuns: caseCount(300) },
  )
  expect(server.errors).toEqual([])
}, 60_000)

test('a request with countless unknown fields has a short header', async () => {
  const { path, ask } = DOORS.chat
  const fields = Object.fromEntries(Array.from({ length: 4000 }, (_, at) => [`field-${at}`, at]))
  const server = await startServer()
  const answer = await send(server, path, { model: 'plain/m', ...ask, ...fields })
  expect(answer.status).toBe(200)
  expect(answer.headers.get(IGNORED)?.length).toBeLessThanOrEqual(1000)
})
