/** What the official client makes of each vendor, through a gateway. */
import OpenAI, { APIError } from 'openai'
import { describe, expect, test } from 'vitest'
import { STOP } from '../../providers/http-support.ts'
import { sse } from '../../providers/vendor-server.ts'
import { sealed } from '../support.ts'
import { ASK, fixture, fixtures, HELLO, stage, VENDORS, type VendorName } from './stage.ts'
import { IMAGES, PNG, SETTINGS } from './vendor-forms.ts'

interface Row {
  readonly text: string
  readonly calls: string
  readonly reasoning: string
  readonly length: string
  readonly refusal: string
  readonly broken: string
  readonly truncated: string
  /** What these come to. */
  readonly said: Record<'text' | 'reasoning' | 'length' | 'truncated', string>
  readonly called: readonly [id: string, name: string, args: string][]
}

const ROWS: Record<(typeof VENDORS)[number], Row> = {
  'openai-responses': {
    text: 'text',
    calls: 'tool-calls-parallel',
    reasoning: 'reasoning-summary',
    length: 'incomplete-length',
    refusal: 'refusal',
    broken: 'error-in-tool-call',
    truncated: 'truncated-in-text',
    said: {
      text: 'Hello, wörld 👋!',
      reasoning: '42',
      length: 'Once upon a ti',
      truncated: 'Hello, ',
    },
    called: [
      ['call_1', 'get_weather', '{"city":"Oslo"}'],
      ['call_2', 'get_time', '{"zone":11}'],
    ],
  },
  'anthropic-messages': {
    text: 'text',
    calls: 'tool-call',
    reasoning: 'thinking',
    length: 'max-tokens',
    refusal: 'refusal',
    broken: 'error-overloaded',
    truncated: 'truncated-in-text',
    said: { text: '', reasoning: '4', length: 'This goes on and', truncated: 'I was say' },
    called: [],
  },
  'openai-chat': {
    text: 'text',
    calls: 'parallel-calls-interleaved',
    reasoning: 'reasoning-content',
    length: 'length',
    refusal: 'refusal',
    broken: 'error-in-a-call',
    truncated: 'truncated-text',
    said: {
      text: 'Hello, wörld 🌍.',
      reasoning: 'Hi there',
      length: 'Once upon a',
      truncated: 'Half an ans',
    },
    called: [
      ['call_a', 'get_weather', '{"city":"Rome"}'],
      ['call_b', 'get_time', '{"zone":"UTC"}'],
    ],
  },
}

async function failure(asked: Promise<unknown>): Promise<APIError> {
  const error = await asked.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof APIError) return error
  throw new Error(`no APIError but ${String(error)}`)
}

