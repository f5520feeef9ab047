/** OpenAI's own client and ours read the same bytes, and must have read the same. */

import { readFileSync } from 'node:fs'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createOpenaiChatProvider } from '../../../../turnstream/src/index.ts'
import {
  startVendor,
  type VendorServer,
} from '../../../../turnstream/test/providers/vendor-server.ts'
import { type ReducedResponse, ResponseReducer, stamp } from '../../../src/index.ts'

let server: VendorServer

/** Answers with the fixture that the request names as its model. */
beforeAll(async () => {
  server = await startVendor((response) => {
    const { model } = JSON.parse(server.bodies.at(-1) ?? '') as { model: string }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(readFileSync(`test/fixtures/openai-chat/${model}.sse`))
  })
})

afterAll(() => server.close())

async function ours(model: string): Promise<ReducedResponse> {
  const provider = createOpenaiChatProvider({ baseUrl: server.url, apiKey: 'x', maxRetries: 0 })
  const input = [{ type: 'message', id: 'i', origin: 'user', content: 'Hi' } as const]
  const reducer = new ResponseReducer()
  const run = { runId: 'run', turnId: 'turn', threadId: 'thread' }
  for await (const event of stamp(provider.stream({ model, input }, run))) reducer.apply(event)
  return reducer.response
}

function client() {
  return new OpenAI({ apiKey: 'x', baseURL: server.url, maxRetries: 0 })
}

function theirs(model: string): Promise<OpenAI.ChatCompletion> {
  const messages = [{ role: 'user' as const, content: 'Hi' }]
  return client().chat.completions.stream({ model, messages }).finalChatCompletion()
}

interface Reading {
  text: string
  refusal: string
  calls: { id: string; name: string; args: string }[]
  finish: string | null | undefined
  usage: { prompt: number; completion: number; total: number } | undefined
}

function readingOfOurs(response: ReducedResponse): Reading {
  const items = response.output_items
  const isRefusal = response.finish_reason === 'refusal'
  const texts = items.map((item) => (item.type === 'message' ? item.content : '')).join('')
  const { usage } = response
  return {
    text: isRefusal ? '' : texts,
    refusal: isRefusal ? texts : '',
    calls: items.flatMap((item) =>
      item.type === 'function_call'
        ? [{ id: item.call_id, name: item.name, args: item.arguments }]
        : [],
    ),
    finish: response.provider_finish_reason,
    usage: usage && {
      prompt: usage.prompt_tokens,
      completion: usage.completion_tokens,
      total: usage.total_tokens,
    },
  }
}

function readingOfTheirs({ choices, usage }: OpenAI.ChatCompletion): Reading {
  const [choice] = choices
  return {
    text: choice?.message.content ?? '',
    refusal: choice?.message.refusal ?? '',
    calls: (choice?.message.tool_calls ?? []).flatMap((call) =>
      call.type === 'function'
        ? [{ id: call.id, name: call.function.name, args: call.function.arguments }]
        : [],
    ),
    finish: choice?.finish_reason,
    usage: usage && {
      prompt: usage.prompt_tokens,
      completion: usage.completion_tokens,
      total: usage.total_tokens,
    },
  }
}

describe('both read the same', () => {
  test.each([
    'text',
    'no-done',
    'usage-without-done',
    'usage-on-finish',
    'usage-in-every-chunk',
    'reasoning-content',
    'reasoning-openrouter',
    'tool-call',
    'text-then-tool-call',
    'text-after-tool-call',
    'parallel-calls-interleaved',
    'call-arguments-repeat',
    'stop-with-calls',
    'refusal',
    'second-choice-is-ignored',
  ])('%s', async (fixture) => {
    const [our, their] = await Promise.all([ours(fixture), theirs(fixture)])
    expect(our.status).toBe('complete')
    expect(readingOfOurs(our)).toEqual(readingOfTheirs(their))
  })
})

describe('both report another finish reason', () => {
  // Their helper throws where a reader wants what there is; its chunks have the reason.
  test.each([
    ['length', 'length'],
    ['content-filter', 'content_filter'],
  ])('%s', async (fixture, expected) => {
    const messages = [{ role: 'user' as const, content: 'Hi' }]
    const stream = await client().chat.completions.create({
      model: fixture,
      messages,
      stream: true,
    })
    const reasons: (string | null)[] = []
    for await (const { choices } of stream) {
      reasons.push(...choices.map(({ finish_reason }) => finish_reason))
    }
    expect(reasons.filter((reason) => reason !== null)).toEqual([expected])
    expect((await ours(fixture)).finish_reason).toBe(expected)
  })
})

describe('both fail', () => {
  test.each([
    ['error-first', 'Rate limit reached'],
    ['error-with-empty-choices', 'Provider disconnected'],
    ['error-in-a-call', 'The server had an error'],
  ])('%s', async (fixture, message) => {
    await expect(theirs(fixture)).rejects.toThrow(message)
    const { status, error } = await ours(fixture)
    expect({ status, message: error?.message }).toEqual({ status: 'error', message })
  })

  test.each(['truncated-text', 'truncated-arguments', 'done-without-finish'])(
    '%s',
    async (fixture) => {
      await expect(theirs(fixture)).rejects.toThrow('missing finish_reason')
      expect((await ours(fixture)).error?.code).toBe('UPSTREAM_TRUNCATED')
    },
  )
})
