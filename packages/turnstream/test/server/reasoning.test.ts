/** Summaries of reasoning and compactions, which only OpenAI has. */
import { describe, expect, test } from 'vitest'
import type { Answer } from '../providers/vendor-server.ts'
import { fixtures, stage, VENDORS } from './openai/stage.ts'
import { json, send } from './responses/support.ts'

const IGNORED = 'x-turnstream-ignored'
const RESPONSES = 'POST /v1/responses'
const ASK = { model: 'vendor/m', input: 'Hi' }
const TEXT = fixtures('openai-responses', 'text')

const SUMMARIES: [body: object, asked: object | undefined][] = [
  [{ reasoning: { summary: 'auto' } }, { summary: 'auto' }],
  [{ reasoning: { generate_summary: 'detailed' } }, { summary: 'detailed' }],
  [{ reasoning: { effort: 'low', summary: 'concise' } }, { effort: 'low', summary: 'concise' }],
  [{ reasoning: { effort: 'low' } }, { effort: 'low' }],
  [{ reasoning: { summary: 'loud' } }, undefined],
]

test.each(SUMMARIES)('OpenAI is asked for the summary of %j', async (body, asked) => {
  const { server, asked: upstream } = await stage('openai-responses', TEXT)
  const answer = await send(server, RESPONSES, { ...ASK, ...body })
  expect(upstream().reasoning).toEqual(asked)
  expect(answer.headers.get(IGNORED)).toBe(asked === undefined ? 'reasoning.summary' : null)
})

test('summaries are named as ignored, and shown as requested, at a provider without them', async () => {
  const { server } = await stage('anthropic-messages', fixtures('anthropic-messages', 'thinking'))
  const body = { ...ASK, reasoning: { summary: 'auto' } }
  const answer = await send(server, RESPONSES, body)
  expect(answer.headers.get(IGNORED)).toBe('reasoning.summary')
  const { output, reasoning } = json(answer)
  expect(reasoning).toEqual({ effort: null, summary: 'auto' })
  expect(output[0]).toMatchObject({ type: 'reasoning', summary: [{ type: 'summary_text' }] })
})

test.each([...VENDORS, 'gemini' as const])(
  '%s gets a compaction, or it is named as ignored',
  async (vendor) => {
    const { server, asked } = await stage(vendor, fixtures(vendor, 'text'))
    const input = [
      { type: 'compaction', encrypted_content: 'x' },
      { role: 'user', content: 'Hi' },
    ]
    const answer = await send(server, RESPONSES, { model: 'vendor/m', input })
    const isSent = vendor === 'openai-responses'
    expect(answer.headers.get(IGNORED)).toBe(isSent ? null : 'input[] (compaction)')
    expect(JSON.stringify(asked()).includes('compaction')).toBe(isSent)
  },
)

describe('an organization that may not summarize', () => {
  const message = 'Your organization must be verified to generate reasoning summaries.'
  const refuse: Answer = (response, request, count) => {
    if (!bodies[count - 1]?.includes('"summary"')) return TEXT(response, request, count)
    response.writeHead(400, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: { message, param: 'reasoning.summary', code: 'x' } }))
  }
  let bodies: string[] = []

  test('is asked without a summary that no client requested, and then no more', async () => {
    const { server, vendor } = await stage('openai-responses', refuse)
    bodies = vendor.bodies
    const messages = [{ role: 'user', content: 'Hi' }]
    const body = { model: 'vendor/m', messages, reasoning_effort: 'low' }
    for (const calls of [2, 3]) {
      const answer = await send(server, 'POST /v1/chat/completions', body)
      expect([answer.status, vendor.bodies.length]).toEqual([200, calls])
      expect(JSON.parse(vendor.bodies.at(-1) ?? '').reasoning).toEqual({ effort: 'low' })
    }
  })

  test('refuses one that a client requested', async () => {
    const { server, vendor } = await stage('openai-responses', refuse)
    bodies = vendor.bodies
    const body = { ...ASK, reasoning: { summary: 'auto' } }
    const answer = await send(server, RESPONSES, body)
    expect([answer.status, vendor.bodies.length]).toEqual([400, 1])
    expect(answer.text).toContain('verified')
  })
})
