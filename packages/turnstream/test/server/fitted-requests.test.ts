/** What a vendor would refuse in a request that was written for another one: fitted, and named in the header. */
import { describe, expect, test } from 'vitest'
import { createOpenaiChatProvider } from '../../src/index.ts'
import { fixture, fixtures, stage } from './openai/stage.ts'
import { send } from './responses/support.ts'
import { startServer } from './support.ts'

const LONG = `call_${'x'.repeat(80)}`

const DOORS = {
  chat: {
    path: 'POST /v1/chat/completions',
    ask: { messages: [{ role: 'user', content: 'Hi' }] },
    thread: {
      messages: [
        { role: 'user', content: 'Hi' },
        {
          role: 'assistant',
          content: ' ',
          tool_calls: [{ id: LONG, type: 'function', function: { name: 'f', arguments: '{}' } }],
        },
        { role: 'tool', tool_call_id: LONG, content: 'x' },
      ],
    },
    limit: (tokens: number) => ({ max_tokens: tokens }),
    names: { ids: 'messages[].tool_calls[].id', limit: 'max_tokens' },
  },
  responses: {
    path: 'POST /v1/responses',
    ask: { input: 'Hi' },
    thread: {
      input: [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: ' ' },
        { type: 'function_call', call_id: LONG, name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: LONG, output: 'x' },
      ],
    },
    limit: (tokens: number) => ({ max_output_tokens: tokens }),
    names: { ids: 'input[].call_id', limit: 'max_output_tokens' },
  },
  messages: {
    path: 'POST /v1/messages',
    ask: { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 100 },
    thread: {
      max_tokens: 100,
      messages: [
        { role: 'user', content: 'Hi' },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: ' ' },
            { type: 'tool_use', id: LONG, name: 'f', input: {} },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: LONG, content: 'x' }] },
      ],
    },
    limit: (tokens: number) => ({ max_tokens: tokens }),
    names: { ids: 'messages[].content[].id', limit: 'max_tokens' },
  },
} as const

describe.each(Object.values(DOORS))('$path', ({ path, ask, thread, limit, names }) => {
  const submit = async (vendor: 'openai-responses' | 'anthropic-messages', body: object) => {
    const { server, asked } = await stage(vendor, fixtures(vendor, 'text'))
    const answer = await send(server, path, { model: 'vendor/m', ...body })
    expect([answer.status, answer.text]).toEqual([200, expect.anything()])
    return { asked: asked(), ignored: answer.headers.get('x-turnstream-ignored') }
  }

  test('call ids over 64 characters are shortened for OpenAI, and named', async () => {
    const { asked, ignored } = await submit('openai-responses', thread)
    const ids = asked.input.flatMap(({ call_id }: { call_id?: string }) => call_id ?? [])
    expect(ids).toEqual([LONG.slice(0, 64), LONG.slice(0, 64)])
    expect(ignored).toBe(names.ids)
  })

  test('Anthropic gets them as they are, without white space', async () => {
    const { asked, ignored } = await submit('anthropic-messages', thread)
    expect(asked.messages[1].content).toEqual([
      { type: 'tool_use', id: LONG, name: 'f', input: {} },
    ])
    expect(ignored).toBeNull()
  })

  test('OpenAI is asked for 16 tokens at least', async () => {
    const less = await submit('openai-responses', { ...ask, ...limit(5) })
    expect([less.asked.max_output_tokens, less.ignored]).toEqual([16, names.limit])
    const enough = await submit('openai-responses', { ...ask, ...limit(16) })
    expect([enough.asked.max_output_tokens, enough.ignored]).toEqual([16, null])
    const other = await submit('anthropic-messages', { ...ask, ...limit(5) })
    expect([other.asked.max_tokens, other.ignored]).toEqual([5, null])
  })

  test('so is it by its Chat Completions, but no compatible server', async () => {
    for (const [baseUrl, isFitted] of [
      ['https://api.openai.com/v1', true],
      ['http://127.0.0.1:1/v1', false],
    ] as const) {
      const bodies: string[] = []
      const fetch = async (_url: unknown, init?: RequestInit) => {
        bodies.push(typeof init?.body === 'string' ? init.body : '')
        const headers = { 'content-type': 'text/event-stream' }
        return new Response(fixture('openai-chat', 'text'), { headers })
      }
      const provider = createOpenaiChatProvider({ id: 'vendor', apiKey: 'k', baseUrl, fetch })
      const server = await startServer({ more: [provider] })
      const body = { model: 'vendor/m', ...ask, ...thread, ...limit(5) }
      const answer = await send(server, path, body)
      expect([answer.status, answer.text]).toEqual([200, expect.anything()])
      const asked = JSON.parse(bodies[0] ?? '')
      const ids = asked.messages.flatMap(
        (each: { tool_calls?: { id: string }[]; tool_call_id?: string }) =>
          each.tool_calls?.map(({ id }) => id) ?? each.tool_call_id ?? [],
      )
      const id = isFitted ? LONG.slice(0, 64) : LONG
      expect(ids).toEqual([id, id])
      expect(asked.max_completion_tokens ?? asked.max_tokens).toBe(isFitted ? 16 : 5)
      const ignored = answer.headers.get('x-turnstream-ignored')?.split(', ').toSorted()
      expect(ignored).toEqual(isFitted ? [names.ids, names.limit].toSorted() : undefined)
    }
  })
})
