/**
 * OpenAI's client → /v1/chat/completions → a real codex app-server → a Responses API on this machine, and back.
 * @module-tag slow
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI, { APIError } from 'openai'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { Providers } from '../../src/server.ts'
import { startVendor } from '../providers/vendor-server.ts'
import { startServer } from '../server/support.ts'
import { startResponsesVendor } from './responses-vendor.ts'
import { installedCodex, KEY, startCodex } from './support.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 240_000 })

let binary = ''
beforeAll(() => {
  binary = installedCodex()
})

const TOOLS = ['weather', 'exec_command'].map((name) => ({
  type: 'function' as const,
  function: { name, parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}))

async function start(options: Partial<Parameters<typeof startCodex>[1]> = {}) {
  const vendor = await startResponsesVendor()
  onTestFinished(() => vendor.close())
  const codex = startCodex(vendor.url, { binary, ...options })
  const providers = new Providers([{ provider: codex, models: ['m'], defaultModel: 'm' }])
  const { url } = await startServer({ providers })
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
  return { vendor, codex, url, openai }
}

function ask(openai: OpenAI, content: string, more: object = {}) {
  return openai.chat.completions.stream({
    model: 'codex/m',
    messages: [{ role: 'user', content }],
    stream_options: { include_usage: true },
    ...more,
  })
}

describe('a chat through codex', () => {
  test('streams a text with its usage, and sends codex only the request', async () => {
    const { openai, vendor, codex } = await start()
    const stream = ask(openai, 'good day', {
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'first' },
        { role: 'assistant', content: 'answered' },
        { role: 'user', content: 'good day' },
      ],
    })
    const deltas: string[] = []
    stream.on('content', (delta) => deltas.push(delta))
    const completion = await stream.finalChatCompletion()
    expect(deltas.join('')).toBe('Hello from behind codex: good day')
    expect(deltas.length).toBeGreaterThan(1)
    expect(completion.choices[0]?.finish_reason).toBe('stop')
    expect(completion.usage).toMatchObject({
      prompt_tokens: 11,
      completion_tokens: 7,
      prompt_tokens_details: { cached_tokens: 3 },
      completion_tokens_details: { reasoning_tokens: 2 },
    })
    const [request] = vendor.requests
    expect(request?.input.map(({ role }) => role)).toEqual([
      'developer',
      'user',
      'assistant',
      'user',
    ])
    expect(request?.tools).toEqual([])
    expect(codex.health).toMatchObject({ state: 'running', threads: 1, turns: 0, restarts: 0 })
  })

  test('sends no instructions of codex', async () => {
    const { openai, vendor } = await start()
    await ask(openai, 'hi').finalChatCompletion()
    expect(vendor.requests[0]?.input.map(({ role }) => role)).toEqual(['user'])
  })

  test('shows reasoning before the text', async () => {
    const { openai } = await start()
    const chunks: string[] = []
    for await (const { choices } of ask(openai, 'think', { reasoning_effort: 'low' })) {
      const delta = (choices[0]?.delta ?? {}) as { content?: string; reasoning_content?: string }
      if (delta.reasoning_content) chunks.push(`thinks: ${delta.reasoning_content}`)
      if (delta.content) chunks.push(`says: ${delta.content}`)
    }
    expect(chunks).toEqual(['thinks: I should greet.', 'says: Hello.'])
  })

  test('hands over parallel calls under the names of the client, and takes their results', async () => {
    const { openai, vendor } = await start()
    const first = await ask(openai, 'use the tools', { tools: TOOLS }).finalChatCompletion()
    const message = first.choices[0]?.message
    expect(first.choices[0]?.finish_reason).toBe('tool_calls')
    const calls = message?.tool_calls?.map((call) => call.type === 'function' && call.function)
    expect(calls).toMatchObject([
      { name: 'weather', arguments: '{"city": "Paris"}' },
      { name: 'exec_command', arguments: '{"city": "Rome"}' },
    ])
    const results = message?.tool_calls?.map(({ id }) => ({
      role: 'tool' as const,
      tool_call_id: id,
      content: 'sunny',
    }))
    const second = await ask(openai, '', {
      tools: TOOLS,
      messages: [{ role: 'user', content: 'use the tools' }, message, ...(results ?? [])],
    }).finalChatCompletion()
    expect(second.choices[0]?.message.content).toBe('The tools said sunny.')
    expect(vendor.bodies).toHaveLength(2)
  })

  test.each([
    ['be cut off', 'length', 'As far as'],
    // codex passes no text of a refusal on.
    ['refuse', 'stop', null],
  ])('%s ends with %s', async (prompt, reason, content) => {
    const { openai } = await start()
    const { choices } = await ask(openai, prompt).finalChatCompletion()
    expect(choices[0]).toMatchObject({ finish_reason: reason })
    expect(choices[0]?.message.content || null).toBe(content)
  })

  test.each([
    ['status 400', 400, 'HTTP_400', 'refused with 400'],
    ['status 401', 502, 'HTTP_401', 'Its operator must check the key'],
    ['status 404', 404, 'model_not_found', 'refused with 404'],
    ['status 413', 413, 'HTTP_413', 'refused with 413'],
    ['status 429', 429, 'rate_limit_exceeded', '429'],
    // codex replaces the text.
    ['status 500', 502, 'HTTP_500', 'high demand'],
    ['status 503', 503, 'HTTP_503', 'refused with 503'],
    ['fail with context_length_exceeded', 400, 'context_length_exceeded', 'context window'],
    ['fail with insufficient_quota', 429, 'insufficient_quota', 'operator'],
    ['fail with rate_limit_exceeded', 429, 'rate_limit_exceeded', 'try again in 3.5s'],
    ['fail with server_is_overloaded', 503, 'server_is_overloaded', 'capacity'],
    ['fail with server_error', 502, 'server_error', 'Please try again'],
    ['fail with cyber_policy', 400, 'cyber_policy', 'Please try again'],
    ['close', 502, 'UPSTREAM_TRUNCATED', 'stream closed'],
  ])('%s of the vendor is %i with %s, asked once', async (prompt, status, code, message) => {
    const { openai, vendor } = await start()
    const error: unknown = await ask(openai, prompt)
      .finalChatCompletion()
      .catch((thrown: unknown) => thrown)
    if (!(error instanceof APIError)) throw new Error('not an error of the API')
    expect(error).toMatchObject({ status, code })
    expect(error.message).toContain(message)
    expect(error.message).not.toContain(KEY)
    expect(error.message).not.toContain('127.0.0.1')
    const isFinal = ['HTTP_401', 'insufficient_quota'].includes(code)
    const headers = error.headers as Headers
    expect(headers.get('x-should-retry')).toBe(isFinal ? 'false' : null)
    expect(headers.get('retry-after')).toBe(message.includes('3.5s') ? '4' : null)
    expect(vendor.bodies).toHaveLength(1)
  })

  test.each([
    ['cut', 'UPSTREAM_TRUNCATED'],
    ['close', 'UPSTREAM_TRUNCATED'],
    ['fail', 'The model broke.'],
    ['run out', 'length'],
  ])('a response that ends after a complete call (%s) ends the turn with %s', async (fate, end) => {
    const { codex, vendor } = await start()
    const events = await codex.stream({ ...callAndThen(fate), tools: [WEATHER] }, RUN).toArray()
    const call = { type: 'function_call', name: 'weather', arguments: '{"city": "Paris"}' }
    const items = events.flatMap((event) => (event.type === 'item_done' ? event.final_item : []))
    expect(items).toMatchObject([call])
    expect(events.at(-1)?.type).toBe(end === 'length' ? 'response_done' : 'response_error')
    expect(JSON.stringify(events.at(-1))).toContain(end)
    expect(vendor.bodies).toHaveLength(1)
  })

  test('a call that follows another after a silence is handed over too', async () => {
    const { codex, vendor } = await start({ quietPeriodMs: 50 })
    const request = { ...callAndThen('call again'), tools: [WEATHER] }
    const events = await codex.stream(request, RUN).toArray()
    const items = events.flatMap((event) => (event.type === 'item_done' ? event.final_item : []))
    expect(items).toMatchObject([
      { type: 'function_call', call_id: 'call_1' },
      { type: 'function_call', call_id: 'call_2' },
    ])
    expect(events.at(-1)).toMatchObject({ type: 'response_done', finish_reason: 'tool_calls' })
    expect(vendor.bodies).toHaveLength(1)
  })

  test('a broken stream is an error after the text so far', async () => {
    const { openai } = await start()
    const stream = ask(openai, 'break off')
    let text = ''
    stream.on('content', (delta) => {
      text += delta
    })
    await expect(stream.finalChatCompletion()).rejects.toThrow(APIError)
    expect(text).toBe('Half an answ')
  })

  test('a forced call is refused by name', async () => {
    const { openai, vendor } = await start()
    const stream = ask(openai, 'hi', { tools: TOOLS, tool_choice: 'required' })
    await expect(stream.finalChatCompletion()).rejects.toThrow('toolChoice')
    expect(vendor.bodies).toEqual([])
  })

  test('hints that codex does not have are ignored, and named', async () => {
    const { openai, vendor } = await start()
    const hints = { stop: 'x', max_completion_tokens: 9, temperature: 0.5, seed: 7 }
    const response_format = { type: 'json_object' as const }
    const messages = [{ role: 'user' as const, content: 'good day' }]
    const { data, response } = await openai.chat.completions
      .create({ model: 'codex/m', messages, response_format, ...hints })
      .withResponse()
    expect(data.choices[0]?.finish_reason).toBe('stop')
    expect(vendor.bodies).toHaveLength(1)
    expect(response.headers.get('x-turnstream-ignored')).toBe(
      'response_format, stop, max_completion_tokens, temperature, seed',
    )
  })
})

const RUN = { runId: 'r', turnId: 't', threadId: 'h' }
const WEATHER = { name: 'weather', parameters: { type: 'object' } }

function callAndThen(fate: string) {
  const content = `call, then ${fate}`
  return { model: 'm', input: [{ type: 'message', id: 'u', origin: 'user', content } as const] }
}

describe('what codex sends to the vendor', () => {
  const prompt = { type: 'message', id: 'u', origin: 'user', content: 'hi' } as const

  test('includes images', async () => {
    const { vendor, codex } = await start()
    const attachments = [{ type: 'image', media_type: 'image/png', data: PNG } as const]
    await codex.stream({ model: 'm', input: [{ ...prompt, attachments }] }, RUN).toArray()
    expect(vendor.bodies[0]).toContain(`"image_url":"data:image/png;base64,${PNG}"`)
  })

  // With a real account it is untested.
  test('has the login of the template, and no key', async () => {
    const template = mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
    onTestFinished(() => rmSync(template, { recursive: true, force: true }))
    const tokens = { id_token: jwt(), access_token: jwt(), refresh_token: 'r', account_id: 'me' }
    const login = { auth_mode: 'chatgpt', tokens, last_refresh: new Date().toISOString() }
    writeFileSync(join(template, 'auth.json'), JSON.stringify(login))
    const headers: IncomingHttpHeaders[] = []
    const vendor = await startVendor((response, request) => {
      headers.push(request.headers)
      response.writeHead(400).end('{}')
    })
    onTestFinished(() => vendor.close())
    const modelProvider = { baseUrl: `${vendor.url}/v1`, usesLogin: true }
    const codex = startCodex(vendor.url, { binary, homeTemplate: template, modelProvider })
    const events = await codex.stream({ model: 'm', input: [prompt] }, RUN).toArray()
    expect(headers).toMatchObject([
      { authorization: `Bearer ${tokens.access_token}`, 'chatgpt-account-id': 'me' },
    ])
    expect(JSON.stringify(events)).not.toContain(tokens.access_token)
  })
})

/** A red square. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC'

/** A token as of OpenAI, valid until 2100. */
function jwt(): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const account = { chatgpt_plan_type: 'pro', chatgpt_account_id: 'me' }
  const claims = { exp: 4_102_444_800, 'https://api.openai.com/auth': account }
  return [encode({ alg: 'none' }), encode(claims), 'c2ln'].join('.')
}

