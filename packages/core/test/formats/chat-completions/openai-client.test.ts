/** What the official client makes of our output, over a real connection. */

import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import OpenAI, { APIError } from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ChatCompletionsEncoder, type StreamEvent, toChatCompletion } from '../../../src/index.ts'
import {
  aborted,
  call,
  delta,
  done,
  finish,
  open,
  responseDone,
  responseError,
  start,
  thought,
  tokens,
} from '../../processor/events.ts'
import { HEAD, openCall } from './write-support.ts'

const usage = { ...tokens(12, 7), cached_tokens: 4, reasoning_tokens: 3 }
const USAGE = {
  ...tokens(12, 7),
  prompt_tokens_details: { cached_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 3 },
}
const ARGUMENTS = '{"path":"ä 👋 \\n","deep":[1,{"x":null}]}'

const TEXT = 'Hello,\n"wörld" 👋!'

const answer = [
  start(),
  thought('r', 'Hm.'),
  open('a'),
  ...Array.from(TEXT.slice(0, -1), (letter) => delta('a', letter)),
  done('a', TEXT),
  responseDone({ usage }),
]

const calls = [
  start(),
  open('a'),
  delta('a', 'Let me look.'),
  done('a', 'Let me look.'),
  openCall('b', 'call_1'),
  openCall('c', 'call_2', 'list_files'),
  ...Array.from(ARGUMENTS, (letter) => delta('b', letter)),
  call('c', 'call_2', '', 'list_files'),
  call('b', 'call_1', ARGUMENTS),
  done('d', 'too late'),
  responseDone({ finish_reason: 'stop', usage }),
]

const refusal = [
  start(),
  finish('a', {
    type: 'message',
    id: 'a',
    content: 'I will not.',
    origin: 'agent',
    provider_metadata: { openai: { refusal: true } },
  }),
  responseDone({ finish_reason: 'refusal', usage }),
]

const broken = [
  start(),
  open('a'),
  delta('a', 'Hel'),
  responseError('UPSTREAM_TRUNCATED', 'cut off'),
]
const stopped = [start(), open('a'), delta('a', 'Hel'), aborted('enough')]

/** The model of a request names the turn that answers it. */
const turns: Record<string, StreamEvent[]> = { answer, calls, refusal, broken, stopped }

const TOOL_CALLS = [
  { id: 'call_1', type: 'function', function: { name: 'read_file', arguments: ARGUMENTS } },
  { id: 'call_2', type: 'function', function: { name: 'list_files', arguments: '{}' } },
]

let server: Server
let client: OpenAI

beforeAll(async () => {
  server = createServer((request, response) => {
    let body = ''
    request.on('data', (bytes: Uint8Array) => {
      body += new TextDecoder().decode(bytes)
    })
    request.on('end', () => respond(JSON.parse(body) as ChatRequest, response))
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  client = new OpenAI({ apiKey: 'none', baseURL: `http://127.0.0.1:${port}/v1`, maxRetries: 0 })
})

afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => {
    server.close(resolve)
  })
})

interface ChatRequest {
  model: string
  stream?: boolean
  stream_options?: { include_usage?: boolean }
}

function respond({ model, stream, stream_options }: ChatRequest, response: ServerResponse): void {
  const turn = turns[model] ?? []
  const options = { ...HEAD, model }
  if (!stream) {
    const completion = toChatCompletion(turn, options)
    const status = 'error' in completion ? 502 : 200
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(completion))
    return
  }
  const includeUsage = stream_options?.include_usage === true
  const encoder = new ChatCompletionsEncoder({ ...options, includeUsage })
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  for (const event of turn) response.write(encoder.encodeSse(event))
  response.end()
}

function request(model: string) {
  return { model, messages: [{ role: 'user' as const, content: 'Hi' }] }
}

const WITH_USAGE = { stream_options: { include_usage: true } }

