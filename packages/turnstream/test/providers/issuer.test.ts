/** Signatures and encrypted reasoning go back to the provider that issued them, over real HTTP. */

import { describe, expect, onTestFinished, test } from 'vitest'
import type { OutputItem, ProviderRequest, StreamEvent } from '../../../core/src/index.ts'
import {
  createAnthropicMessagesProvider,
  createGeminiProvider,
  createOpenaiChatProvider,
  createOpenaiResponsesProvider,
  type HttpProviderOptions,
  type Provider,
} from '../../src/index.ts'
import { collect, last, run } from './http-support.ts'
import { type Answer, sse, startVendor, type VendorServer } from './vendor-server.ts'

interface Case {
  name: string
  create: (options: HttpProviderOptions) => Provider
  /** A response with reasoning, a call and opaque data. */
  frames: unknown[]
  /** Where the opaque data is in the JSON of a request. */
  blobs: string[]
  /** The error by which the vendor refuses it. */
  refusal: unknown
  /** The same inside a stream, and what may come before it. */
  streamed: unknown
  start: unknown[]
}

const BLOB = 'gAAAA+/=="\\ ünïcode\u2028\ud83d\ude00'
const WRAPPED = JSON.stringify({
  error: { message: 'messages.1.content.0: Invalid `signature` in `thinking`  block' },
})

const CASES: Case[] = [
  {
    name: 'openai-responses',
    create: createOpenaiResponsesProvider,
    frames: [
      { type: 'response.created', response: { model: 'm' } },
      ...[
        { id: 'rs_1', type: 'reasoning', summary: [], encrypted_content: BLOB },
        { id: 'ws_1', type: 'web_search_call', status: 'completed', action: { type: 'search' } },
        { id: 'fc_1', type: 'function_call', call_id: 'c1', name: 'add', arguments: '{}' },
      ].map((item, output_index) => ({ type: 'response.output_item.done', output_index, item })),
      { type: 'response.completed', response: { status: 'completed', output: [] } },
    ],
    blobs: [BLOB, 'rs_1', 'ws_1', 'fc_1'],
    refusal: { error: { code: 'invalid_encrypted_content', message: 'The encrypted content' } },
    streamed: {
      type: 'error',
      error: {
        code: null,
        message: 'The encrypted content for item rs_1 could not be verified. Reason: …',
      },
    },
    start: [{ type: 'response.created', response: { model: 'm' } }],
  },
  {
    name: 'anthropic-messages',
    create: createAnthropicMessagesProvider,
    frames: [
      { type: 'message_start', message: { id: 'msg_1', model: 'm' } },
      ...[
        { type: 'thinking', thinking: 'Hm.', signature: BLOB },
        { type: 'redacted_thinking', data: `redacted ${BLOB}` },
        { type: 'tool_use', id: 'c1', name: 'add', input: {} },
      ].flatMap((content_block, index) => [
        { type: 'content_block_start', index, content_block },
        { type: 'content_block_stop', index },
      ]),
      { type: 'message_delta', delta: { stop_reason: 'tool_use' } },
      { type: 'message_stop' },
    ],
    blobs: [BLOB, `redacted ${BLOB}`],
    refusal: { type: 'error', error: { message: WRAPPED } },
    streamed: {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'Invalid `data` in `redacted_thinking`' },
    },
    start: [{ type: 'message_start', message: { id: 'msg_0', usage: { input_tokens: 1 } } }],
  },
  {
    name: 'gemini',
    create: createGeminiProvider,
    frames: [
      {
        responseId: 'g1',
        candidates: [
          {
            finishReason: 'STOP',
            content: {
              parts: [
                { text: 'Hm.', thought: true, thoughtSignature: `thought ${BLOB}` },
                { functionCall: { id: 'c1', name: 'add', args: {} }, thoughtSignature: BLOB },
              ],
            },
          },
        ],
      },
    ],
    blobs: [BLOB, `thought ${BLOB}`],
    refusal: { error: { code: 400, message: 'Corrupted thought signature.' } },
    streamed: {
      error: { code: 400, status: 'INVALID', message: 'Thought signature is not valid' },
    },
    start: [{ responseId: 'g0', usageMetadata: { promptTokenCount: 1 } }],
  },
  {
    name: 'openai-chat',
    create: createOpenaiChatProvider,
    frames: [
      {
        choices: [
          {
            index: 0,
            delta: {
              reasoning: 'Hm.',
              reasoning_details: [{ type: 'reasoning.encrypted', data: BLOB }],
              tool_calls: [
                {
                  index: 0,
                  id: 'c1',
                  type: 'function',
                  function: { name: 'add', arguments: '{}' },
                  extra_content: { google: { thought_signature: `call ${BLOB}` } },
                },
              ],
            },
          },
        ],
      },
      { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
    ],
    blobs: [BLOB, `call ${BLOB}`],
    refusal: [{ error: { message: 'Corrupted thought signature.' } }],
    streamed: { error: { message: 'messages.1: Invalid `signature` in `thinking` block' } },
    start: [{ choices: [{ index: 0, delta: { role: 'assistant' } }] }],
  },
]

