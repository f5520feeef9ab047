/** Message threads: SDKs that send only what is new, and expect the server to have the rest. */
import Anthropic from '@anthropic-ai/sdk'
import { describe, expect, test } from 'vitest'
import { fixtures, stage, type VendorName } from '../openai/stage.ts'
import { json, send } from '../responses/support.ts'

const RESULT = 'It is sunny.'
const ASK = { model: 'vendor/m', max_tokens: 1000, system: 'Be brief.' }

async function start(...names: string[]) {
  const vendor: VendorName = 'anthropic-messages'
  const staged = await stage(vendor, fixtures(vendor, ...names))
  const client = new Anthropic({ apiKey: 'any', baseURL: staged.server.url, maxRetries: 0 })
  const roles = (index?: number) =>
    staged.asked(index).messages.map(({ role }: { role: string }) => role)
  return { ...staged, client, roles }
}

const WEATHER = {
  type: 'custom' as const,
  name: 'get_weather',
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' } } },
  run: () => RESULT,
  parse: (input: unknown) => input,
}

describe.each([true, false])('with stream: %j', (stream) => {
  test('a tool runner sends the complete history in every round', async () => {
    const { client, asked, vendor, roles } = await start(
      'tool-call',
      'tool-call',
      'tool-call',
      'text',
    )
    const messages = [{ role: 'user' as const, content: 'Hello' }]
    const runner = client.beta.messages.toolRunner({ ...ASK, messages, tools: [WEATHER], stream })
    const last = await runner.runUntilDone()
    expect(last.stop_reason).toBe('end_turn')
    expect(vendor.bodies).toHaveLength(4)
    const rounds = ['user', 'assistant', 'user', 'assistant', 'user', 'assistant', 'user']
    for (const index of [0, 1, 2, 3]) {
      expect(roles(index)).toEqual(rounds.slice(0, 2 * index + 1))
      expect(JSON.stringify(asked(index))).toContain('Be brief.')
      expect(asked(index).tools).toHaveLength(1)
    }
    expect(JSON.stringify(asked()).split(RESULT)).toHaveLength(4)
  })

  test('a thread sends the complete history in every turn', async () => {
    const { client, asked, vendor } = await start('text')
    const thread = client.beta.messages.thread(ASK)
    for (const content of ['One', 'Two', 'Three']) {
      const message = { role: 'user' as const, content }
      const turn = stream ? thread.stream(message).finalMessage() : thread.send(message)
      expect((await turn).stop_reason).toBe('end_turn')
    }
    expect(vendor.bodies).toHaveLength(3)
    expect(asked().messages).toHaveLength(5)
    for (const text of ['Be brief.', 'One', 'Two', 'Three']) {
      expect(JSON.stringify(asked())).toContain(text)
    }
  })
})

const CONTINUE = { type: 'continue', previous_message_id: 'msg_1' }
const BODY = { model: 'vendor/m', max_tokens: 10, messages: [{ role: 'user', content: 'And?' }] }

test.each([
  ['POST /v1/messages', BODY],
  ['POST /v1/messages', { ...BODY, messages: [] }],
  ['POST /v1/messages/count_tokens', BODY],
] as const)('%s never answers what continues a thread: %j', async (route, body) => {
  const { server, vendor } = await start('text')
  const answer = await send(server, route, { ...body, thread: CONTINUE })
  expect(answer.status).toBe(404)
  expect(json(answer).error).toMatchObject({
    type: 'not_found_error',
    details: { error_code: 'thread_not_found' },
  })
  expect(vendor.bodies).toEqual([])
})

test('an unknown kind of thread is refused', async () => {
  const { server, vendor } = await start('text')
  const body = { ...BODY, thread: { type: 'fork', previous_message_id: 'msg_1' } }
  const answer = await send(server, 'POST /v1/messages', body)
  expect(answer.status).toBe(400)
  const details = { error_code: 'thread_unsupported_request', unsupported: ['thread.type'] }
  expect(json(answer).error).toMatchObject({ type: 'invalid_request_error', details })
  expect(vendor.bodies).toEqual([])
})

test.each(['continue', 5, '', {}, { type: null }])(
  'a thread that is %j is refused',
  async (thread) => {
    const { server } = await start('text')
    const answer = await send(server, 'POST /v1/messages', { ...BODY, thread })
    expect([answer.status, json(answer).error.type]).toEqual([400, 'invalid_request_error'])
  },
)

test('the first request of a thread is answered, and Anthropic does not get its thread', async () => {
  const { server, asked } = await start('text')
  const answer = await send(server, 'POST /v1/messages', { ...BODY, thread: { type: 'create' } })
  expect(answer.status).toBe(200)
  expect(answer.headers.get('x-turnstream-ignored')).toBe('thread')
  expect(asked()).not.toHaveProperty('thread')
})
