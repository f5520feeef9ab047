/** What the official client makes of each vendor, through `/v1/responses`. */
import { APIError } from 'openai'
import type { ResponseInput } from 'openai/resources/responses/responses'
import { describe, expect, test } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { clientOf, fixtures, stage, type VendorName } from '../openai/stage.ts'
import { PNG } from '../openai/vendor-forms.ts'
import { startServer } from '../support.ts'
import { framesOf, json, send } from './support.ts'

const ASK = { model: 'vendor/m', input: 'Hello' }
const TOOL = {
  type: 'function' as const,
  name: 'get_weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
  strict: false,
}

const TEXTS: [VendorName, string][] = [
  ['openai-responses', 'text'],
  ['anthropic-messages', 'text'],
  ['openai-chat', 'text'],
  ['gemini', 'text'],
]

describe.each(TEXTS)('%s', (vendor, name) => {
  test('streams, and gives the same response when it is retrieved or resumed', async () => {
    const { client, server } = await stage(vendor, fixtures(vendor, name))
    const streamed = await client.responses.stream(ASK).finalResponse()
    expect(streamed.status).toBe('completed')
    expect(streamed.output_text).not.toBe('')
    expect(streamed.usage?.total_tokens).toBeGreaterThan(0)
    const { output_text: _, output_parsed: __, ...rest } = streamed
    const stored = await send(server, `GET /v1/responses/${streamed.id}`)
    expect(withoutParsed(rest)).toEqual(json(stored))
    const whole = framesOf((await send(server, `GET ${pathOf(streamed.id)}?stream=true`)).text)
    expect(whole.at(-1)).toBe('data: [DONE]\n\n')
    for (const at of whole.keys()) {
      const query = at === 0 ? 'stream=true' : `stream=true&starting_after=${at - 1}`
      const resumed = await send(server, `GET ${pathOf(streamed.id)}?${query}`)
      expect(framesOf(resumed.text)).toEqual(whole.slice(at))
    }
    const late = await send(server, `GET ${pathOf(streamed.id)}?stream=true&starting_after=9999`)
    expect(late.text).toBe('data: [DONE]\n\n')
  })

  test('is resumed by the stream helper', async () => {
    const { client } = await stage(vendor, fixtures(vendor, name))
    const { id, output_text } = await client.responses.create(ASK)
    const seen: number[] = []
    const stream = client.responses.stream({ response_id: id, starting_after: 3 })
    stream.on('event', (event) => seen.push(event.sequence_number))
    expect((await stream.finalResponse()).output_text).toBe(output_text)
    expect(seen[0]).toBe(4)
  })

  test('continues a response with its tools', async () => {
    const { client, asked } = await stage(vendor, fixtures(vendor, callOf(vendor), name))
    const first = await client.responses.create({
      ...ASK,
      instructions: 'Be brief.',
      tools: [TOOL],
    })
    const call = first.output.find((item) => item.type === 'function_call')
    expect(call).toMatchObject({ name: 'get_weather', status: 'completed' })
    const second = await client.responses.create({
      model: 'vendor/m',
      previous_response_id: first.id,
      tools: [TOOL],
      input: [
        { type: 'function_call_output', call_id: call?.call_id ?? '', output: 'It is sunny.' },
      ],
    })
    expect(second.previous_response_id).toBe(first.id)
    const sent = JSON.stringify(asked())
    expect(sent).toContain('Hello')
    expect(sent).toContain('It is sunny.')
    expect(sent).toContain('get_weather')
    expect(JSON.stringify(asked(0))).toContain('Be brief.')
    expect(sent).not.toContain('Be brief.')
  })
})

function callOf(vendor: VendorName): string {
  return vendor === 'gemini' ? 'function-call' : 'tool-call'
}

function pathOf(id: string): `/${string}` {
  return `/v1/responses/${id}`
}

function withoutParsed(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, each: unknown) => (key.startsWith('parsed') ? undefined : each)),
  )
}

test('a background response is queued, polled and complete', async () => {
  const server = await startServer()
  const client = clientOf(server)
  const next = server.held.nextCall()
  const queued = await client.responses.create({ model: 'held/m', input: 'Hi', background: true })
  expect(queued).toMatchObject({ status: 'queued', background: true, output: [] })
  const running = await client.responses.retrieve(queued.id)
  expect(running.status).toBe('in_progress')
  const held = await next
  held.say('Hello')
  await eventually(async () => {
    const { output_text } = await client.responses.retrieve(queued.id)
    expect(output_text).toBe('Hello')
  })
  held.finish()
  await eventually(async () => {
    expect((await client.responses.retrieve(queued.id)).status).toBe('completed')
  })
})