const TOOL = { name: 'add', parameters: {} }

interface Upstream extends VendorServer {
  provider: Provider
}

/** A provider whose server answers with the response of the case, except from the second request as the test says. */
async function startUpstream({ create, frames }: Case, id: string, next: readonly Answer[] = []) {
  const server = await startVendor((response, request, count) =>
    (next[count - 2] ?? whole(frames))(response, request, count),
  )
  onTestFinished(() => server.close())
  const provider = create({ id, baseUrl: server.url, apiKey: 'k' })
  const upstream: Upstream = { ...server, provider }
  return upstream
}

function whole(frames: readonly unknown[]): Answer {
  return sse(...frames.map((frame) => JSON.stringify(frame)))
}

function refuse(body: unknown, status = 400): Answer {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body))
  }
}

const PROMPT: OutputItem = { type: 'message', id: 'p', origin: 'user', content: 'Add.' }

function itemsOf(events: readonly StreamEvent[]): OutputItem[] {
  return events.flatMap(({ payload }) => (payload.type === 'item_done' ? [payload.final_item] : []))
}

function answered(items: readonly OutputItem[]): OutputItem[] {
  const output = {
    type: 'function_call_output',
    call_id: 'c1',
    output: '2',
    success: true,
  } as const
  return [PROMPT, ...items, { ...output, id: 'o' }]
}

function ask(
  provider: Provider,
  input: readonly OutputItem[],
  more: Partial<ProviderRequest> = {},
) {
  let retries = 0
  const onRetry = () => {
    retries += 1
  }
  const request = { model: 'm', input, tools: [TOOL], ...more }
  return collect(provider.stream(request, { ...run, onRetry })).then((events) => ({
    events,
    retries,
  }))
}

/** The same with other opaque data. */
function changed<T>(value: T): T {
  const [old, now] = [BLOB, 'another'].map((blob) => JSON.stringify(blob).slice(1, -1))
  return JSON.parse(JSON.stringify(value).replaceAll(old ?? '', now ?? '')) as T
}

/** The strings of a request that contain one of the texts. */
function stringsWith(body: string | undefined, texts: readonly string[]): string[] {
  const found: string[] = []
  JSON.parse(body ?? '{}', (_key, value: unknown) => {
    if (typeof value === 'string' && texts.includes(value)) found.push(value)
    return value
  })
  return found.toSorted()
}

