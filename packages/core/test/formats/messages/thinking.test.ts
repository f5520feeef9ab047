/** How each Claude model is asked to think, and what is done when it refuses. */

import { describe, expect, onTestFinished, test } from 'vitest'
import {
  createAnthropicMessagesProvider,
  type HttpProviderOptions,
} from '../../../../turnstream/src/index.ts'
import { startVendor } from '../../../../turnstream/test/providers/vendor-server.ts'
import { fixture } from '../../../../turnstream/test/server/openai/stage.ts'
import { buildAnthropicMessagesRequest } from '../../../src/formats/messages/request-out.ts'
import { traitsAfterEffort } from '../../../src/formats/model-traits.ts'
import type { ProviderRequest } from '../../../src/index.ts'

const INPUT: ProviderRequest['input'] = [
  { type: 'message', id: 'i1', origin: 'user', content: 'Hi' },
]
const ADAPTIVE = { type: 'adaptive', display: 'summarized' }

function bodyOf(model: string, settings: Partial<ProviderRequest>) {
  return buildAnthropicMessagesRequest({ model, input: INPUT, ...settings }).body
}

describe('an effort', () => {
  test.each([
    ['claude-opus-5-5', 'high', { thinking: ADAPTIVE, output_config: { effort: 'high' } }],
    ['claude-sonnet-5-5', 'minimal', { thinking: ADAPTIVE, output_config: { effort: 'low' } }],
    ['claude-haiku-5-5', 'xhigh', { thinking: ADAPTIVE, output_config: { effort: 'xhigh' } }],
    ['claude-fable-5', 'max', { thinking: ADAPTIVE, output_config: { effort: 'max' } }],
    ['claude-opus-4-7', 'xhigh', { thinking: ADAPTIVE, output_config: { effort: 'xhigh' } }],
    ['anthropic/claude-opus-4.8', 'low', { thinking: ADAPTIVE, output_config: { effort: 'low' } }],
    ['claude-opus-4-6', 'max', { thinking: ADAPTIVE, output_config: { effort: 'max' } }],
    ['claude-sonnet-4-6', 'medium', { thinking: ADAPTIVE, output_config: { effort: 'medium' } }],
    ['claude-next-9', 'high', { thinking: ADAPTIVE, output_config: { effort: 'high' } }],
    ['claude-opus-4-5-20251101', 'high', { thinking: budget(16_384) }],
    ['claude-sonnet-4-5', 'medium', { thinking: budget(8192) }],
    ['claude-sonnet-4-20250514', 'low', { thinking: budget(2048) }],
    ['claude-opus-4-latest', 'low', { thinking: budget(2048) }],
    ['claude-4-sonnet-20250514', 'low', { thinking: budget(2048) }],
    ['claude-opus-4@20250514', 'low', { thinking: budget(2048) }],
    ['claude-opus-4-1', 'low', { thinking: budget(2048) }],
    ['us.anthropic.claude-haiku-4-5-20251001-v1:0', 'low', { thinking: budget(2048) }],
    ['claude-3-7-sonnet-latest', 'low', { thinking: budget(2048) }],
    ['glm-5', 'low', { thinking: budget(2048) }],
  ] as const)('of %s, %s, is sent in the form it takes', (model, reasoningEffort, fields) => {
    const { thinking, output_config } = bodyOf(model, { reasoningEffort })
    expect({ thinking, output_config }).toEqual({ output_config: undefined, ...fields })
  })

  test('of none turns thinking off, where the model can', () => {
    expect(bodyOf('claude-opus-4-8', { reasoningEffort: 'none' })).toMatchObject({
      thinking: { type: 'disabled' },
    })
    expect(() => bodyOf('claude-opus-5-5', { reasoningEffort: 'none' })).toThrow('always thinks')
  })

  test('without room for a budget is no obstacle to models without budgets', () => {
    const body = bodyOf('claude-opus-5-5', { reasoningEffort: 'high', maxOutputTokens: 1000 })
    expect(body).toMatchObject({ max_tokens: 1000, thinking: ADAPTIVE })
  })
})

function budget(budget_tokens: number) {
  return { type: 'enabled', budget_tokens }
}

describe('a budget', () => {
  test.each(['claude-sonnet-4-5', 'claude-opus-4-6', 'claude-3-7-sonnet', 'kimi-k3'])(
    'of %s is sent unchanged',
    (model) => {
      const { thinking } = bodyOf(model, { thinkingBudget: 10_000 })
      expect(thinking).toEqual(budget(10_000))
    },
  )

  test.each(['claude-opus-5-5', 'claude-opus-4-7', 'claude-mythos-preview'])(
    'is refused for %s',
    (model) => {
      expect(() => bodyOf(model, { thinkingBudget: 10_000 })).toThrow('use reasoningEffort')
    },
  )
})

