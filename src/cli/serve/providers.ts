import { createAnthropicMessagesProvider } from '../../adapters/anthropic-messages/adapter.ts'
import { BASE_URL_TAKES, isBaseUrl } from '../../adapters/base-url.ts'
import { createGeminiProvider } from '../../adapters/gemini/adapter.ts'
import type { HttpProviderOptions, TimeLimits } from '../../adapters/http-provider.ts'
import { createOpenaiChatProvider } from '../../adapters/openai-chat/adapter.ts'
import { createOpenaiResponsesProvider } from '../../adapters/openai-responses/adapter.ts'
import type { Provider } from '../../adapters/provider.ts'
import { createScriptedProvider } from '../../adapters/scripted/adapter.ts'
import type { ConfiguredProvider } from '../../turns/providers.ts'
import { UsageError } from '../command.ts'
import { suggestion } from '../nearest.ts'
import { builtInRecordings, RECORDING_NAMES } from '../recordings/built-in.ts'
import {
  PROVIDER_IDS,
  type ProviderId,
  type ProviderSetting,
  type ProviderSettings,
} from './provider-settings.ts'
import { type Environment, secretOf } from './secrets.ts'

interface KnownProvider {
  readonly create: (options: HttpProviderOptions) => Provider
  /** Where its key is found. */
  readonly keyVariable: string
  /** What its vendor offers, the one for most work first. */
  readonly models: readonly string[]
}

/** Models as their vendors name them in November 2026; others can be asked for by name. */
export const KNOWN_PROVIDERS: Readonly<Record<ProviderId, KnownProvider>> = {
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

export interface ProviderChoice {
  readonly env: Environment
  readonly settings: ProviderSettings
  readonly defaultProvider?: string | undefined
  readonly scriptedSpeed: number
}

export interface ActiveProviders {
  /** The default one first. */
  readonly configured: readonly ConfiguredProvider[]
  /** The keys, which must not be seen in any log. */
  readonly secrets: readonly string[]
}

/** Who can be asked: whoever has a key or an address, and the scripted provider, which needs neither. */
export function providersFrom(choice: ProviderChoice): ActiveProviders {
  const secrets: string[] = []
  const called = PROVIDER_IDS.flatMap((id) => {
    const key = secretOf(choice.env, KNOWN_PROVIDERS[id].keyVariable)
    if (key !== undefined) secrets.push(key)
    return calledProvider(id, key, settingOf(id, choice)) ?? []
  })
  const all = [...called, scripted(choice.scriptedSpeed)]
  return { configured: withDefaultFirst(all, choice.defaultProvider), secrets }
}

/** The address and the model of a Chat Completions server may stand in the environment as well. */
export function settingOf(id: ProviderId, { env, settings }: ProviderChoice): ProviderSetting {
  const setting = settings[id] ?? {}
  if (id !== 'openai-compatible') return setting
  const baseUrl = env['OPENAI_COMPATIBLE_BASE_URL']?.trim() || setting.baseUrl
  const defaultModel = env['OPENAI_COMPATIBLE_MODEL']?.trim() || setting.defaultModel
  if (baseUrl !== undefined && !isBaseUrl(baseUrl)) {
    throw new UsageError(`OPENAI_COMPATIBLE_BASE_URL takes ${BASE_URL_TAKES}`)
  }
  return {
    ...setting,
    ...(baseUrl !== undefined && { baseUrl }),
    ...(defaultModel !== undefined && { defaultModel }),
  }
}

function calledProvider(
  id: ProviderId,
  apiKey: string | undefined,
  setting: ProviderSetting,
): ConfiguredProvider | undefined {
  const { baseUrl } = setting
  const isThere = id === 'openai-compatible' ? baseUrl !== undefined : (apiKey ?? baseUrl)
  if (!isThere) return undefined
  const { create, models: offered } = KNOWN_PROVIDERS[id]
  const models = setting.models ?? offered
  const defaultModel = setting.defaultModel ?? models[0]
  if (defaultModel === undefined) {
    throw new UsageError(
      `${id} has an address but no model: set OPENAI_COMPATIBLE_MODEL, or models in the configuration`,
    )
  }
  const provider = create({
    id,
    timeLimits: timeLimitsOf(setting),
    ...(apiKey !== undefined && { apiKey }),
    ...(baseUrl !== undefined && { baseUrl }),
  })
  return { provider, models: models.length === 0 ? [defaultModel] : models, defaultModel }
}

function timeLimitsOf(setting: ProviderSetting): Partial<TimeLimits> {
  const { connectTimeout, firstEventTimeout, betweenEventsTimeout } = setting
  return {
    ...(connectTimeout !== undefined && { connectMs: connectTimeout }),
    ...(firstEventTimeout !== undefined && { firstEventMs: firstEventTimeout }),
    ...(betweenEventsTimeout !== undefined && { betweenEventsMs: betweenEventsTimeout }),
  }
}

function scripted(speed: number): ConfiguredProvider {
  const provider = createScriptedProvider({ recordings: builtInRecordings(), speed })
  return { provider, models: RECORDING_NAMES, defaultModel: RECORDING_NAMES[0] ?? '' }
}

function withDefaultFirst(
  all: readonly ConfiguredProvider[],
  wanted: string | undefined,
): readonly ConfiguredProvider[] {
  if (wanted === undefined) return all
  const first = all.find(({ provider }) => provider.id === wanted)
  if (first !== undefined) return [first, ...all.filter((each) => each !== first)]
  const active = all.map(({ provider }) => provider.id)
  const known = PROVIDER_IDS.find((id) => id === wanted)
  const advice =
    known === undefined
      ? suggestion(wanted, active)
      : `: set ${KNOWN_PROVIDERS[known].keyVariable}${known === 'openai-compatible' ? ' and OPENAI_COMPATIBLE_BASE_URL' : ''}`
  throw new UsageError(`the default provider ${wanted} is not there${advice}`)
}