test('a background stream starts before the provider answers', async () => {
  const server = await startServer()
  const next = server.held.nextCall()
  const body = { model: 'held/m', input: 'Hi', background: true, stream: true } as const
  const stream = await clientOf(server).responses.create(body)
  const types: string[] = []
  for await (const event of stream) {
    types.push(event.type)
    if (event.type === 'response.in_progress') (await next).finish()
  }
  expect(types.slice(0, 2)).toEqual(['response.created', 'response.in_progress'])
  expect(types.at(-1)).toBe('response.completed')
})

test('a cancelled response ends its streams, and cancelling it again changes nothing', async () => {
  const server = await startServer()
  const client = clientOf(server)
  const next = server.held.nextCall()
  const { id } = await client.responses.create({ model: 'held/m', input: 'Hi', background: true })
  ;(await next).say('Half')
  const following = client.responses.stream({ response_id: id }).finalResponse()
  const cancelled = await client.responses.cancel(id)
  expect(cancelled).toMatchObject({
    status: 'cancelled',
    incomplete_details: { reason: 'cancelled' },
  })
  expect((await following).status).toBe('cancelled')
  expect(await client.responses.cancel(id)).toEqual(cancelled)
})

test.each([true, false])(
  'a response that is cancelled before its output is cancelled, not an error (stream: %s)',
  async (stream) => {
    const server = await startServer()
    const next = server.held.nextCall()
    const body = { model: 'held/m', input: 'Hi', stream }
    const asking = send(server, 'POST /v1/responses', body, { 'idempotency-key': 'key' })
    await next
    await send(server, 'POST /v1/responses/resp_key/cancel')
    const answer = await asking
    expect(answer.status).toBe(200)
    const frames = framesOf(answer.text)
    if (stream) expect(frames.at(-2)).toMatch(/^event: response\.incomplete\n/)
    expect(answer.text).toContain('"status":"cancelled"')
  },
)

test('a stream that ends before its turn ends with an error and response.failed', async () => {
  const server = await startServer()
  const next = server.held.nextCall()
  const body = { model: 'held/m', input: 'Hi', stream: true }
  const streaming = send(server, 'POST /v1/responses', body, { 'idempotency-key': 'key' })
  ;(await next).say('Half')
  await eventually(async () => {
    const { output } = json(await send(server, 'GET /v1/responses/resp_key'))
    expect(output).toHaveLength(1)
  })
  await send(server, 'DELETE /v1/responses/resp_key')
  const frames = framesOf((await streaming).text)
  expect(frames.at(-1)).toBe('data: [DONE]\n\n')
  const events = frames.slice(0, -1).map((frame) => json({ text: frame.split('data: ')[1] ?? '' }))
  expect(events.map((event) => event.sequence_number)).toEqual([...events.keys()])
  expect(events.slice(-2)).toMatchObject([
    { type: 'error', error: { type: 'server_error', param: null } },
    { type: 'response.failed', response: { id: 'resp_key', status: 'failed', error: {} } },
  ])
})

test('encrypted reasoning can be included when a response is retrieved', async () => {
  const vendor = 'openai-responses'
  const { client, server } = await stage(vendor, fixtures(vendor, 'reasoning-silent'))
  const { id } = await client.responses.create(ASK)
  const isEncrypted = (text: string) => text.includes('"encrypted_content":"')
  const include = ['reasoning.encrypted_content' as const]
  const found = await client.responses.retrieve(id, { include })
  expect(isEncrypted(JSON.stringify(found))).toBe(true)
  for (const [query, expected] of [
    ['', false],
    ['?include=reasoning.encrypted_content', true],
    ['?include=x&include=reasoning.encrypted_content', true],
    ['?include=x', false],
    ['?stream=true', false],
    ['?stream=true&include=reasoning.encrypted_content', true],
  ] as const) {
    const { text } = await send(server, `GET ${pathOf(id)}${query}`)
    expect([query, isEncrypted(text)]).toEqual([query, expected])
  }
})

test('a deleted response is gone', async () => {
  const server = await startServer()
  const client = clientOf(server)
  const { id } = await client.responses.create({ model: 'plain/m', input: 'Hi' })
  expect(json(await send(server, `DELETE ${pathOf(id)}`))).toEqual({
    id,
    object: 'response',
    deleted: true,
  })
  const gone = await send(server, `GET ${pathOf(id)}`)
  expect([gone.status, json(gone).error.code]).toEqual([404, null])
  expect((await send(server, `DELETE ${pathOf(id)}`)).status).toBe(404)
})