describe.each(VENDORS)("OpenAI's client with %s", (vendor) => {
  const row = ROWS[vendor]

  test('gets a complete answer', async () => {
    const { client } = await stage(vendor, fixtures(vendor, row.text))
    const { data, response } = await client.chat.completions.create(ASK).withResponse()
    const turnId = response.headers.get('x-turn-id')
    expect(data).toMatchObject({ id: `chatcmpl-${turnId}`, model: 'vendor/m' })
    expect(Math.abs(data.created - Date.now() / 1000)).toBeLessThan(3600)
    expect(data.choices[0]).toMatchObject({ index: 0, finish_reason: 'stop' })
    if (row.said.text !== '') expect(data.choices[0]?.message.content).toBe(row.said.text)
    expect(data.usage?.total_tokens).toBeGreaterThan(0)
  })

  test('gets the same answer as a stream with stable ids and no usage by default', async () => {
    const { client } = await stage(vendor, fixtures(vendor, row.text))
    const whole = await client.chat.completions.create(ASK)
    const stream = await client.chat.completions.create({ ...ASK, stream: true })
    const chunks: OpenAI.ChatCompletionChunk[] = []
    for await (const chunk of stream) chunks.push(chunk)
    expect(new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`)).size).toBe(
      1,
    )
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' })
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(
      whole.choices[0]?.message.content,
    )
    expect(chunks.some((chunk) => 'usage' in chunk)).toBe(false)
  })

  test('assembles a stream with its own helper, with usage', async () => {
    const { client } = await stage(vendor, fixtures(vendor, row.text))
    const whole = await client.chat.completions.create(ASK)
    const stream_options = { include_usage: true }
    const stream = client.chat.completions.stream({ ...ASK, stream_options })
    const deltas: string[] = []
    stream.on('content', (delta) => deltas.push(delta))
    const message = await stream.finalMessage()
    expect(message.content).toBe(whole.choices[0]?.message.content)
    expect(deltas.join('')).toBe(message.content)
    expect(await stream.totalUsage()).toMatchObject({ total_tokens: whole.usage?.total_tokens })
  })

  test('gets parallel calls, each complete', async () => {
    const { client } = await stage(vendor, fixtures(vendor, row.calls))
    const whole = await client.chat.completions.create(ASK)
    const streamed = await client.chat.completions.stream(ASK).finalChatCompletion()
    const calls = whole.choices[0]?.message.tool_calls ?? []
    expect(calls.length).toBeGreaterThan(0)
    const told = calls.map((call) =>
      call.type === 'function' ? [call.id, call.function.name, call.function.arguments] : [],
    )
    if (row.called.length > 0) expect(told).toEqual(row.called)
    expect(streamed.choices[0]?.message.tool_calls).toMatchObject(calls)
    expect(whole.choices[0]?.finish_reason).toBe('tool_calls')
    expect(streamed.choices[0]?.finish_reason).toBe('tool_calls')
  })

  test.each([true, false])('runs tools to the end, streamed: %s', async (stream) => {
    const {
      client,
      asked,
      vendor: server,
    } = await stage(vendor, fixtures(vendor, row.calls, row.text))
    const ran: string[] = []
    const names = await namesOf(vendor, row.calls)
    const tools = names.map((name) => ({
      type: 'function' as const,
      function: {
        name,
        description: name,
        parameters: { type: 'object' },
        function: (args: string) => {
          ran.push(`${name} ${args}`)
          return `answer of ${name}`
        },
      },
    }))
    const runner = stream
      ? client.chat.completions.runTools({ ...ASK, tools, stream: true })
      : client.chat.completions.runTools({ ...ASK, tools })
    const content = await runner.finalContent()
    expect(content).not.toBe('')
    expect(ran.length).toBeGreaterThan(0)
    expect(server.bodies).toHaveLength(2)
    const second = JSON.stringify(asked())
    for (const each of ran) expect(second).toContain(`answer of ${each.split(' ')[0]}`)
    // The calls come back to the vendor before their answers, in the order in which they were made.
    expect(second.indexOf('Hello')).toBeLessThan(second.indexOf('answer of'))
  })

  test('gets the reasoning of the model', async () => {
    const { client } = await stage(vendor, fixtures(vendor, row.reasoning))
    const { choices } = await client.chat.completions.create(ASK)
    const message = choices[0]?.message as { content: string; reasoning_content?: string }
    expect(message.content).toBe(row.said.reasoning)
    expect(message.reasoning_content).toMatch(/\w/)
    const stream = await client.chat.completions.create({ ...ASK, stream: true })
    let reasoning = ''
    for await (const {
      choices: [choice],
    } of stream) {
      reasoning += (choice?.delta as { reasoning_content?: string })?.reasoning_content ?? ''
    }
    expect(reasoning).toBe(message.reasoning_content)
  })

  test('gets finish_reason length for a truncated answer', async () => {
    const { client } = await stage(vendor, fixtures(vendor, row.length))
    const { choices } = await client.chat.completions.create(ASK)
    expect(choices[0]).toMatchObject({
      finish_reason: 'length',
      message: { content: row.said.length },
    })
  })

  test('gets an error for a refusal and never an empty answer', async () => {
    const { client } = await stage(vendor, fixtures(vendor, row.refusal))
    const { choices } = await client.chat.completions.create(ASK)
    const { message, finish_reason } = choices[0] ?? {}
    if (message?.refusal) expect(finish_reason).toBe('stop')
    else expect(finish_reason).toBe('content_filter')
  })

  test.each(['broken', 'truncated'] as const)('throws when the answer is %s', async (how) => {
    const { client } = await stage(vendor, fixtures(vendor, row[how]))
    const stream = await client.chat.completions.create({ ...ASK, stream: true })
    let text = ''
    const error = await failure(
      (async () => {
        for await (const { choices } of stream) text += choices[0]?.delta.content ?? ''
      })(),
    )
    if (how === 'truncated') {
      expect(text).toBe(row.said.truncated)
      expect(error.code).toBe('UPSTREAM_TRUNCATED')
    }
    const whole = await failure(client.chat.completions.create(ASK))
    expect(whole.status).toBeGreaterThanOrEqual(429)
    expect(whole.code).toBe(error.code)
  })

  test("sends images in the vendor's format, also in later turns", async () => {
    const { client, asked, server } = await stage(vendor, fixtures(vendor, row.text))
    const url = `data:image/png;base64,${PNG}`
    const content = [
      { type: 'text' as const, text: 'What is this?' },
      { type: 'image_url' as const, image_url: { url } },
    ]
    const messages = [{ role: 'user' as const, content }]
    const { response } = await client.chat.completions.create({ ...ASK, messages }).withResponse()
    expect(JSON.stringify(asked())).toContain(JSON.stringify(IMAGES[vendor]).slice(1, -1))
    const threadId = response.headers.get('x-thread-id') ?? ''
    const turnId = response.headers.get('x-turn-id') ?? ''
    await sealed(server.log, turnId)
    const next = await fetch(`${server.url}/xapi/threads/${threadId}/turn`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'And now?', model: 'vendor/m' }),
    })
    await next.text()
    const again = JSON.stringify(asked())
    expect(again).toContain(JSON.stringify(IMAGES[vendor]).slice(1, -1))
    expect(again.indexOf('What is this?')).toBeLessThan(again.indexOf('And now?'))
  })

  test("sends a response schema, tools and settings in the vendor's format", async () => {
    const { client, asked } = await stage(vendor, fixtures(vendor, row.text))
    const schema = { type: 'object', properties: { n: { type: 'number' } } }
    await client.chat.completions.create({
      ...ASK,
      messages: [{ role: 'developer', content: 'Be short.' }, ...HELLO],
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema } },
      tools: [{ type: 'function', function: { name: 'f', parameters: schema, strict: true } }],
      tool_choice: 'auto',
      parallel_tool_calls: false,
      max_tokens: 100,
      temperature: 0.5,
      top_p: 0.9,
    })
    expect(asked()).toMatchObject(SETTINGS[vendor](schema))
    expect(JSON.stringify(asked())).toContain('Be short.')
  })
})

/** The names of the tools that a fixture calls. */
async function namesOf(vendor: VendorName, name: string): Promise<string[]> {
  const names = fixture(vendor, name).matchAll(/"name":"(\w+)"/g)
  return [...new Set(Array.from(names, ([, each = '']) => each))]
}

test('parses a strict structured answer', async () => {
  const text = '{"model":"m","choices":[{"index":0,"delta":{"content":"{\\"n\\":1}"}}]}'
  const { client, asked } = await stage('openai-chat', sse(text, STOP))
  const schema = { type: 'object', properties: { n: { type: 'number' } } }
  const json_schema = { name: 'n', schema, strict: true }
  const { choices } = await client.chat.completions.parse({
    ...ASK,
    response_format: { type: 'json_schema', json_schema },
  })
  expect(choices[0]?.message.parsed).toEqual({ n: 1 })
  expect(asked()).toMatchObject({ response_format: { json_schema } })
})
