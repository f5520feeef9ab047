/** V10: providers as model clients that yield ResponseEvents. */

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { toolsTurn } from '../../../../test/demo-recordings.ts'
import { type ResponseEvent, ResponseReducer, stamp } from '../../../core/src/index.ts'
import { decode } from '../../../core/src/schemas/decode.ts'
import { responseEventSchema } from '../../../core/src/schemas.ts'
import {
  createAnthropicMessagesProvider,
  createGeminiProvider,
  createOpenaiChatProvider,
  createOpenaiResponsesProvider,
  createScriptedProvider,
  type HttpProviderOptions,
  type ModelClient,
} from '../../src/index.ts'

const REQUEST = {
  model: 'm',
  input: [{ type: 'message', id: '1', origin: 'user', content: 'Hello' } as const],
}
const RUN = { runId: 'r', turnId: 't', threadId: 'th' }

type Create = (options: HttpProviderOptions) => ModelClient

const VENDORS: Record<string, { create: Create; reasoning: string }> = {
  'openai-responses': { create: createOpenaiResponsesProvider, reasoning: 'reasoning-summary' },
  'anthropic-messages': { create: createAnthropicMessagesProvider, reasoning: 'thinking' },
  'openai-chat': { create: createOpenaiChatProvider, reasoning: 'reasoning-content' },
  gemini: { create: createGeminiProvider, reasoning: 'thoughts' },
}

function clientOf(vendor: string, fixture: string): ModelClient {
  const body = readFileSync(`test/fixtures/${vendor}/${fixture}.sse`)
  const fetch = async () => new Response(body)
  const row = VENDORS[vendor]
  if (row === undefined) throw new Error(vendor)
  return row.create({ fetch, apiKey: 'k', maxRetries: 0 })
}

function textOf(events: readonly ResponseEvent[], type: ResponseEvent['type']): string {
  return events
    .map((event) => (event.type === type && 'delta' in event ? event.delta : ''))
    .join('')
}

/** The same call as a Response. */
async function responseOf(client: ModelClient) {
  const reducer = new ResponseReducer()
  for await (const event of stamp(client.stream(REQUEST, RUN))) reducer.apply(event)
  return reducer.response
}

function contentOf(
  { output_items }: Awaited<ReturnType<typeof responseOf>>,
  type: 'message' | 'reasoning',
): string {
  return output_items
    .map((item) => (item.type === type && item.origin !== 'user' ? item.content : ''))
    .join('')
}

const TURNS = Object.entries(VENDORS).flatMap(([vendor, { reasoning }]) => [
  { vendor, fixture: 'text' },
  { vendor, fixture: vendor === 'gemini' ? 'function-call' : 'tool-call' },
  { vendor, fixture: reasoning },
])

describe('V10 responseEvents', () => {
  test.each(TURNS)('of $vendor: $fixture', async ({ vendor, fixture }) => {
    const client = clientOf(vendor, fixture)
    const [events, response] = [
      await client.responseEvents(REQUEST).toArray(),
      await responseOf(client),
    ]
    for (const event of events) expect(decode(responseEventSchema, event).ok).toBe(true)
    expect(events[0]).toEqual({ type: 'Created' })
    expect(events.at(-1)).toMatchObject({ type: 'Completed', tokenUsage: response.usage })
    const items = events.flatMap((event) => (event.type === 'OutputItemDone' ? [event.item] : []))
    // Ids contain that of the run.
    const comparable = (item: object) => ({ ...item, id: '', call_id: '' })
    expect(items.map(comparable)).toEqual(response.output_items.map(comparable))
    expect(items.length).toBeGreaterThan(0)
    expect(textOf(events, 'OutputTextDelta')).toBe(contentOf(response, 'message'))
    expect(textOf(events, 'ReasoningContentDelta')).toBe(contentOf(response, 'reasoning'))
  })

  test.each([
    { vendor: 'openai-responses', callId: 'ws_1' },
    { vendor: 'anthropic-messages', callId: 'srvtoolu_1' },
  ])('announce a web search of $vendor', async ({ vendor, callId }) => {
    const events = await clientOf(vendor, 'web-search').responseEvents(REQUEST).toArray()
    expect(events).toContainEqual({ type: 'WebSearchCallBegin', callId })
  })

  test('of a recording', async () => {
    const recordings = { m: toolsTurn() }
    const client = createScriptedProvider({ recordings, speed: Infinity })
    const events = await client.responseEvents(REQUEST).toArray()
    const response = await responseOf(client)
    expect(textOf(events, 'OutputTextDelta')).toBe(contentOf(response, 'message'))
    expect(events.at(-1)).toMatchObject({ type: 'Completed' })
  })

  test.each([
    { vendor: 'openai-responses', fixture: 'failed' },
    { vendor: 'anthropic-messages', fixture: 'error-overloaded' },
    { vendor: 'openai-chat', fixture: 'truncated-text' },
    { vendor: 'gemini', fixture: 'error-in-the-middle' },
  ])('of $vendor: $fixture throws after what came', async ({ vendor, fixture }) => {
    const client = clientOf(vendor, fixture)
    const { error } = await responseOf(client)
    const events: ResponseEvent[] = []
    const reading = (async () => {
      for await (const event of client.responseEvents(REQUEST)) events.push(event)
    })()
    await expect(reading).rejects.toMatchObject({
      code: 'STREAM_ERROR',
      message: `Stream error: ${error?.message}`,
      cause: { code: error?.code },
    })
    expect(events[0]).toEqual({ type: 'Created' })
    expect(events.some(({ type }) => type === 'Completed')).toBe(false)
  })

  test.each(['stream', 'signal'])('abort of the %s stops the call', async (which) => {
    let called: AbortSignal | null | undefined
    const fetch: typeof globalThis.fetch = async (_url, init) => {
      called = init?.signal
      return new Response(new ReadableStream())
    }
    const controller = new AbortController()
    const client = createOpenaiChatProvider({ fetch })
    const stream = client.responseEvents(REQUEST, controller.signal)
    const reading = stream.toArray()
    await expect.poll(() => called).toBeDefined()
    if (which === 'stream') stream.abort()
    else controller.abort()
    await expect(reading).rejects.toMatchObject({ cause: { code: 'ABORTED' } })
    expect(called?.aborted).toBe(true)
  })

  test('a slow reader pauses the call', async () => {
    const chunk = (index: number) => {
      const choices = [{ index: 0, delta: { content: `${index} ` } }]
      return `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices })}\n\n`
    }
    let pulled = 0
    const body = new ReadableStream({
      pull(controller) {
        controller.enqueue(new TextEncoder().encode(chunk(pulled++)))
        if (pulled < 5000) return
        const choices = [{ index: 0, delta: {}, finish_reason: 'stop' }]
        controller.enqueue(new TextEncoder().encode(`data: ${JSON.stringify({ choices })}\n\n`))
        controller.close()
      },
    })
    const client = createOpenaiChatProvider({ fetch: async () => new Response(body) })
    const stream = client.responseEvents(REQUEST)
    let before = -1
    while (pulled !== before) {
      before = pulled
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(pulled).toBeLessThan(1000)
    const events = await stream.toArray()
    expect(textOf(events, 'OutputTextDelta').split(' ')).toHaveLength(5001)
  })
})
