/** Servers that repeat one id for every response. The id tells which items of a thread are of one response. */

import { expect, test } from 'vitest'
import type { OutputItem } from '../../../core/src/index.ts'
import {
  createAnthropicMessagesProvider,
  createOpenaiChatProvider,
  type HttpProviderOptions,
  type Provider,
} from '../../src/index.ts'

const PROMPT: OutputItem = { type: 'message', id: 'u', origin: 'user', content: 'Hi' }

interface Round {
  readonly calls: readonly string[]
}

function chat({ calls }: Round): unknown[] {
  const tool_calls = calls.map((id, index) => {
    return { index, id, type: 'function', function: { name: 'f', arguments: '{}' } }
  })
  const chunk = (choice: object) => ({ id: 'chatcmpl-1', model: 'm', choices: [choice] })
  return [
    chunk({ index: 0, delta: { role: 'assistant', tool_calls } }),
    chunk({ index: 0, delta: {}, finish_reason: 'tool_calls' }),
  ]
}

function messages({ calls }: Round): unknown[] {
  const usage = { input_tokens: 1, output_tokens: 1 }
  return [
    { type: 'message_start', message: { id: 'msg_1', model: 'm', content: [], usage } },
    ...calls.flatMap((id, index) => [
      {
        type: 'content_block_start',
        index,
        content_block: { type: 'tool_use', id, name: 'f', input: {} },
      },
      { type: 'content_block_stop', index },
    ]),
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage },
    { type: 'message_stop' },
  ]
}

function roles(body: { messages: { role: string }[] }): string[] {
  return body.messages.map(({ role }) => role)
}

const SERVERS: [
  name: string,
  create: (options: HttpProviderOptions) => Provider,
  events: (round: Round) => unknown[],
  expected: string[],
][] = [
  [
    'Chat Completions',
    createOpenaiChatProvider,
    chat,
    ['user', 'assistant', 'tool', 'tool', 'assistant', 'tool', 'tool'],
  ],
  [
    'Messages',
    createAnthropicMessagesProvider,
    messages,
    ['user', 'assistant', 'user', 'assistant', 'user'],
  ],
]

test.each(SERVERS)(
  '%s: each round stays a message of its own',
  async (_, create, toEvents, expected) => {
    const bodies: string[] = []
    let events: unknown[] = []
    const fetch = async (_url: unknown, init?: RequestInit) => {
      bodies.push(typeof init?.body === 'string' ? init.body : '')
      const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
      return new Response(text, { headers: { 'content-type': 'text/event-stream' } })
    }
    const provider = create({ apiKey: 'k', fetch, maxRetries: 0 })
    const input: OutputItem[] = [PROMPT]
    for (const [round, calls] of [['a', 'b'], ['c', 'd'], ['e']].entries()) {
      events = toEvents({ calls })
      const run = { runId: `r-${round}`, turnId: 't', threadId: 'h' }
      const payloads = await provider.stream({ model: 'm', input }, run).toArray()
      for (const payload of payloads) {
        if (payload.type !== 'item_done' || payload.final_item.type !== 'function_call') continue
        const { id, call_id } = payload.final_item
        // The tool answers while the response goes on.
        const output = { id: `${id}-o`, call_id, output: 'x', success: true }
        input.push(payload.final_item, { type: 'function_call_output', ...output })
      }
    }
    expect(roles(JSON.parse(bodies.at(-1) ?? ''))).toEqual(expected)
  },
)