test('a deleted response takes the title of its thread with it, unless the thread goes on', async () => {
  const server = await startServer()
  const client = clientOf(server)
  const { id } = await client.responses.create({ model: 'plain/m', input: 'My secret' })
  const next = { model: 'plain/m', input: 'More', previous_response_id: id }
  const { id: second } = await client.responses.create(next)
  const titles = async () => {
    const { threads } = json(await send(server, 'GET /api/v2/threads'))
    return threads.map(({ title }: { title?: string }) => title)
  }
  expect(await titles()).toEqual(['My secret'])
  await client.responses.delete(id)
  expect(await titles()).toEqual(['My secret'])
  await client.responses.delete(second)
  expect(await titles()).toEqual([undefined])
})

test('a running response that is deleted stops its provider', async () => {
  const server = await startServer()
  const client = clientOf(server)
  const next = server.held.nextCall()
  const { id } = await client.responses.create({ model: 'held/m', input: 'Hi', background: true })
  const { signal } = await next
  await client.responses.delete(id)
  await eventually(() => expect(signal.aborted).toBe(true))
})

test.each(['resp_unknown', 'unknown'])('%s is not found', async (id) => {
  const server = await startServer()
  for (const path of ['', '/input_items', '?stream=true'] as const) {
    const { status, text } = await send(server, `GET /v1/responses/${id}${path}`)
    expect(status).toBe(404)
    expect(JSON.parse(text)).toMatchObject({
      error: { type: 'invalid_request_error', param: null, code: null },
    })
  }
})

test('the input is listed in pages, without the instructions', async () => {
  const server = await startServer()
  const client = clientOf(server)
  const image_url = `data:image/png;base64,${PNG}`
  const { id } = await client.responses.create({
    model: 'plain/m',
    instructions: 'Be brief.',
    tools: [{ type: 'custom', name: 'patch' }],
    input: [
      { role: 'user', content: 'One' },
      { role: 'assistant', content: 'Two' },
      { type: 'custom_tool_call', call_id: 'c', name: 'patch', input: 'x' },
      { type: 'custom_tool_call_output', call_id: 'c', output: 'done' },
      { role: 'user', content: [{ type: 'input_image', image_url, detail: 'auto' }] },
    ],
  })
  const items = []
  for await (const item of client.responses.inputItems.list(id, { limit: 2, order: 'asc' })) {
    items.push(item)
  }
  expect(items).toMatchObject([
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'One' }] },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Two' }] },
    { type: 'custom_tool_call', name: 'patch', input: 'x' },
    { type: 'function_call_output', call_id: 'c', output: 'done' },
    { type: 'message', content: [{ type: 'input_image', image_url }] },
  ])
  const [newest] = (await client.responses.inputItems.list(id)).data
  expect(newest).toEqual(items.at(-1))
  const wrong = await send(server, `GET ${pathOf(id)}/input_items?after=nothing`)
  expect([wrong.status, json(wrong).error.param]).toEqual([400, 'after'])
})

test('items of earlier responses are found by id', async () => {
  const vendor = 'openai-responses'
  const { client, asked } = await stage(vendor, fixtures(vendor, 'reasoning-tool-call', 'text'))
  const first = await client.responses.create({ ...ASK, tools: [TOOL] })
  const references = first.output.map(({ id }) => ({
    type: 'item_reference' as const,
    id: id ?? '',
  }))
  const call = first.output.find((item) => item.type === 'function_call')
  await client.responses.create({
    model: 'vendor/m',
    input: [
      { role: 'user', content: 'Hello' },
      ...references,
      { type: 'function_call_output', call_id: call?.call_id ?? '', output: 'Sunny' },
    ],
  })
  expect(asked().input.map(({ type }: { type: string }) => type)).toEqual([
    'message',
    ...first.output.map(({ type }) => type),
    'function_call_output',
  ])
  const lost = client.responses.create({
    model: 'vendor/m',
    input: [{ type: 'item_reference', id: 'msg_nothing_1' }],
  })
  await expect(lost).rejects.toMatchObject({ status: 400, param: 'input[0].id' })
})

test('encrypted reasoning goes back to OpenAI as it came', async () => {
  const vendor = 'openai-responses'
  const { client, asked } = await stage(vendor, fixtures(vendor, 'reasoning-silent', 'text'))
  const include = ['reasoning.encrypted_content' as const]
  const first = await client.responses.create({ ...ASK, include, store: false })
  const reasoning = first.output.find((item) => item.type === 'reasoning')
  expect(reasoning?.encrypted_content).toEqual(expect.any(String))
  const output = first.output as ResponseInput
  const input: ResponseInput = [{ role: 'user', content: 'Hello' }, ...output]
  await client.responses.create({ model: 'vendor/m', input, include, store: false })
  const sent = asked().input.find(({ type }: { type: string }) => type === 'reasoning')
  expect(sent.encrypted_content).toBe(reasoning?.encrypted_content)
})