describe('the streaming helper', () => {
  test('reads text, usage and finish reason', async () => {
    const stream = client.chat.completions.stream({ ...request('answer'), ...WITH_USAGE })
    const completion = await stream.finalChatCompletion()
    expect(completion).toMatchObject({
      id: HEAD.id,
      created: HEAD.created,
      model: 'answer',
      object: 'chat.completion',
      usage: USAGE,
    })
    expect(completion.choices).toHaveLength(1)
    expect(completion.choices[0]).toMatchObject({
      index: 0,
      finish_reason: 'stop',
      message: { role: 'assistant', content: TEXT, refusal: null },
    })
  })

  test('emits the text as it grows', async () => {
    const pieces: string[] = []
    const stream = client.chat.completions.stream(request('answer'))
    stream.on('content', (piece) => pieces.push(piece))
    await stream.done()
    expect(pieces).toEqual(Array.from(TEXT))
  })

  test('reads calls with their arguments', async () => {
    const stream = client.chat.completions.stream({ ...request('calls'), ...WITH_USAGE })
    const { choices, usage } = await stream.finalChatCompletion()
    expect(choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: 'Let me look.' },
    })
    expect(choices[0]?.message.tool_calls).toMatchObject(TOOL_CALLS)
    expect(choices[0]?.message.tool_calls).toHaveLength(2)
    expect(usage).toEqual(USAGE)
  })

  test('reads a refusal', async () => {
    const stream = client.chat.completions.stream(request('refusal'))
    const { choices } = await stream.finalChatCompletion()
    expect(choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: null, refusal: 'I will not.' },
    })
  })

  test('fails when the turn failed', async () => {
    const failure = await errorOf(client.chat.completions.stream(request('broken')).done())
    expect(failure.message).toContain('cut off')
  })
})

describe('the raw stream', () => {
  test('has reasoning, text and one finish, and no usage by default', async () => {
    const chunks = await chunksOf('answer')
    const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta))
    expect(deltas.map(reasoningOf).join('')).toBe('Hm.')
    expect(deltas.map(({ content }) => content ?? '').join('')).toBe(TEXT)
    expect(finishesOf(chunks)).toEqual(['stop'])
    expect(chunks.filter((chunk) => 'usage' in chunk)).toEqual([])
  })

  test('has usage after the finish on request', async () => {
    const chunks = await chunksOf('calls', WITH_USAGE)
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('tool_calls')
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: USAGE })
    expect(finishesOf(chunks)).toEqual(['tool_calls'])
  })

  test.each([
    [
      'broken',
      { code: 'UPSTREAM_TRUNCATED', type: 'server_error', param: null, message: 'cut off' },
    ],
    ['stopped', { code: 'ABORTED', message: 'The turn was stopped: enough' }],
  ])('that was %s throws an APIError after what it had', async (model, error) => {
    const stream = await client.chat.completions.create({ ...request(model), stream: true })
    let text = ''
    const reading = (async () => {
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? ''
    })()
    const failure = await errorOf(reading)
    expect(failure).toBeInstanceOf(APIError)
    expect(failure).toMatchObject(error)
    expect(text).toBe('Hel')
  })
})

describe('a completion without streaming', () => {
  test('has text, reasoning and usage', async () => {
    const completion = await client.chat.completions.create(request('answer'))
    expect(completion.choices).toEqual([
      {
        index: 0,
        message: {
          role: 'assistant',
          content: TEXT,
          refusal: null,
          reasoning_content: 'Hm.',
        },
        logprobs: null,
        finish_reason: 'stop',
      },
    ])
    expect(completion.usage).toEqual(USAGE)
  })

  test('has calls', async () => {
    const { choices } = await client.chat.completions.create(request('calls'))
    expect(choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: 'Let me look.', tool_calls: TOOL_CALLS },
    })
  })

  test('is an APIError when the turn failed', async () => {
    const failure = await errorOf(client.chat.completions.create(request('broken')))
    expect(failure).toBeInstanceOf(APIError)
    expect(failure).toMatchObject({ status: 502, code: 'UPSTREAM_TRUNCATED', type: 'server_error' })
  })
})

type RawChunk = OpenAI.ChatCompletionChunk

async function chunksOf(model: string, extra: object = {}): Promise<RawChunk[]> {
  const stream = await client.chat.completions.create({ ...request(model), stream: true, ...extra })
  const chunks: RawChunk[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return chunks
}

function finishesOf(chunks: readonly RawChunk[]): (string | null)[] {
  const reasons = chunks.flatMap(({ choices }) => choices.map((choice) => choice.finish_reason))
  return reasons.filter((reason) => reason !== null)
}

function reasoningOf(delta: object): string {
  return (delta as { reasoning_content?: string }).reasoning_content ?? ''
}

async function errorOf(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('it did not fail')
}