describe.each(CASES)('$name', (vendor) => {
  const { blobs, refusal, streamed } = vendor

  test('vendor data goes back to its provider, byte for byte, and to no other', async () => {
    const one = await startUpstream(vendor, 'one')
    const two = await startUpstream(vendor, 'two')
    const { events } = await ask(one.provider, [PROMPT])
    const items = itemsOf(events)
    await ask(one.provider, answered(items))
    expect(stringsWith(one.bodies[1], blobs)).toEqual(blobs.toSorted())
    await ask(two.provider, answered(items))
    expect(stringsWith(two.bodies[0], blobs)).toEqual([])
    expect(two.bodies[0]).toContain('"add"')
    // Back at the first one.
    await ask(one.provider, answered(items))
    expect(one.bodies[2]).toBe(one.bodies[1])
  })

  test('data of an unknown issuer is sent', async () => {
    const one = await startUpstream(vendor, vendor.name)
    const { events } = await ask(one.provider, [PROMPT])
    const older = itemsOf(events).map((item) => {
      const { issuer: _, ...provider_metadata } = item.provider_metadata ?? {}
      return { ...item, provider_metadata }
    })
    await ask(one.provider, answered(older))
    expect(stringsWith(one.bodies[1], blobs)).toEqual(blobs.toSorted())
  })

  const forms = [
    ['as a status', refuse(refusal)],
    ['as another status', refuse(refusal, 422)],
    ['in the stream', whole([streamed])],
    ['after the start of the stream', whole([...vendor.start, streamed])],
  ] as const
  test.each(forms)('data that is refused %s is dropped, and the call repeated', async (_, form) => {
    const upstream = await startUpstream(vendor, 'one', [form])
    const first = await ask(upstream.provider, [PROMPT])
    const second = await ask(upstream.provider, answered(itemsOf(first.events)))
    expect(upstream.bodies).toHaveLength(3)
    expect(stringsWith(upstream.bodies[2], blobs)).toEqual([])
    expect(upstream.bodies[2]).toContain('"add"')
    expect([first.retries, second.retries]).toEqual([0, 1])
    expect(last(second.events)).toMatchObject({ type: 'response_done' })
    const types = second.events.map(({ type }) => type)
    expect(types.filter((type) => type === 'response_start')).toHaveLength(1)
    expect(types).not.toContain('response_error')
  })

  test('data that was refused once is not sent again, and later data is', async () => {
    const upstream = await startUpstream(vendor, 'one', [refuse(refusal)])
    const first = await ask(upstream.provider, [PROMPT])
    const thread = answered(itemsOf(first.events))
    await ask(upstream.provider, thread)
    expect((await ask(upstream.provider, thread)).retries).toBe(0)
    expect(upstream.bodies).toHaveLength(4)
    expect(upstream.bodies[3]).toBe(upstream.bodies[2])
    const later = await startUpstream({ ...vendor, frames: changed(vendor.frames) }, 'one')
    const { events } = await ask(later.provider, [PROMPT])
    await ask(upstream.provider, [...thread, ...answered(itemsOf(events))])
    const opaque = blobs.filter((each) => each.includes(BLOB))
    expect(stringsWith(upstream.bodies[4], opaque)).toEqual([])
    expect(stringsWith(upstream.bodies[4], changed(opaque))).toEqual(changed(opaque).toSorted())
  })

  test('a second refusal is the error', async () => {
    const upstream = await startUpstream(vendor, 'one', [refuse(refusal), refuse(refusal)])
    const first = await ask(upstream.provider, [PROMPT])
    const { events, retries } = await ask(upstream.provider, answered(itemsOf(first.events)))
    expect(upstream.bodies).toHaveLength(3)
    expect(retries).toBe(1)
    expect(last(events)).toMatchObject({ type: 'response_error', error: { code: 'HTTP_400' } })
  })

  test('a request without such data, or another error, is not repeated', async () => {
    const another = refuse({ error: { message: 'Bad tools.' } })
    const upstream = await startUpstream(vendor, 'one', [refuse(refusal), another])
    const first = await ask(upstream.provider, [PROMPT])
    expect((await ask(upstream.provider, [PROMPT])).retries).toBe(0)
    expect((await ask(upstream.provider, answered(itemsOf(first.events)))).retries).toBe(0)
    expect(upstream.bodies).toHaveLength(3)
  })
})

