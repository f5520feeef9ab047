/** What the official client makes of each vendor, through `/v1/messages`. */

import Anthropic, { APIError } from '@anthropic-ai/sdk'
import { describe, expect, test } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { fail, open, responseDone, start } from '../../../../core/test/processor/events.ts'
import { createScriptedProvider } from '../../../src/index.ts'
import { fixtures, stage, type VendorName } from '../openai/stage.ts'
import { json, send } from '../responses/support.ts'
import { startServer } from '../support.ts'

const ASK = {
  model: 'vendor/m',
  max_tokens: 1000,
  messages: [{ role: 'user' as const, content: 'Hello' }],
}
const TOOL = {
  name: 'get_weather',
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' } } },
}
const VENDORS: VendorName[] = ['openai-responses', 'anthropic-messages', 'openai-chat', 'gemini']

function clientOf({ url }: { readonly url: string }): Anthropic {
  return new Anthropic({ apiKey: 'any', baseURL: url, maxRetries: 0 })
}

describe.each(VENDORS)('%s', (vendor) => {
  test('streams, and gives the same message when it is not streamed or retrieved', async () => {
    const { server } = await stage(vendor, fixtures(vendor, 'text'))
    const client = clientOf(server)
    const streamed = await client.messages.stream(ASK).finalMessage()
    expect(streamed).toMatchObject({
      role: 'assistant',
      stop_reason: 'end_turn',
      model: 'vendor/m',
    })
    const { content, usage } = await client.messages.create(ASK)
    expect(content).toEqual(streamed.content)
    expect(usage).toMatchObject(streamed.usage)
    const stored = json(await send(server, `GET /v1/messages/${streamed.id}`))
    expect(stored.content).toEqual(streamed.content)
  })

  test('runs the tools of the client', async () => {
    const call = vendor === 'gemini' ? 'function-call' : 'tool-call'
    const { server, asked } = await stage(vendor, fixtures(vendor, call, 'text'))
    const client = clientOf(server)
    const first = await client.messages.stream({ ...ASK, tools: [TOOL] }).finalMessage()
    expect(first.stop_reason).toBe('tool_use')
    const use = first.content.find((block) => block.type === 'tool_use')
    await client.messages.create({
      ...ASK,
      tools: [TOOL],
      messages: [
        ...ASK.messages,
        { role: 'assistant', content: first.content },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'And then?' },
            { type: 'tool_result', tool_use_id: use?.id ?? '', content: 'It is sunny.' },
          ],
        },
      ],
    })
    const sent = JSON.stringify(asked())
    for (const text of ['Hello', 'It is sunny.', 'And then?']) expect(sent).toContain(text)
  })
})

test('thinking goes back to Anthropic with its signature', async () => {
  const vendor = 'anthropic-messages'
  const { server, asked } = await stage(vendor, fixtures(vendor, 'thinking', 'text'))
  const client = clientOf(server)
  const thinking = { type: 'enabled' as const, budget_tokens: 2048 }
  const first = await client.messages.create({ ...ASK, max_tokens: 8000, thinking })
  const block = first.content.find(({ type }) => type === 'thinking')
  expect(block).toHaveProperty('signature', expect.stringMatching(/./))
  expect(asked().thinking).toMatchObject({ type: 'enabled' })
  const messages = [...ASK.messages, { role: 'assistant' as const, content: first.content }]
  await client.messages.create({
    ...ASK,
    messages: [...messages, { role: 'user', content: 'Go on.' }],
  })
  expect(asked().messages[1].content[0]).toEqual(block)
})

test('a failure before the first output has its status, and one in the middle is an event', async () => {
  const failing = await stage('openai-chat', (response) => {
    response.writeHead(503).end('{}')
  })
  for (const stream of [true, false]) {
    const failure: unknown = await clientOf(failing.server)
      .messages.create({ ...ASK, stream })
      .catch((error: unknown) => error)
    expect(failure).toMatchObject({ status: 529, error: { error: { type: 'overloaded_error' } } })
    expect((failure as APIError).requestID).toEqual(expect.any(String))
  }
  const cut = await stage('anthropic-messages', fixtures('anthropic-messages', 'truncated-in-text'))
  const reading = clientOf(cut.server).messages.stream(ASK).finalMessage()
  await expect(reading).rejects.toBeInstanceOf(APIError)
})