describe('a turn through codex', () => {
  test('is also cancelled at the vendor, within a second', async () => {
    const { url, vendor } = await start()
    await submit(url, 'held', 'hold')
    await eventually(async () => {
      const outputs = await (await fetch(`${url}/xapi/turns/held`)).text()
      expect(outputs).toContain('The beginning')
    })
    await fetch(`${url}/api/v2/runs/held/cancel`, { method: 'POST' })
    await vi.waitFor(() => expect(vendor.held.size).toBe(0), { timeout: 1000 })
    const frames = await (await fetch(`${url}/xapi/turns/held/stream`)).text()
    expect(frames).toContain('The beginning')
    expect(frames).toContain('"finishReason":"cancelled"')
  })

  test('moves to a new process after maxThreads, while running turns finish on the old one', async () => {
    const { url, vendor, codex } = await start({ maxThreads: 2 })
    await submit(url, 'old', 'hold')
    await vi.waitFor(() => expect(vendor.held.size).toBe(1), { timeout: 20_000 })
    const first = codex.health.pid ?? 0
    for (const id of ['a', 'b']) {
      await submit(url, id, 'hello')
      await (await fetch(`${url}/xapi/turns/${id}/stream`)).text()
    }
    const second = codex.health.pid ?? 0
    expect(second).not.toBe(first)
    expect(isAlive(first)).toBe(true)
    await fetch(`${url}/api/v2/runs/old/cancel`, { method: 'POST' })
    await vi.waitFor(() => expect(isAlive(first)).toBe(false), { timeout: 5000 })
    await codex.stop()
    expect(isAlive(second)).toBe(false)
  })
})

async function submit(url: string, turnId: string, input: string): Promise<void> {
  const response = await fetch(`${url}/api/v2/submit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ turnId, prompt: input }),
  })
  expect(await response.text()).toContain(turnId)
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