describe('sampling', () => {
  test.each(['claude-opus-4-7', 'claude-sonnet-5', 'claude-haiku-5-5'])(
    'is refused for %s, which samples by itself',
    (model) => {
      expect(() => bodyOf(model, { temperature: 0.5 })).toThrow('temperature')
      expect(() => bodyOf(model, { topP: 0.9 })).toThrow('topP')
      expect(() => bodyOf(model, { topK: 5 })).toThrow('topK')
      const defaults = bodyOf(model, { temperature: 1, topP: 1 })
      expect(defaults).not.toHaveProperty('temperature')
      expect(defaults).not.toHaveProperty('top_p')
    },
  )

  test('takes one of two for models since Opus 4.1', () => {
    expect(() => bodyOf('claude-haiku-4-5', { temperature: 0.5, topP: 0.9 })).toThrow('topP')
    expect(bodyOf('claude-haiku-4-5', { topP: 0.9 })).toMatchObject({ top_p: 0.9 })
    expect(bodyOf('claude-sonnet-4-0', { temperature: 0.5, topP: 0.9 })).toMatchObject({
      temperature: 0.5,
      top_p: 0.9,
    })
  })
})

const NOT_ENABLED =
  '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
const NOT_DISABLED = NOT_ENABLED.replace('enabled', 'disabled')
const NOT_ADAPTIVE = 'adaptive thinking is not supported on this model'

/** A vendor that takes one form of thinking, or none. */
async function startClaude(
  refusal: (thinking: { type: string } | undefined) => string | undefined,
  options: HttpProviderOptions = {},
) {
  const vendor = await startVendor((response) => {
    const { thinking } = JSON.parse(vendor.bodies.at(-1) ?? '')
    const message = refusal(thinking)
    if (message === undefined) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(fixture('anthropic-messages', 'text'))
      return
    }
    response.writeHead(400, { 'content-type': 'application/json' })
    const error = { type: 'invalid_request_error', message }
    response.end(JSON.stringify({ type: 'error', error }))
  })
  onTestFinished(() => vendor.close())
  const provider = createAnthropicMessagesProvider({
    baseUrl: vendor.url,
    maxRetries: 0,
    ...options,
  })
  const ask = async (model: string, settings: Partial<ProviderRequest>) => {
    const run = { runId: 'r', turnId: 't', threadId: 'h' }
    const payloads = await provider.stream({ model, input: INPUT, ...settings }, run).toArray()
    return payloads.at(-1)
  }
  const bodies = () => vendor.bodies.map((body) => JSON.parse(body))
  const thinking = () => bodies().map((body) => body.thinking?.type)
  return { ask, bodies, thinking, provider }
}

test.each([
  ["Unsupported value: 'xhigh' is not supported with the 'gpt-5' model.", true],
  ['reasoning_effort: Input should be low, medium or high, expected one of them', true],
  ['output_config.effort "max" is not supported on this model', true],
  ['tools.0.name: the max length is 64, and it must be shorter', false],
  ['max_tokens must be below 64000', false],
])('what is said about efforts: %s', (error, isAboutEfforts) => {
  expect(traitsAfterEffort('max', error) !== undefined).toBe(isAboutEfforts)
  expect(traitsAfterEffort('high', error)).toBeUndefined()
})

describe('a model that refuses the form', () => {
  test('is asked once more in the other one, and from then on only in that', async () => {
    const { ask, thinking } = await startClaude((given) =>
      given?.type === 'enabled' ? NOT_ENABLED : undefined,
    )
    expect(await ask('house-model', { reasoningEffort: 'high' })).toMatchObject({
      type: 'response_done',
    })
    expect(await ask('house-model', { thinkingBudget: 2000 })).toMatchObject({
      type: 'response_done',
    })
    expect(thinking()).toEqual(['enabled', 'adaptive', 'adaptive'])
  })

  test('gets a budget in place of an effort', async () => {
    const { ask, thinking } = await startClaude((given) =>
      given?.type === 'adaptive' ? NOT_ADAPTIVE : undefined,
    )
    expect(await ask('claude-next-9', { reasoningEffort: 'high' })).toMatchObject({
      type: 'response_done',
    })
    expect(thinking()).toEqual(['adaptive', 'enabled'])
  })

  test('thinks, if it cannot be turned off', async () => {
    const { ask, thinking } = await startClaude((given) =>
      given?.type === 'disabled' ? NOT_DISABLED : undefined,
    )
    const off = { thinking: { type: 'disabled' } } as const
    for (const settings of [off, off, { reasoningEffort: 'none' } as const]) {
      expect(await ask('claude-next-9', settings)).toMatchObject({ type: 'response_done' })
    }
    expect(thinking()).toEqual(['disabled', undefined, undefined, undefined])
  })

  test('keeps its efforts, if it refuses one only without thinking', async () => {
    const refusal = 'thinking.type.disabled is not supported with output_config.effort max'
    const { ask, bodies } = await startClaude((given) =>
      given?.type === 'disabled' ? refusal : undefined,
    )
    const off = { thinking: { type: 'disabled' }, reasoningEffort: 'max' } as const
    expect(await ask('claude-opus-5', off)).toMatchObject({ type: 'response_error' })
    expect(await ask('claude-opus-5', { reasoningEffort: 'max' })).toMatchObject({
      type: 'response_done',
    })
    const efforts = bodies().map((body) => body.output_config.effort)
    expect(efforts).toEqual(['max', 'max'])
  })

  test('is not asked a third time', async () => {
    const { ask, thinking } = await startClaude((given) =>
      given?.type === 'adaptive' ? NOT_ADAPTIVE : NOT_ENABLED,
    )
    expect(await ask('claude-next-9', { reasoningEffort: 'high' })).toMatchObject({
      type: 'response_error',
    })
    expect(thinking()).toEqual(['adaptive', 'enabled'])
  })
})