test('a client that joins late gets what was said so far, then the rest', async () => {
  const server = await startServer()
  const next = server.held.nextCall()
  const body = { ...ASK, model: 'held/m' }
  const whole = clientOf(server).messages.stream(body)
  const finished = whole.finalMessage()
  const held = await next
  held.say('Hel')
  held.say('lo')
  const id = await new Promise<string>((resolve) => {
    whole.on('streamEvent', (_, { id }) => resolve(id))
  })
  await eventually(async () => {
    const [block] = json(await send(server, `GET /v1/messages/${id}`)).content
    expect(block).toEqual({ type: 'text', text: 'Hello' })
  })
  const joined = await fetch(`${server.url}/v1/messages/${id}?stream=true`)
  let text = ''
  for await (const chunk of joined.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    if (text === '') held.say(', world')
    text += chunk
    if (text.includes('world') && !text.includes('message_stop')) held.finish()
  }
  const deltas = [...text.matchAll(/"text":"([^"]+)"/g)].map(([, delta]) => delta)
  expect(deltas).toEqual(['Hello', ', world'])
  expect((await finished).content).toEqual([{ type: 'text', text: 'Hello, world' }])
  const late = await send(server, `GET /v1/messages/${id}?stream=true`)
  expect(late.text).toContain('"text":"Hello, world"')
  expect(late.text).toContain('event: message_stop')
})

test('a message that was cut is retrieved as far as it came, with the error', async () => {
  const server = await startServer()
  const next = server.held.nextCall()
  const body = { ...ASK, model: 'held/m', stream: true }
  const streaming = send(server, 'POST /v1/messages', body, { 'idempotency-key': 'key' })
  ;(await next).say('Half')
  await eventually(async () => {
    expect(json(await send(server, 'GET /v1/messages/msg_key')).content).toHaveLength(1)
  })
  await send(server, 'POST /v1/responses/resp_key/cancel')
  await streaming
  const answer = await send(server, 'GET /v1/messages/msg_key')
  expect(answer.status).toBe(200)
  expect(json(answer)).toMatchObject({
    content: [{ type: 'text', text: 'Half' }],
    stop_reason: null,
    error: { type: 'api_error', message: expect.stringContaining('stopped') },
  })
})

test('a call that failed is reported with its own code', async () => {
  const opened = open('b', { item_type: 'function_call', call_id: 'c', name: 'f' })
  const turn = [start(), opened, fail('b', 'HTTP_429', 'lost'), responseDone()]
  const recordings = { m: turn }
  const broken = createScriptedProvider({ id: 'broken', recordings, speed: Infinity })
  const server = await startServer({ more: [broken] })
  const tools = [{ name: 'f', input_schema: { type: 'object' } }]
  const body = { ...ASK, model: 'broken/m', tools }
  const answer = await send(server, 'POST /v1/messages', body)
  expect([answer.status, json(answer).error.type]).toEqual([429, 'rate_limit_error'])
  expect(answer.headers.get('x-should-retry')).toBeNull()
})

test('a silent stream gets pings once the message has started', async () => {
  const server = await startServer({ heartbeatMs: 5 })
  const next = server.held.nextCall()
  const leave = new AbortController()
  const opening = fetch(`${server.url}/v1/messages?beta=true`, {
    method: 'POST',
    signal: leave.signal,
    headers: { 'content-type': 'application/json', 'anthropic-beta': 'a-1,unheard-of-2' },
    body: JSON.stringify({ ...ASK, model: 'held/m', stream: true }),
  })
  ;(await next).say('Hi')
  const { body } = await opening
  let read = ''
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    read += chunk
    if (read.includes('event: ping')) break
  }
  leave.abort()
  expect(read.indexOf('message_start')).toBeLessThan(read.indexOf('event: ping'))
})

test('the models are listed in Anthropic’s format', async () => {
  const server = await startServer()
  const ids = []
  for await (const model of clientOf(server).models.list({ limit: 1000 })) {
    expect(model).toMatchObject({ type: 'model', display_name: model.id })
    ids.push(model.id)
  }
  expect(ids).toEqual(['plain/m', 'held/m'])
  const one = await clientOf(server).models.retrieve('held/m')
  expect(one).toMatchObject({ type: 'model', id: 'held/m', display_name: 'held/m' })
  expect(json(await send(server, 'GET /v1/models')).object).toBe('list')
})

test('tokens are estimated', async () => {
  const messages = [{ role: 'user' as const, content: 'x'.repeat(400) }]
  const client = clientOf(await startServer())
  const { input_tokens } = await client.messages.countTokens({ model: 'plain/m', messages })
  expect(input_tokens).toBe(100)
})

test.each(['msg_unknown', 'unknown'])('message %s is not found', async (id) => {
  const answer = await send(await startServer(), `GET /v1/messages/${id}`)
  expect(answer.status).toBe(404)
  expect(json(answer)).toMatchObject({ type: 'error', error: { type: 'not_found_error' } })
})
