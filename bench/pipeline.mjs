// Q: what does a delta cost from a provider's bytes to the SSE of a user interface?
// Load: reasoning, text and a tool call, one event to a chunk, 1k to 100k tokens, for OpenAI's
//   Responses and Anthropic's Messages; and one tool call of 10,000 fragments.
// Floor: eventsource-parser and JSON.parse of the same bytes, without using the result.
// Rivals: the vendors' own SDKs, raw and with their stream helpers, and the AI SDK's streamText served
//   as its UI message stream. All get the same chunks, the SDKs through `fetch`.
import { expectRatio, heapAfterGc, isQuick, measure, nsOf, printTable } from './measure.mjs'
import {
  Anthropic,
  createAnthropic,
  createOpenAI,
  createParser,
  OpenAI,
  streamText,
} from './sdks.mjs'
import { EventStamp, turnstream, VendorReader } from './turnstream.mjs'
import { anthropicMessages, anthropicToolCall, openaiResponses } from './vendor-streams.mjs'

const { StreamProcessor, translateAnthropicMessages, translateOpenaiResponses, xapiSse } =
  turnstream

/** @typedef {import('./vendor-streams.mjs').VendorStream} VendorStream */

const RUN = '0192f0c1-7a3b-7000-8000-000000000001'
const utf8 = new TextEncoder()

/** The floor. @param {VendorStream} stream */
function parseOnly({ chunks, deltas }) {
  let events = 0
  const decoder = new TextDecoder()
  const parser = createParser({
    /** @param {{ data: string }} event */
    onEvent({ data }) {
      if (typeof JSON.parse(data) === 'object') events += 1
    },
  })
  for (const chunk of chunks) parser.feed(decoder.decode(chunk, { stream: true }))
  return events === chunks.length ? deltas : 0
}

/** @param {VendorStream} stream @param {typeof translateOpenaiResponses} translate */
async function wholeWay({ chunks, deltas }, translate) {
  const now = () => Date.now()
  const ids = { runId: RUN, turnId: RUN, threadId: 'thread', providerId: 'bench', modelId: 'bench' }
  const reader = new VendorReader(translate({ ...ids, now }), 'sse')
  const stamp = new EventStamp({ now })
  let offset = 0
  let bytes = 0
  const processor = new StreamProcessor({
    turnId: RUN,
    threadId: 'thread',
    onEmit({ payload }) {
      offset += 1
      bytes += utf8.encode(xapiSse(`1-${offset}`, payload)).length
    },
  })
  for (const chunk of chunks) {
    for (const payload of reader.feed(chunk)) await processor.processEvent(stamp.stamp(payload))
  }
  for (const payload of reader.end()) await processor.processEvent(stamp.stamp(payload))
  await processor.destroy()
  return bytes > 0 ? deltas : 0
}

/** A `fetch` that answers with the stream. @param {VendorStream} stream @returns {typeof fetch} */
function fetchOf({ chunks }) {
  return async () => {
    let next = 0
    const body = new ReadableStream({
      pull(controller) {
        const chunk = chunks[next++]
        if (chunk) controller.enqueue(chunk)
        else controller.close()
      },
    })
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  }
}

/** @param {AsyncIterable<unknown>} events @param {number} deltas */
async function drain(events, deltas) {
  let count = 0
  for await (const event of events) if (event) count += 1
  return count > 0 ? deltas : 0
}

/** @param {unknown} model @param {number} deltas */
async function aiSdk(model, deltas) {
  const result = streamText({ model, prompt: 'hi', maxRetries: 0 })
  const { body } = result.toUIMessageStreamResponse()
  if (!body) throw new Error('the AI SDK answered with no body')
  return drain(body, deltas)
}

const OPENAI = { apiKey: 'x', baseURL: 'http://127.0.0.1:1/v1', maxRetries: 0 }
const ANTHROPIC = { apiKey: 'x', baseURL: 'http://127.0.0.1:1', maxRetries: 0 }

/** @param {VendorStream} stream @param {number} slow How rarely to run the slowest. */
function openaiSubjects(stream, slow) {
  const fetch = fetchOf(stream)
  const client = new OpenAI({ ...OPENAI, fetch })
  const request = { model: 'gpt-5', input: 'hi' }
  return [
    { name: 'parse only', run: () => parseOnly(stream) },
    { name: 'turnstream', run: () => wholeWay(stream, translateOpenaiResponses) },
    {
      name: 'openai, raw',
      run: async () =>
        drain(await client.responses.create({ ...request, stream: true }), stream.deltas),
    },
    { name: 'openai, helper', run: () => drain(client.responses.stream(request), stream.deltas) },
    {
      name: 'AI SDK, UI stream',
      every: slow,
      run: () => aiSdk(createOpenAI({ ...OPENAI, fetch }).responses('gpt-5'), stream.deltas),
    },
  ]
}

