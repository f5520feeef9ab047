import { describe, expect, test } from 'vitest'
import { Providers } from '../../src/server.ts'
import { puppet } from './rig.ts'

const providers = new Providers([
  { provider: puppet([], 'openai'), models: ['gpt-5', 'gpt-5-mini'], defaultModel: 'gpt-5-mini' },
  { provider: puppet([], 'anthropic'), models: ['claude', 'gpt-5'], defaultModel: 'claude' },
  { provider: puppet([], 'router'), models: ['meta/llama'], defaultModel: 'meta/llama' },
])

const rows = [
  { name: 'no model is the default of the first provider', wish: {}, chosen: 'openai gpt-5-mini' },
  {
    name: 'a bare model belongs to the provider that lists it',
    wish: { model: 'claude' },
    chosen: 'anthropic claude',
  },
  { name: 'of two that list it the first', wish: { model: 'gpt-5' }, chosen: 'openai gpt-5' },
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

  const refused = [
    ['a provider that is not configured', { providerId: 'nobody' }, 'openai, anthropic, router'],
    ['the kind of one', { model: 'gemini/flash' }, 'gemini is not configured; available: openai'],
    ['an unlisted model', { model: 'o9' }, 'available: openai/gpt-5-mini, openai/gpt-5'],
    ['a misspelt model', { model: 'gpt5' }, 'did you mean openai/gpt-5'],
    ['a misspelt provider', { model: 'antropic/claude' }, 'did you mean anthropic/claude?'],
    ['a provider in capitals', { model: 'OpenAI/gpt-5' }, 'did you mean openai/gpt-5, '],
    ['a provider alone', { model: 'anthropic' }, 'anthropic; available:'],
    ['a slash at the start', { model: '/x' }, 'available:'],
    ['a slash without a provider', { model: 'who/what' }, 'who/what; available:'],
    ['a long name', { model: 'x'.repeat(300) }, 'available:'],
  ] as const

  test.each(refused)('V1 %s is rejected with suggestions', (_, wish, told) => {
    const message = expect.stringContaining(told) as string
    expect(() => providers.choose(wish)).toThrow(
      expect.objectContaining({ code: 'MODEL_UNKNOWN', message }),
    )
  })

  test("V1 goes to a provider with any, unless the name is another provider's", () => {
    const some = new Providers([
      { provider: puppet([], 'anthropic'), models: ['claude'], defaultModel: 'claude' },
      { provider: puppet([], 'router'), models: 'any', defaultModel: 'llama' },
      { provider: puppet([], 'other'), models: 'any', defaultModel: 'llama' },
    ])
    const taken = ['o9', 'meta/llama', '/x', 'who/what'].map((model) => some.choose({ model }))
    expect(taken.map(({ provider }) => provider.id)).toEqual(taken.map(() => 'router'))
    expect(some.choose({ model: 'claude' }).provider.id).toBe('anthropic')
    for (const model of ['openai/gpt-5', 'Gemini/x', 'scripted/answer', 'ANTHROPIC/x', 'openai']) {
      expect(() => some.choose({ model })).toThrow('Unknown model')
    }
    expect(some.choose({ model: 'router/openai/gpt-5' }).model).toBe('openai/gpt-5')
  })

  test('of an unlisted provider is reached only by its full name', () => {
    const scripted = {
      ...{ provider: puppet([], 'scripted'), models: ['answer'], defaultModel: 'answer' },
      unlisted: true,
    }
    const openai = { provider: puppet([], 'openai'), models: ['gpt-5'], defaultModel: 'gpt-5' }
    const some = new Providers([openai, scripted])
    expect(some.models).toEqual(['openai/gpt-5'])
    expect(some.allModels).toEqual(['openai/gpt-5', 'scripted/answer'])
    expect(some.choose({ model: 'scripted/answer' }).provider.id).toBe('scripted')
    expect(() => some.choose({ model: 'answer' })).toThrow('did you mean scripted/answer?')
    expect(new Providers([scripted, openai]).models).toEqual(['scripted/answer', 'openai/gpt-5'])
  })

  test('is listed once, with the default of each provider first', () => {
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

describe('an alias', () => {
  const openai = { provider: puppet([], 'openai'), models: ['gpt-5'], defaultModel: 'gpt-5' }
  const router = { provider: puppet([], 'router'), models: 'any', defaultModel: 'llama' } as const
  const scripted = { provider: puppet([], 'scripted'), defaultModel: 'answer', unlisted: true }
  const configured = [openai, router, scripted]
  const aliases = { 'claude-five': 'gpt-5', 'claude-x': 'router/meta/x' }
  const some = new Providers(configured, aliases)

  test.each([
    [{ model: 'claude-five' }, 'openai gpt-5'],
    [{ model: 'claude-x' }, 'router meta/x'],
    [{ model: 'claude-five', providerId: 'openai' }, 'openai gpt-5'],
    // The caller means another provider than the alias.
    [{ model: 'claude-five', providerId: 'router' }, 'router claude-five'],
    [{ model: 'router/claude-five' }, 'router claude-five'],
    [{ model: 'claude-6' }, 'router claude-6'],
  ])('%j', (wish, chosen) => {
    const { provider, model } = some.choose(wish)
    expect(`${provider.id} ${model}`).toBe(chosen)
  })

  test('is listed with its model, and suggested', () => {
    expect(some.aliases).toEqual([
      { alias: 'claude-five', model: 'openai/gpt-5' },
      { alias: 'claude-x', model: 'router/meta/x' },
    ])
    const strict = new Providers([openai], { 'claude-five': 'gpt-5' })
    expect(() => strict.choose({ model: 'claude-fife' })).toThrow('did you mean claude-five?')
  })

  test.each([
    ['a listed model', { 'gpt-5': 'router/x' }, 'alias gpt-5 is a model of openai'],
    ['an unlisted model', { answer: 'gpt-5' }, 'alias answer is a model of scripted'],
    ['a model of a provider', { 'openai/x': 'gpt-5' }, 'without spaces or slashes'],
    ['nothing', { '': 'gpt-5' }, 'without spaces or slashes'],
  ])('cannot take the name of %s', (_name, given, told) => {
    const message = expect.stringContaining(told) as string
    const refusal = expect.objectContaining({ code: 'OPTION_INVALID', message })
    expect(() => new Providers(configured, given)).toThrow(refusal)
  })

  // Not even a provider with "any" takes it: it may be misspelt.
  test.each(['gpt-6', 'anthropic/claude', 'claude-five', ''])('cannot stand for %j', (model) => {
    const given = { 'claude-five': 'gpt-5', alias: model }
    const message = expect.stringContaining('alias alias names an unknown model') as string
    const refusal = expect.objectContaining({ code: 'OPTION_INVALID', message })
    expect(() => new Providers(configured, given)).toThrow(refusal)
  })
})