describe('a failed turn', () => {
  test('before the first output has the status of the provider', async () => {
    const { client } = await stage('openai-chat', (response) => {
      response.writeHead(429, { 'retry-after': '7' }).end('{}')
    })
    for (const stream of [true, false]) {
      const failing = client.responses.create({ ...ASK, stream })
      await expect(failing).rejects.toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
    }
  })

  test('in the middle is an error in the stream, and the response says failed', async () => {
    const vendor = 'openai-responses'
    const { client, server } = await stage(vendor, fixtures(vendor, 'truncated-in-text'))
    let id = ''
    const stream = client.responses.stream(ASK)
    stream.on('response.created', (event) => {
      id = event.response.id
    })
    await expect(stream.finalResponse()).rejects.toBeInstanceOf(APIError)
    expect(json(await send(server, `GET ${pathOf(id)}`))).toMatchObject({
      status: 'failed',
      error: { code: 'UPSTREAM_TRUNCATED' },
      output: [{ status: 'incomplete' }],
    })
  })
})

test('the input tokens are estimated', async () => {
  const server = await startServer()
  const body = { model: 'plain/m', input: 'x'.repeat(400), tools: [TOOL] }
  const { input_tokens } = json(await send(server, 'POST /v1/responses/input_tokens', body))
  expect(input_tokens).toBeGreaterThan(100)
  expect(input_tokens).toBeLessThan(200)
})

test('the input tokens of an invalid request are refused', async () => {
  const body = { model: 'plain/m', input: 'Hi', previous_response_id: 7 }
  const refused = await send(await startServer(), 'POST /v1/responses/input_tokens', body)
  expect(refused.status).toBe(400)
  expect(json(refused).error).toMatchObject({ param: 'previous_response_id' })
})

describe('reasoning text', () => {
  const ASK_STREAM = { model: 'vendor/m', input: 'Hi', stream: true }
  const OPENAI = 'event: response.reasoning_text.delta\n'
  const OPEN_RESPONSES = 'event: response.reasoning.delta\n'

  test.each([
    [false, '', OPENAI],
    [false, '?dialect=open-responses', OPEN_RESPONSES],
    [true, '', OPEN_RESPONSES],
    [true, '?dialect=openai', OPENAI],
  ])('with openResponses: %s and the query %j is %j', async (openResponses, query, name) => {
    const answer = fixtures('openai-chat', 'reasoning-content')
    const { server } = await stage('openai-chat', answer, { openResponses })
    const whole = await send(server, `POST /v1/responses${query}`, ASK_STREAM)
    expect(whole.text).toContain(name)
    expect(whole.text).not.toContain(name === OPENAI ? OPEN_RESPONSES : OPENAI)
    const id = /"id":"(resp_[^"]+)"/.exec(whole.text)?.[1] ?? ''
    const parameters = new URLSearchParams(query)
    parameters.set('stream', 'true')
    parameters.set('starting_after', '2')
    const rest = await send(server, `GET ${pathOf(id)}?${parameters}`)
    expect(framesOf(rest.text)).toEqual(framesOf(whole.text).slice(3))
  })

  test('of an unknown dialect is refused', async () => {
    const server = await startServer()
    const answer = await send(server, 'POST /v1/responses?dialect=x', ASK_STREAM)
    expect([answer.status, json(answer).error.param]).toEqual([400, 'dialect'])
  })
})

describe('in a silent stream', () => {
  test.each([
    [
      { originator: 'codex_exec' },
      'event: keepalive\ndata: {"type":"keepalive","sequence_number":1}',
    ],
    [{ 'user-agent': 'codex_cli_rs/0.1' }, 'event: keepalive'],
    [{}, ': heartbeat'],
  ])('a client with %j gets %s', async (headers, expected) => {
    const server = await startServer({ heartbeatMs: 5 })
    const next = server.held.nextCall()
    const leave = new AbortController()
    const { body } = await fetch(`${server.url}/v1/responses`, {
      method: 'POST',
      signal: leave.signal,
      headers: { 'content-type': 'application/json', ...headers } as Record<string, string>,
      body: JSON.stringify({ model: 'held/m', input: 'Hi', stream: true, background: true }),
    })
    await next
    let read = ''
    for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      read += chunk
      if (read.includes(expected)) break
    }
    leave.abort()
    expect(read).toContain(expected)
  })
})

test('a server that closes says that the stream is not complete', async () => {
  const server = await startServer()
  const next = server.held.nextCall()
  const body = { model: 'held/m', input: 'Hi', stream: true, background: true }
  const reading = send(server, 'POST /v1/responses', body)
  await next
  await server.close()
  const { text } = await reading
  expect(text).toMatch(/event: error\n[^\n]*"code":"[A-Z_]+"/)
})
