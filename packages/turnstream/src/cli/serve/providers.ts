import type { Recordings } from '@turnstream/core/internal/formats/v2/recording'
import { BASE_URL_TAKES, isBaseUrl } from '@turnstream/core/internal/formats/vendor-request'
import { hasCode, withoutSummary } from '@turnstream/core/internal/protocol/errors'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'
import { suggestion } from '@turnstream/core/internal/protocol/nearest'
import type { HttpProviderOptions } from '../../providers/http-provider.ts'
import {
  CODEX_ID,
  PROVIDER_KINDS,
  type Provider,
  type ProviderKind,
} from '../../providers/provider.ts'
import { createScriptedProvider } from '../../providers/scripted/provider.ts'
import {
  createAnthropicMessagesProvider,
  createGeminiProvider,
  createOpenaiChatProvider,
  createOpenaiResponsesProvider,
} from '../../providers/vendors.ts'
import { createProviderFetch } from '../../server/provider-fetch.ts'
import { type ConfiguredProvider, Providers } from '../../turns/providers.ts'
import { UsageError } from '../command.ts'
import { DEMO_MODELS, demoRecordings } from '../demo/recordings.ts'
import { POSTCARD_TOOL, TOOL_MODELS } from '../demo/tool-models.ts'
import { readCassetteModels } from './cassette-models.ts'
import { configuredCodex } from './codex.ts'
import type { Configuration, ProviderSetting } from './configuration.ts'
import { type Environment, readSecret } from './secrets.ts'
import { storeSecrets } from './store.ts'
import { toolVariables } from './tool-settings.ts'

interface KnownProvider {
  readonly create: (options: HttpProviderOptions) => Provider
  readonly keyVariable: string
  /** The vendor's models, the general-purpose one first. */
  readonly models: readonly string[]
}

/** Model names as of November 2026; use others as `<id>/<model>`. */
export const KNOWN_PROVIDERS: Readonly<Record<ProviderKind, KnownProvider>> = {
  openai: {
    create: createOpenaiResponsesProvider,
    keyVariable: 'OPENAI_API_KEY',
    models: ['gpt-5.6-terra', 'gpt-5.6-sol', 'gpt-5.6-luna'],
  },
  anthropic: {
    create: createAnthropicMessagesProvider,
    keyVariable: 'ANTHROPIC_API_KEY',
    models: ['claude-sonnet-5-5', 'claude-opus-5-5', 'claude-haiku-5-5'],
  },
  gemini: {
    create: createGeminiProvider,
    keyVariable: 'GEMINI_API_KEY',
    models: ['gemini-3.8-flash', 'gemini-3.1-pro-preview', 'gemini-3.5-flash-lite'],
  },
  'openai-compatible': {
    create: createOpenaiChatProvider,
    keyVariable: 'OPENAI_COMPATIBLE_API_KEY',
    models: [],
  },
}

export interface ProviderPlan {
  readonly id: string
  readonly kind: ProviderKind
  /** The environment variable with its key; undefined if it needs none. */
  readonly keyVariable: string | undefined
  /** A custom provider: the environment variables of its kind do not apply. */
  readonly isOwn: boolean
  readonly setting: ProviderSetting
}

type ProviderSources = Pick<Configuration, 'env' | 'providerSettings'>

/** The built-in providers, then the custom ones in file order. */
export function providerPlans(sources: ProviderSources): ProviderPlan[] {
  const known = PROVIDER_KINDS.map((id): ProviderPlan => {
    const setting = resolveSetting(id, sources)
    const { keyVariable = KNOWN_PROVIDERS[id].keyVariable } = setting
    return { id, kind: id, keyVariable, isOwn: false, setting }
  })
  const own = Object.entries(sources.providerSettings).flatMap(([id, setting]): ProviderPlan[] => {
    const { kind, keyVariable } = setting
    const isKnown = PROVIDER_KINDS.some((each) => each === id)
    return isKnown || kind === undefined ? [] : [{ id, kind, keyVariable, isOwn: true, setting }]
  })
  return [...known, ...own]
}

export function readKey({ keyVariable }: ProviderPlan, env: Environment): string | undefined {
  return keyVariable === undefined ? undefined : readSecret(env, keyVariable)
}

export function missingFor(plan: ProviderPlan, key: string | undefined): string | undefined {
  const { id, kind, keyVariable, isOwn, setting } = plan
  if (isOwn && keyVariable !== undefined && key === undefined) return keyVariable
  if (setting.baseUrl !== undefined) return undefined
  if (kind !== 'openai-compatible') return key === undefined ? (keyVariable ?? 'key') : undefined
  if (isOwn) return `baseUrl of ${id}`
  return key === undefined ? 'OPENAI_COMPATIBLE_BASE_URL' : 'address for its key'
}

interface ProviderDeps {
  readonly observeCall?: HttpProviderOptions['observeCall'] | undefined
  readonly onCodexLog?: ((line: string) => void) | undefined
}

