import { describe, expect, test } from 'vitest'
import { Providers } from '../../src/turns/providers.ts'
import { puppet } from './rig.ts'

const providers = new Providers([
  { provider: puppet([], 'openai'), models: ['gpt-5', 'gpt-5-mini'], defaultModel: 'gpt-5-mini' },
  { provider: puppet([], 'anthropic'), models: ['claude', 'gpt-5'], defaultModel: 'claude' },
  { provider: puppet([], 'router'), models: ['meta/llama'], defaultModel: 'meta/llama' },
])

const rows = [
  { name: 'nothing is the default of the first', wish: {}, chosen: 'openai gpt-5-mini' },
  {
    name: 'a bare model is of whoever lists it',
    wish: { model: 'claude' },
    chosen: 'anthropic claude',
  },
  { name: 'of two that list it the first', wish: { model: 'gpt-5' }, chosen: 'openai gpt-5' },
  {
    name: 'a bare model that nobody lists is of the first',
    wish: { model: 'o9' },
    chosen: 'openai o9',
  },
  {
    name: 'a provider before the slash',
    wish: { model: 'anthropic/gpt-5' },
    chosen: 'anthropic gpt-5',
  },
  { name: 'a model that it does not list', wish: { model: 'anthropic/x' }, chosen: 'anthropic x' },
  { name: 'a provider and no model', wish: { model: 'anthropic/' }, chosen: 'anthropic claude' },
  {
    name: 'a model with a slash in it',
    wish: { model: 'meta/llama' },
    chosen: 'router meta/llama',
  },
  { name: 'two slashes', wish: { model: 'router/meta/llama' }, chosen: 'router meta/llama' },
  { name: 'a slash after nobody', wish: { model: 'who/what' }, chosen: 'openai who/what' },
  { name: 'a slash at the start', wish: { model: '/x' }, chosen: 'openai /x' },
  { name: 'an empty model', wish: { model: '' }, chosen: 'openai gpt-5-mini' },
  { name: 'a provider alone', wish: { providerId: 'anthropic' }, chosen: 'anthropic claude' },
  {
    name: 'a provider and its model',
    wish: { providerId: 'anthropic', model: 'gpt-5' },
    chosen: 'anthropic gpt-5',
  },
  {
    name: 'a provider named twice',
    wish: { providerId: 'anthropic', model: 'anthropic/claude' },
    chosen: 'anthropic claude',
  },
  {
    name: 'a provider and the model of another',
    wish: { providerId: 'router', model: 'openai/gpt-5' },
    chosen: 'router openai/gpt-5',
  },
]

describe('W7 the model of a turn', () => {
  test.each(rows)('$name', ({ wish, chosen }) => {
    const { provider, model } = providers.choose(wish)
    expect(`${provider.id} ${model}`).toBe(chosen)
  })

  test('is refused when its provider is not there, with the names of those that are', () => {
    expect(() => providers.choose({ providerId: 'nobody' })).toThrow(
      expect.objectContaining({
        code: 'MODEL_UNKNOWN',
        message: expect.stringContaining('openai, anthropic, router') as string,
      }),
    )
  })

  test('is one of a list with the default of each provider first, and none twice', () => {
    expect(providers.models).toEqual([
      'openai/gpt-5-mini',
      'openai/gpt-5',
      'anthropic/claude',
      'anthropic/gpt-5',
      'router/meta/llama',
    ])
  })

  test.each([
    { name: 'no provider', configured: [] },
    {
      name: 'two of the same id',
      configured: ['a', 'a'].map((id) => ({
        provider: puppet([], id),
        models: [],
        defaultModel: 'm',
      })),
    },
  ])('needs providers that can be told apart: $name', ({ configured }) => {
    expect(() => new Providers(configured)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    )
  })
})
