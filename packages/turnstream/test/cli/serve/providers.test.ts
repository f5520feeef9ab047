import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { ProviderSetting, ProviderSettings } from '../../../src/cli/serve/configuration.ts'
import { readConfiguration } from '../../../src/cli/serve/configuration.ts'
import {
  activeProviders,
  collectSecrets,
  KNOWN_PROVIDERS,
  SCRIPTED_MODELS,
} from '../../../src/cli/serve/providers.ts'
import { Providers } from '../../../src/server.ts'
import { fakeVendor } from '../fake-vendor.ts'

function from(env: Record<string, string>, providerSettings: ProviderSettings = {}, more = {}) {
  const usual = readConfiguration({ flags: {}, env: {}, cwd: '/nowhere' })
  const settings = { ...usual.settings, scriptedSpeed: Infinity, ...more }
  const configuration = { ...usual, env, providerSettings, settings }
  const configured = activeProviders(configuration)
  const ids = configured.map(({ provider }) => provider.id)
  return { ids, configured, secrets: collectSecrets(configuration) }
}

describe('the configured providers', () => {
  const rows: [Record<string, string>, string[]][] = [
    [{}, ['scripted']],
    [{ OPENAI_API_KEY: 'k' }, ['openai', 'scripted']],
    [{ ANTHROPIC_API_KEY: 'k' }, ['anthropic', 'scripted']],
    [{ GEMINI_API_KEY: 'k' }, ['gemini', 'scripted']],
    [{ GEMINI_API_KEY: 'k', OPENAI_API_KEY: 'k' }, ['openai', 'gemini', 'scripted']],
    [{ OPENAI_API_KEY: '' }, ['scripted']],
    [{ OPENAI_COMPATIBLE_API_KEY: 'k' }, ['scripted']],
    [
      { OPENAI_COMPATIBLE_BASE_URL: 'http://localhost:11434/v1', OPENAI_COMPATIBLE_MODEL: 'm' },
      ['openai-compatible', 'scripted'],
    ],
  ]

  test.each(rows)('with %j', (env, ids) => {
    expect(from(env).ids).toEqual(ids)
  })

  test('a custom server without a key', () => {
    expect(from({}, { openai: { baseUrl: 'http://localhost:1' } }).ids).toEqual([
      'openai',
      'scripted',
    ])
  })

  test('the default can be chosen', () => {
    const env = { OPENAI_API_KEY: 'k', GEMINI_API_KEY: 'k' }
    expect(from(env, {}, { defaultProvider: 'scripted' }).ids).toEqual([
      'scripted',
      'openai',
      'gemini',
    ])
    expect(from(env, {}, { defaultProvider: 'gemini' }).ids[0]).toBe('gemini')
  })

  test('a key may come from a file, and every key is registered as a secret', () => {
    const folder = mkdtempSync(join(tmpdir(), 'turnstream-keys-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const file = join(folder, 'key')
    writeFileSync(file, 'from-a-file\n')
    const { ids, secrets } = from({ OPENAI_API_KEY_FILE: file, GEMINI_API_KEY: 'plain' })
    expect(ids).toEqual(['openai', 'gemini', 'scripted'])
    expect(secrets).toEqual(['from-a-file', 'plain'])
    writeFileSync(file, '')
    expect(() => from({ OPENAI_API_KEY_FILE: file })).toThrow('names an empty file')
  })
})

describe('custom providers', () => {
  const groq: ProviderSetting = {
    kind: 'openai-compatible',
    baseUrl: 'http://localhost:1/v1',
    keyVariable: 'GROQ_API_KEY',
    models: ['a', 'b'],
  }

  test('come after the built-in ones, when their key is set', () => {
    const env = { GROQ_API_KEY: 'secret-of-groq', GEMINI_API_KEY: 'k' }
    const { ids, configured, secrets } = from(env, { groq })
    expect(ids).toEqual(['gemini', 'groq', 'scripted'])
    expect(configured[1]).toMatchObject({ models: ['a', 'b'], defaultModel: 'a' })
    expect(secrets).toEqual(['k', 'secret-of-groq'])
    expect(from({}, { groq }).ids).toEqual(['scripted'])
  })

  test('may share a kind, and need no key without a keyVariable', () => {
    const { keyVariable: _, ...local } = groq
    const other = { ...local, baseUrl: 'http://localhost:2/v1' }
    expect(from({}, { one: local, two: other }).ids).toEqual(['one', 'two', 'scripted'])
    expect(from({}, { one: local, two: other }, { defaultProvider: 'two' }).ids[0]).toBe('two')
  })

  test("of a vendor's kind inherit its URL and models", () => {
    const second = { kind: 'anthropic', keyVariable: 'SECOND_KEY' } as const
    const [configured] = from({ SECOND_KEY: 'k' }, { second }).configured
    expect(configured?.provider.id).toBe('second')
    expect(configured?.models).toEqual(KNOWN_PROVIDERS.anthropic.models)
  })

  test('report what is missing', () => {
    const wanted = { defaultProvider: 'groq' }
    expect(() => from({}, { groq }, wanted)).toThrow(
      'the default provider groq is not available: set GROQ_API_KEY',
    )
    const { models: _, ...without } = groq
    expect(() => from({ GROQ_API_KEY: 'k' }, { groq: without })).toThrow(
      'groq has a base URL but no model: set models in the configuration',
    )
    const { baseUrl: __, ...nowhere } = groq
    expect(() => from({ GROQ_API_KEY: 'k' }, { groq: nowhere }, wanted)).toThrow('is not available')
  })

  test('are called by their id and with their key', async () => {
    const vendor = await fakeVendor(401, '{"error":{"message":"bad key","code":"invalid"}}')
    const { configured } = from(
      { GROQ_API_KEY: 'sk-groq' },
      { groq: { ...groq, baseUrl: `${vendor.url}/v1` } },
    )
    const { provider, model } = new Providers(configured).choose({ model: 'groq/b' })
    const stream = provider.stream(
      { model, input: [{ type: 'message', id: 'a', content: 'Hi', origin: 'user' }] },
      { runId: 'r', turnId: 'r', threadId: 't' },
    )
    await stream.toArray()
    expect(vendor.requests).toMatchObject([
      { path: '/v1/chat/completions', headers: { authorization: 'Bearer sk-groq' } },
    ])
  })
})

describe('the models', () => {
  test.each([
    ['openai', 'openai/resources/shared.d.ts'],
    ['anthropic', '@anthropic-ai/sdk/resources/messages/messages.d.ts'],
  ] as const)("of %s are known to the vendor's client", (id, types) => {
    const known = readFileSync(`node_modules/${types}`, 'utf8')
    const { models } = KNOWN_PROVIDERS[id]
    expect(models.filter((model) => !known.includes(`'${model}'`))).toEqual([])
    expect(models.length).toBeGreaterThan(0)
  })

  test('can be configured, and the first is the default', () => {
    const [openai] = from({ OPENAI_API_KEY: 'k' }, { openai: { models: ['a', 'b'] } }).configured
    expect(openai).toMatchObject({ models: ['a', 'b'], defaultModel: 'a' })
    const [named] = from({ OPENAI_API_KEY: 'k' }, { openai: { defaultModel: 'c' } }).configured
    expect(named).toMatchObject({ defaultModel: 'c', models: KNOWN_PROVIDERS.openai.models })
  })

  test('of a Chat Completions server come from the environment', () => {
    const { configured } = from({
      OPENAI_COMPATIBLE_BASE_URL: 'http://localhost:11434/v1',
      OPENAI_COMPATIBLE_MODEL: 'meta/llama',
    })
    const providers = new Providers(configured)
    expect(providers.models[0]).toBe('openai-compatible/meta/llama')
    expect(providers.choose({}).model).toBe('meta/llama')
    expect(providers.choose({ model: 'openai-compatible/meta/other' }).model).toBe('meta/other')
  })

  test('V1 a Chat Completions server from the environment lists only the given model', () => {
    const { configured } = from({
      OPENAI_COMPATIBLE_BASE_URL: 'http://localhost:11434/v1',
      OPENAI_COMPATIBLE_MODEL: 'qwen3',
    })
    const providers = new Providers(configured)
    expect(providers.models).toEqual(['openai-compatible/qwen3'])
    expect(providers.choose({ model: 'qwen3' }).provider.id).toBe('openai-compatible')
    for (const model of ['gpt-5', 'openai/gpt-5', 'anthropic/claude', 'meta/llama', 'answer']) {
      expect(() => providers.choose({ model })).toThrow('Unknown model')
    }
  })

  test('V1 "any" accepts unlisted models and needs a default model', () => {
    const router = {
      kind: 'openai-compatible',
      baseUrl: 'http://localhost:1',
      models: 'any',
    } as const
    const named = { ...router, defaultModel: 'meta/llama' }
    const providers = new Providers(from({ OPENAI_API_KEY: 'k' }, { router: named }).configured)
    expect(providers.choose({ model: 'qwen/qwen3' }).provider.id).toBe('router')
    expect(providers.choose({ model: 'gpt-5.6-sol' }).provider.id).toBe('openai')
    expect(() => providers.choose({ model: 'anthropic/claude' })).toThrow('not configured')
    expect(() => from({}, { router })).toThrow('no model: set defaultModel in the configuration')
    const [openai] = from({ OPENAI_API_KEY: 'k' }, { openai: { models: 'any' } }).configured
    expect(openai).toMatchObject({ models: 'any', defaultModel: KNOWN_PROVIDERS.openai.models[0] })
  })

  test('of the scripted provider are listed only when it is the default', () => {
    const env = { OPENAI_API_KEY: 'k' }
    const listed = (more = {}) =>
      new Providers(from(env, {}, more).configured).models.map((model) => model.split('/')[0])
    expect(new Set(listed())).toEqual(new Set(['openai']))
    expect(new Set(listed({ defaultProvider: 'scripted' }))).toEqual(
      new Set(['scripted', 'openai']),
    )
  })

  test('of the scripted provider are its recordings', () => {
    expect(new Providers(from({}).configured).models).toEqual(
      SCRIPTED_MODELS.map((name) => `scripted/${name}`),
    )
  })
})

describe('a request', () => {
  test('goes to the configured URL with the key from the environment', async () => {
    const vendor = await fakeVendor(401, '{"error":{"message":"bad key","code":"invalid"}}')
    const env = { OPENAI_COMPATIBLE_API_KEY: 'sk-1', OPENAI_COMPATIBLE_MODEL: 'm' }
    const { configured } = from(env, { 'openai-compatible': { baseUrl: `${vendor.url}/v1` } })
    const provider = configured[0]?.provider
    const stream = provider?.stream(
      { model: 'm', input: [{ type: 'message', id: 'a', content: 'Hi', origin: 'user' }] },
      { runId: 'r', turnId: 'r', threadId: 't' },
    )
    const payloads = (await stream?.toArray()) ?? []
    expect(payloads.at(-1)).toMatchObject({ error: { code: 'HTTP_401' } })
    expect(vendor.requests).toMatchObject([
      { path: '/v1/chat/completions', headers: { authorization: 'Bearer sk-1' } },
    ])
  })

  test('has the form of thinking that is configured for its model', async () => {
    const vendor = await fakeVendor(401, '{"error":{"message":"bad key"}}')
    const anthropic: ProviderSetting = {
      baseUrl: vendor.url,
      modelTraits: { 'house-*': { thinking: 'adaptive', efforts: ['low', 'max'] } },
    }
    const { configured } = from({}, { anthropic })
    const provider = configured[0]?.provider
    for (const model of ['house-1', 'other']) {
      const input = [{ type: 'message', id: 'a', content: 'Hi', origin: 'user' }] as const
      const run = { runId: 'r', turnId: 'r', threadId: 't' }
      await provider?.stream({ model, input, reasoningEffort: 'low' }, run).toArray()
    }
    expect(vendor.requests.map(({ body }) => JSON.parse(body))).toMatchObject([
      { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
      { thinking: { type: 'enabled' } },
    ])
  })
})