/** The usable providers, the default first: those with a key or a base URL, and the scripted one. */
export function activeProviders(
  configuration: Configuration,
  { onCodexLog, observeCall }: ProviderDeps = {},
): readonly ConfiguredProvider[] {
  const { env, settings, codex, store, isForCodex = false } = configuration
  const plans = providerPlans(configuration)
  const real = plans.flatMap((plan) => createProvider(plan, readKey(plan, env), observeCall) ?? [])
  if (codex !== undefined) real.push(configuredCodex(codex, { env, store, onLog: onCodexLog }))
  const all = [...real, scripted(configuration)]
  const wanted = settings.defaultProvider ?? (isForCodex ? CODEX_ID : undefined)
  if (wanted === undefined) return all
  const first = all.find(({ provider }) => provider.id === wanted)
  if (first !== undefined) return [first, ...all.filter((each) => each !== first)]
  const plan = plans.find(({ id }) => id === wanted)
  const ids = all.map(({ provider }) => provider.id)
  const needed =
    wanted === 'openai-compatible'
      ? 'OPENAI_COMPATIBLE_BASE_URL and OPENAI_COMPATIBLE_MODEL'
      : ((plan && missingFor(plan, undefined)) ?? 'its models')
  const advice = plan === undefined ? suggestion(wanted, ids) : `: set ${needed}`
  throw new UsageError(`the default provider ${wanted} is not available${advice}`)
}

export function withAliases(providers: readonly ConfiguredProvider[], { aliases }: Configuration) {
  try {
    return new Providers(providers, aliases)
  } catch (error) {
    if (!hasCode(error, 'OPTION_INVALID')) throw error
    throw new UsageError(withoutSummary(error))
  }
}

/** Variables with keys of providers, or with other secrets of tools. */
export function secretVariables(configuration: Configuration): string[] {
  const { toolSettings, codex } = configuration
  const keys = [...providerPlans(configuration), codex].flatMap((each) => each?.keyVariable ?? [])
  return [...keys, ...toolVariables(toolSettings)]
}

/** Values that must never be logged or reported. */
export function collectSecrets(configuration: Configuration): string[] {
  const { env, settings, store } = configuration
  const keys = secretVariables(configuration).map((name) => {
    try {
      return readSecret(env, name)
    } catch {
      return env[name] // it is set twice, or its file is gone
    }
  })
  return [...keys, ...storeSecrets(store), settings.streamTokenSecret].flatMap((each) => each ?? [])
}

/** Base URL and model of a Chat Completions server may come from the environment. */
function resolveSetting(id: ProviderKind, sources: ProviderSources): ProviderSetting {
  const { env, providerSettings } = sources
  const setting = providerSettings[id] ?? {}
  if (id !== 'openai-compatible') return setting
  const baseUrl = env['OPENAI_COMPATIBLE_BASE_URL']?.trim() || setting.baseUrl
  const defaultModel = env['OPENAI_COMPATIBLE_MODEL']?.trim() || setting.defaultModel
  if (baseUrl !== undefined && !isBaseUrl(baseUrl)) {
    throw new UsageError(`OPENAI_COMPATIBLE_BASE_URL must be ${BASE_URL_TAKES}`)
  }
  return { ...setting, ...(baseUrl && { baseUrl }), ...(defaultModel && { defaultModel }) }
}

function createProvider(
  plan: ProviderPlan,
  apiKey: string | undefined,
  observeCall: HttpProviderOptions['observeCall'],
): ConfiguredProvider | undefined {
  if (missingFor(plan, apiKey) !== undefined) return undefined
  const { id, kind, isOwn, setting } = plan
  const { baseUrl, maxOutputTokens, modelTraits } = setting
  const { create, models: offered } = KNOWN_PROVIDERS[kind]
  const models = setting.models ?? offered
  const defaultModel = defaultModelFor(plan)
  if (defaultModel === undefined) {
    const advice = isOwn ? 'set' : 'set OPENAI_COMPATIBLE_MODEL, or'
    const key = models === 'any' ? 'defaultModel' : 'models'
    throw new UsageError(`${id} has a base URL but no model: ${advice} ${key} in the configuration`)
  }
  const provider = create({
    id,
    timeLimits: withoutUndefined({
      firstEventMs: setting.firstEventTimeout,
      betweenEventsMs: setting.betweenEventsTimeout,
      stallMs: setting.stallTimeout,
    }),
    fetch: createProviderFetch({ connectMs: setting.connectTimeout }),
    retryTimeouts: setting.retryTimeouts ?? false,
    ...withoutUndefined({ apiKey, baseUrl, maxOutputTokens, modelTraits, observeCall }),
  })
  return { provider, models: models.length === 0 ? [defaultModel] : models, defaultModel }
}

/** The model of a request that names only this provider; undefined if none is set or known. */
export function defaultModelFor({ kind, setting }: ProviderPlan): string | undefined {
  const { models = 'any' } = setting
  const [first] = models === 'any' ? KNOWN_PROVIDERS[kind].models : models
  return setting.defaultModel ?? first
}

/** Models of the scripted provider, the default first. */
export const SCRIPTED_MODELS: readonly string[] = [...DEMO_MODELS, ...Object.keys(TOOL_MODELS)]

/** The first cassette, if there is one, is the default. */
function scripted({ settings, cwd }: Configuration): ConfiguredProvider {
  const cassettes = readCassetteModels(settings.cassettes ?? [], cwd, SCRIPTED_MODELS)
  const recordings: Recordings = { ...demoRecordings, ...TOOL_MODELS, ...cassettes }
  const provider = createScriptedProvider({ recordings, speed: settings.scriptedSpeed })
  const models = [...Object.keys(cassettes), ...SCRIPTED_MODELS]
  const tools = [POSTCARD_TOOL]
  return { provider, models, defaultModel: models[0] ?? '', unlisted: true, tools }
}