/** @param {VendorStream} stream @param {number} slow How rarely to run the slowest. */
function anthropicSubjects(stream, slow) {
  const fetch = fetchOf(stream)
  const client = new Anthropic({ ...ANTHROPIC, fetch })
  const request = { model: 'claude', max_tokens: 1, messages: [{ role: 'user', content: 'hi' }] }
  const model = () => createAnthropic({ ...ANTHROPIC, baseURL: `${ANTHROPIC.baseURL}/v1`, fetch })
  return [
    { name: 'parse only', run: () => parseOnly(stream) },
    { name: 'turnstream', run: () => wholeWay(stream, translateAnthropicMessages) },
    {
      name: '@anthropic-ai/sdk, raw',
      run: async () =>
        drain(await client.messages.create({ ...request, stream: true }), stream.deltas),
    },
    {
      name: '@anthropic-ai/sdk, helper',
      run: () => drain(client.messages.stream(request), stream.deltas),
    },
    {
      name: 'AI SDK, UI stream',
      every: slow,
      run: () => aiSdk(model()('claude-sonnet-4-5'), stream.deltas),
    },
  ]
}

/** @param {string} vendor @param {(stream: VendorStream, slow: number) => import('./measure.mjs').Subject[]} subjects @param {(tokens: number) => VendorStream} make */
async function benchVendor(vendor, subjects, make) {
  /** @type {Map<number, import('./measure.mjs').Figure[]>} */
  const bySize = new Map()
  for (const tokens of isQuick ? [100_000] : [1000, 10_000, 100_000]) {
    const options = tokens === 100_000 ? { rounds: 9, warmup: 1 } : {}
    const slow = tokens === 100_000 ? 5 : 1
    const all = subjects(make(tokens), slow)
    // The first two are the floor and ours.
    const figures = await measure(isQuick ? all.slice(0, 2) : all, options)
    bySize.set(tokens, figures)
    const floor = nsOf(figures, 'parse only')
    printTable(
      `${vendor}, ${tokens / 1000}k tokens: CPU ns per delta`,
      figures.map(({ name, ns, first }) => ({ path: name, ns, 'x parse only': ns / floor, first })),
    )
  }
  const large = bySize.get(100_000) ?? []
  const ours = nsOf(large, 'turnstream')
  const floor = nsOf(large, 'parse only')
  expectRatio(`${vendor}: turnstream / parse only at 100k`, ours / floor, 1.8, 1.5)
  if (isQuick) return
  const small = bySize.get(1000) ?? []
  const growth = ours / nsOf(small, 'turnstream') / (floor / nsOf(small, 'parse only'))
  expectRatio(
    `${vendor}: 8 x turnstream / AI SDK at 100k`,
    (8 * ours) / nsOf(large, 'AI SDK, UI stream'),
    1,
  )
  expectRatio(`${vendor}: growth 1k to 100k / that of parse only`, growth, 1.3)
}

async function benchArguments() {
  const figures = await measure(
    [1000, 10_000].flatMap((fragments) => {
      const stream = anthropicToolCall(fragments)
      return [
        { name: `${fragments} fragments, parse only`, run: () => parseOnly(stream) },
        { name: `${fragments} fragments`, run: () => wholeWay(stream, translateAnthropicMessages) },
      ]
    }),
  )
  printTable('one tool call: CPU ns per fragment', figures)
  const ours = nsOf(figures, '10000 fragments')
  const floor = nsOf(figures, '10000 fragments, parse only')
  const growth =
    ours / nsOf(figures, '1000 fragments') / (floor / nsOf(figures, '1000 fragments, parse only'))
  expectRatio('tool call of 10,000 fragments / parse only', ours / floor, 3)
  expectRatio('tool call: growth 1k to 10k / that of parse only', growth, 1.3)
}

/** Memory of a translation in progress: it holds open items, not past events. */
async function benchHeap() {
  const rows = []
  for (const tokens of [10_000, 100_000]) {
    const { chunks, text } = anthropicMessages(tokens)
    const now = () => 0
    const ids = { runId: RUN, turnId: RUN, threadId: 't', providerId: 'bench', modelId: 'bench' }
    const translation = translateAnthropicMessages({ ...ids, now })
    const reader = new VendorReader(translation, 'sse')
    const before = heapAfterGc()
    for (const chunk of chunks.slice(0, -3)) reader.feed(chunk)
    const kept = heapAfterGc() - before
    // Read again: otherwise the chunks would count as freed.
    if (chunks.length === 0) throw new Error('nothing was read')
    rows.push({ tokens: String(tokens), 'text KB': text.length / 1000, 'kept KB': kept / 1000 })
    expectRatio(
      `adapter: heap of ${tokens} tokens / (3 x text + 1 MB)`,
      kept / (3 * text.length + 1e6),
      1,
    )
    reader.end()
  }
  printTable('adapter: heap after GC', rows)
}

export async function benchPipeline() {
  if (!isQuick) {
    await benchHeap()
    await benchArguments()
  }
  await benchVendor('openai', openaiSubjects, openaiResponses)
  await benchVendor('anthropic', anthropicSubjects, anthropicMessages)
}
