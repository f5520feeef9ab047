/** Thinking and efforts on every API: what each vendor is asked with, and what the header names. */
import { describe, expect, test } from 'vitest'
import { fixtures, stage, type VendorName } from './openai/stage.ts'
import { send } from './responses/support.ts'

const DOORS = {
  chat: ['POST /v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }],
  responses: ['POST /v1/responses', { input: 'Hi' }],
  messages: [
    'POST /v1/messages',
    { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 64_000 },
  ],
} as const

interface Case {
  readonly door?: keyof typeof DOORS
  readonly vendor?: VendorName
  readonly model: string
}

async function upstream(
  { door = 'messages', vendor = 'anthropic-messages', model }: Case,
  body: object,
) {
  const { server, asked } = await stage(vendor, fixtures(vendor, 'text'))
  const [path, ask] = DOORS[door]
  const answer = await send(server, path, { model: `vendor/${model}`, ...ask, ...body })
  expect([answer.status, answer.text]).toEqual([200, expect.anything()])
  return { asked: asked(), ignored: answer.headers.get('x-turnstream-ignored') }
}

describe('to Anthropic, /v1/messages passes on unchanged', () => {
  const adaptive = { type: 'adaptive', display: 'omitted' }
  test.each([
    ['claude-opus-5-5', { thinking: adaptive, output_config: { effort: 'xhigh' } }],
    ['claude-opus-5-5', { thinking: { type: 'adaptive' } }],
    ['claude-opus-5-5', { output_config: { effort: 'max' } }],
    ['claude-sonnet-5-5', { thinking: { type: 'between_tools' } }],
    ['claude-opus-5', { thinking: { type: 'disabled' }, output_config: { effort: 'low' } }],
  ])('to %s: %j', async (model, given) => {
    const { asked, ignored } = await upstream({ model }, given)
    const { thinking, output_config } = asked
    expect({ thinking, output_config, ignored }).toEqual({
      thinking: undefined,
      output_config: undefined,
      ignored: null,
      ...given,
    })
  })

  test('a budget of the client', async () => {
    const thinking = { type: 'enabled', budget_tokens: 10_000 }
    const { asked, ignored } = await upstream({ model: 'claude-sonnet-4-5' }, { thinking })
    expect([asked.thinking, asked.output_config, ignored]).toEqual([thinking, undefined, null])
    const shown = { ...thinking, display: 'omitted' }
    const both = { thinking: shown, output_config: { effort: 'high' } }
    const later = await upstream({ model: 'claude-opus-4-6' }, both)
    expect([later.asked.thinking, later.asked.output_config]).toEqual([shown, { effort: 'high' }])
  })
})

test('a budget becomes an effort for models without budgets, and is named', async () => {
  const thinking = { type: 'enabled', budget_tokens: 10_000 }
  const { asked, ignored } = await upstream({ model: 'claude-opus-5-5' }, { thinking })
  expect(asked.thinking).toEqual({ type: 'adaptive', display: 'summarized' })
  expect(asked.output_config).toEqual({ effort: 'medium' })
  expect(ignored).toBe('thinking.budget_tokens')
})

test('adaptive thinking becomes a budget for models without it', async () => {
  const thinking = { type: 'adaptive' }
  const { asked, ignored } = await upstream({ model: 'claude-haiku-4-5' }, { thinking })
  expect(asked.thinking).toEqual({ type: 'enabled', budget_tokens: 8192 })
  expect(ignored).toBeNull()
})

describe('thinking that the model cannot turn off', () => {
  test.each([
    ['claude-opus-5-5', undefined],
    ['claude-fable-5-2', undefined],
    ['claude-sonnet-5-5', { type: 'between_tools' }],
  ])('comes closest to off, and is named: %s', async (model, expected) => {
    const { asked, ignored } = await upstream({ model }, { thinking: { type: 'disabled' } })
    expect([asked.thinking, asked.output_config, ignored]).toEqual([
      expected,
      undefined,
      'thinking',
    ])
    const chat = await upstream({ door: 'chat', model }, { reasoning_effort: 'none' })
    expect([chat.asked.thinking, chat.asked.output_config]).toEqual([expected, undefined])
    expect(chat.ignored).toBe('reasoning_effort')
  })

  test('keeps the effort of the client', async () => {
    const given = { thinking: { type: 'disabled' }, output_config: { effort: 'low' } }
    const { asked, ignored } = await upstream({ model: 'claude-opus-5-5' }, given)
    expect([asked.thinking, asked.output_config]).toEqual([undefined, { effort: 'low' }])
    expect(ignored).toBe('thinking')
  })
})

test('a budget reaches Gemini as it is', async () => {
  const thinking = { type: 'enabled', budget_tokens: 10_000 }
  const { asked, ignored } = await upstream(
    { vendor: 'gemini', model: 'gemini-2.5-pro' },
    { thinking },
  )
  expect(asked.generationConfig.thinkingConfig.thinkingBudget).toBe(10_000)
  expect(ignored).toBeNull()
})

test('an effort about an answer without thinking stays at Anthropic', async () => {
  const given = { thinking: { type: 'disabled' }, output_config: { effort: 'low' } }
  const { asked, ignored } = await upstream({ vendor: 'openai-responses', model: 'gpt-5.6' }, given)
  expect(asked.reasoning).toBeUndefined()
  expect(ignored).toBe('output_config.effort')
})

describe('the effort', () => {
  const asEffort = {
    chat: (effort: string) => ({ reasoning_effort: effort }),
    responses: (effort: string) => ({ reasoning: { effort } }),
    messages: (effort: string) => ({ thinking: { type: 'adaptive' }, output_config: { effort } }),
  }
  const PATHS = {
    chat: 'reasoning_effort',
    responses: 'reasoning.effort',
    messages: 'output_config.effort',
  }
  // oxlint-disable-next-line typescript/no-explicit-any -- the body of any vendor
  const sent = (body: any) =>
    body.reasoning?.effort ??
    body.reasoning_effort ??
    body.output_config?.effort ??
    body.thinking?.budget_tokens ??
    body.generationConfig?.thinkingConfig?.thinkingBudget
  const rows = [
    ['anthropic-messages', 'claude-opus-5-5', 'xhigh', 'xhigh', true],
    ['anthropic-messages', 'claude-opus-5-5', 'max', 'max', true],
    ['anthropic-messages', 'claude-opus-4-6', 'xhigh', 'high', false],
    ['anthropic-messages', 'claude-opus-4-6', 'max', 'max', true],
    ['anthropic-messages', 'claude-haiku-4-5', 'max', 16_384, false],
    ['openai-responses', 'gpt-5.6', 'max', 'max', true],
    ['openai-responses', 'gpt-5.4', 'max', 'xhigh', false],
    ['openai-responses', 'gpt-5-mini', 'xhigh', 'high', false],
    ['openai-chat', 'house-model', 'max', 'max', true],
    ['openai-chat', 'openai/o3', 'xhigh', 'high', false],
    ['gemini', 'gemini-2.5-pro', 'max', 24_576, false],
  ] as const
  const cases = (['chat', 'responses', 'messages'] as const).flatMap((door) =>
    rows.map((row) => [door, ...row] as const),
  )
  test.each(cases)('%s to %s %s: %s is %s, named unless known (%s)', async (...row) => {
    const [door, vendor, model, effort, expected, isKnown] = row
    const { asked, ignored } = await upstream({ door, vendor, model }, asEffort[door](effort))
    expect([sent(asked), ignored]).toEqual([expected, isKnown ? null : PATHS[door]])
  })
})

test.each([
  ['openai-responses', 'chat', 'gpt-4.1', 'reasoning_effort'],
  ['openai-chat', 'responses', 'gpt-4o-mini', 'reasoning.effort'],
  ['openai-responses', 'messages', 'gpt-4o', 'output_config.effort, thinking'],
] as const)('%s, asked through %s for %s, gets no effort', async (vendor, door, model, names) => {
  const given = {
    chat: { reasoning_effort: 'low' },
    responses: { reasoning: { effort: 'low' } },
    messages: { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
  }
  const { asked, ignored } = await upstream({ door, vendor, model }, given[door])
  expect([asked.reasoning, asked.reasoning_effort, ignored]).toEqual([undefined, undefined, names])
})

describe.each(['chat', 'responses', 'messages'] as const)('%s', (door) => {
  test('drops sampling that the model refuses, and names it', async () => {
    const given = { temperature: 0.2, top_p: 0.9, top_k: 5 }
    const { asked, ignored } = await upstream({ door, model: 'claude-opus-5-5' }, given)
    expect([asked.temperature, asked.top_p, asked.top_k]).toEqual([undefined, undefined, undefined])
    expect(ignored).toBe('temperature, top_p, top_k')
    const openai = { door, vendor: 'openai-responses', model: 'gpt-5-mini' } as const
    const other = await upstream(openai, { temperature: 0.2 })
    expect([other.asked.temperature, other.ignored]).toEqual([undefined, 'temperature'])
  })
})

test('a server that does not know an effort is asked for high, at once from then on', async () => {
  const { server, vendor } = await stage('openai-chat', (response, _request, count) => {
    const { reasoning_effort: effort } = JSON.parse(vendor.bodies[count - 1] ?? '')
    if (effort === 'max') {
      const message =
        "Unsupported value: 'reasoning_effort' does not support 'max' with this model."
      response.writeHead(400, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error: { message, type: 'invalid_request_error' } }))
      return
    }
    void fixtures('openai-chat', 'text')(response, _request, count)
  })
  const [path, ask] = DOORS.chat
  const submit = () =>
    send(server, path, { model: 'vendor/local', ...ask, reasoning_effort: 'max' })
  expect((await submit()).status).toBe(200)
  const second = await submit()
  expect(second.headers.get('x-turnstream-ignored')).toBe('reasoning_effort')
  expect(vendor.bodies.map((body) => JSON.parse(body).reasoning_effort)).toEqual([
    'max',
    'high',
    'high',
  ])
})