describe('Anthropic thinks only where the API allows it', () => {
  const [, anthropic = CASES[0]] = CASES
  const reasoningEffort = 'low'

  async function thinkingOf(change: (items: OutputItem[]) => OutputItem[]) {
    const upstream = await startUpstream(anthropic as Case, 'one')
    const { events } = await ask(upstream.provider, [PROMPT], { reasoningEffort })
    await ask(upstream.provider, change(answered(itemsOf(events))), { reasoningEffort })
    const { thinking, max_tokens } = JSON.parse(upstream.bodies[1] ?? '{}') as Record<
      string,
      unknown
    >
    return { thinking, max_tokens }
  }

  const foreign = (items: OutputItem[]) =>
    items.map((item) => {
      const { provider_metadata: metadata } = item
      return metadata ? { ...item, provider_metadata: { ...metadata, issuer: 'other' } } : item
    })
  const enabled = { thinking: { type: 'enabled', budget_tokens: 2048 }, max_tokens: 10_240 }

  test('in a loop that began with thinking', async () => {
    expect(await thinkingOf((items) => items)).toEqual(enabled)
  })

  test('not in a loop of another provider', async () => {
    const thinking = { type: 'disabled' }
    expect(await thinkingOf(foreign)).toEqual({ thinking, max_tokens: 8192 })
  })

  test('again after the next prompt', async () => {
    const said: OutputItem = { type: 'message', id: 'a', origin: 'agent', content: 'Two.' }
    expect(await thinkingOf((items) => [...foreign(items), said, PROMPT])).toEqual(enabled)
  })

  test('also in later steps without thinking', async () => {
    const call = { type: 'function_call', call_id: 'c2', name: 'add', arguments: '{}' } as const
    const output = {
      type: 'function_call_output',
      call_id: 'c2',
      output: '',
      success: true,
    } as const
    const step: OutputItem[] = [
      { ...call, id: 'x' },
      { ...output, id: 'y' },
    ]
    expect(await thinkingOf((items) => [...items, ...step])).toEqual(enabled)
  })
})

describe('calls that Gemini did not sign', () => {
  const items: OutputItem[] = [
    { type: 'function_call', id: 'x', call_id: 'c1', name: 'add', arguments: '{}' },
    { type: 'function_call', id: 'y', call_id: 'c2', name: 'add', arguments: '{}' },
  ]
  const missing = {
    error: { message: 'Function call is missing a thought_signature in functionCall parts.' },
  }
  const signaturesOf = (body = '{}') => {
    const signatures: unknown[] = []
    JSON.parse(body, (key, value: unknown) => {
      if (key === 'thoughtSignature') signatures.push(value)
      return value
    })
    return signatures
  }

  test.each([
    ['gemini-3-pro', [['skip_thought_signature_validator']]],
    ['gemini-2.5-flash', [[], ['skip_thought_signature_validator']]],
  ])('are excused, or after a refusal: %s', async (model, sent) => {
    const server = await startVendor((response, request, count) => {
      const isExcused = signaturesOf(server.bodies[count - 1]).length > 0
      void (isExcused ? whole(CASES[2]?.frames ?? []) : refuse(missing))(response, request, count)
    })
    onTestFinished(() => server.close())
    const provider = createGeminiProvider({ baseUrl: server.url })
    const { events } = await ask(provider, answered(items), { model })
    expect(last(events)).toMatchObject({ type: 'response_done' })
    expect(server.bodies.map(signaturesOf)).toEqual(sent)
  })
})

test('a compaction is never left out: without it the conversation would be lost', async () => {
  const server = await startVendor((response) => {
    response.writeHead(400, { 'content-type': 'application/json' })
    response.end(JSON.stringify(CASES[0]?.refusal))
  })
  onTestFinished(() => server.close())
  const provider = createOpenaiResponsesProvider({ id: 'one', baseUrl: server.url })
  const reasoning = { type: 'reasoning', summary: [], encrypted_content: 'thought' }
  const item = (id: string, openai: object, more: object): OutputItem => ({
    type: 'reasoning',
    id,
    content: '',
    provider_metadata: { openai, ...more },
  })
  const input: OutputItem[] = [
    item('a', { type: 'compaction', encrypted_content: 'summary' }, { issuer: 'other' }),
    item('b', reasoning, {}),
    { type: 'message', id: 'c', origin: 'agent', content: 'Hi' },
    { type: 'message', id: 'd', origin: 'user', content: 'Hi' },
  ]
  for (const calls of [2, 3]) {
    const events = await collect(provider.stream({ model: 'm', input }, run))
    expect(last(events)).toMatchObject({ type: 'response_error', error: { code: 'HTTP_400' } })
    expect(server.bodies).toHaveLength(calls)
  }
  const sent = server.bodies.map((body) => [body.includes('summary"'), body.includes('thought')])
  expect(sent).toEqual([
    [true, true],
    [true, false],
    [true, false],
  ])
})
