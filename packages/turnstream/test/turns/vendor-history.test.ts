import { describe, expect, test } from 'vitest'
import { buildOpenaiChatRequest } from '../../../core/src/formats/chat-completions/request-out.ts'
import { buildGeminiRequest } from '../../../core/src/formats/gemini/request-out.ts'
import { buildAnthropicMessagesRequest } from '../../../core/src/formats/messages/request-out.ts'
import { buildOpenaiResponsesRequest } from '../../../core/src/formats/responses/request-out.ts'
import { ChatCompletionsEncoder, type ProviderRequest } from '../../../core/src/index.ts'
import { answer, call, end } from './payloads.ts'
import { eventsOf, newRig } from './rig.ts'

const TOOLS = [
  {
    name: 'add',
    parameters: {},
    execute: ({ a }: Record<string, unknown>) => `${String(a)} added`,
  },
]
const HI = 'Hi'

interface Vendor {
  name: string
  metadata: Record<string, unknown>
  build: (request: ProviderRequest) => { body: Record<string, unknown> }
  /** The thread as the vendor gets it after the first round. */
  thread: unknown
}

const vendors: Vendor[] = [
  {
    name: 'openai-responses',
    metadata: { openai: { type: 'function_call', id: 'fc_1', status: 'completed' } },
    build: (request) => buildOpenaiResponsesRequest(request),
    thread: [
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: HI }] },
      {
        type: 'function_call',
        status: 'completed',
        call_id: 'c1',
        name: 'add',
        arguments: '{"a":1}',
      },
      { type: 'function_call_output', call_id: 'c1', output: '1 added' },
    ],
  },
  {
    name: 'anthropic-messages',
    metadata: { anthropic: { message_id: 'msg_1' } },
    build: (request) => buildAnthropicMessagesRequest(request),
    thread: [
      { role: 'user', content: [{ type: 'text', text: HI }] },
      {
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'c1', name: 'add', input: { a: 1 } }],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: '1 added' }] },
    ],
  },
  {
    name: 'openai-chat',
    metadata: { 'openai-chat': { extra_content: { signature: 's' } } },
    build: (request) => buildOpenaiChatRequest(request, {}),
    thread: [
      { role: 'user', content: HI },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id: 'c1',
            type: 'function',
            function: { name: 'add', arguments: '{"a":1}' },
            extra_content: { signature: 's' },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: '1 added' },
    ],
  },
  {
    name: 'gemini',
    metadata: { google: { id: 'c1', thoughtSignature: 'sig' } },
    build: (request) => buildGeminiRequest(request),
    thread: [
      { role: 'user', parts: [{ text: HI }] },
      {
        role: 'model',
        parts: [
          { functionCall: { id: 'c1', name: 'add', args: { a: 1 } }, thoughtSignature: 'sig' },
        ],
      },
      {
        role: 'user',
        parts: [{ functionResponse: { id: 'c1', name: 'add', response: { output: '1 added' } } }],
      },
    ],
  },
]

function threadIn(body: Record<string, unknown>): unknown[] {
  return (body['input'] ?? body['messages'] ?? body['contents']) as unknown[]
}

function calling(metadata: Record<string, unknown>) {
  return [
    ...call('x', 'add', { call_id: 'c1', arguments: '{"a":1}', provider_metadata: metadata }),
    end(),
  ]
}

describe('a call that this server answered is an ordinary call to the vendor', () => {
  test.each(vendors)('in the next round: $name', async ({ metadata, build, thread }) => {
    const { provider, submit, settled } = newRig({
      rounds: [calling(metadata), [end()]],
      tools: TOOLS,
    })
    await submit()
    await settled()
    const request = provider.calls[1]?.request as ProviderRequest
    expect(threadIn(build(request).body)).toEqual(thread)
  })

  test.each(vendors)('in the next turn: $name', async ({ metadata, build, thread }) => {
    const { provider, submit, settled } = newRig({
      rounds: [calling(metadata), [end()], [end()]],
      tools: TOOLS,
    })
    const { threadId } = await submit()
    await settled()
    await submit({ runId: 's', threadId })
    await settled()
    const sent = threadIn(build(provider.calls[2]?.request as ProviderRequest).body)
    const expected = thread as unknown[]
    expect(sent.slice(0, expected.length - 1)).toEqual(expected.slice(0, -1))
    expect(JSON.stringify(sent.at(expected.length - 1))).toContain('1 added')
    expect(JSON.stringify(sent)).not.toContain('not run')
  })

  test.each(vendors)('with the same id in two rounds: $name', async ({ metadata, build }) => {
    const again = call('x', 'add', {
      call_id: 'c1',
      arguments: '{"a":2}',
      provider_metadata: metadata,
    })
    const { provider, submit, settled } = newRig({
      rounds: [calling(metadata), [...again, end()], [end()]],
      tools: TOOLS,
    })
    await submit()
    await settled()
    const sent = threadIn(build(provider.calls[2]?.request as ProviderRequest).body)
    const answers = [...JSON.stringify(sent).matchAll(/(\d) added/g)].map(([, digit]) => digit)
    expect(answers).toEqual(['1', '2'])
  })
})

test('D2 a vendor dialect does not show calls that this server answered', async () => {
  const rounds = [
    [...call('1', 'add'), ...answer('2', 'So'), end('tool_calls')],
    [...answer('1', ' be it'), end()],
  ]
  const rig = newRig({ rounds, tools: TOOLS })
  await rig.submit()
  await rig.settled()
  const encoder = new ChatCompletionsEncoder({ id: 'chat', created: 0, model: 'small' })
  const frames = (await eventsOf(rig.log)).flatMap((event) => [...encoder.encode(event)])
  const text = JSON.stringify(frames)
  expect(text).not.toContain('tool_calls')
  expect(text).toContain('So')
  expect(text).toContain(' be it')
  expect(text).toContain('"finish_reason":"stop"')
})
