import * as z from 'zod'
import { BASE_URL_TAKES, isBaseUrl } from '../../adapters/base-url.ts'
import { UsageError } from '../command.ts'
import { suggestion } from '../nearest.ts'
import { parseDuration } from './duration.ts'

/** The providers that are called over HTTP, in the order in which one of them becomes the default. */
export const PROVIDER_IDS = ['openai', 'anthropic', 'gemini', 'openai-compatible'] as const
export type ProviderId = (typeof PROVIDER_IDS)[number]

const word = z.string().trim().min(1, 'takes a word')

const address = z.string().refine(isBaseUrl, { error: `takes ${BASE_URL_TAKES}` })

const duration = z.string().transform((written, context) => {
  const ms = parseDuration(written)
  if (ms !== undefined) return ms
  context.addIssue('takes a number with its unit, such as 500ms, 10s or 5m')
  return z.NEVER
})

const providerSchema = z.strictObject({
  baseUrl: address.exactOptional(),
  models: z.array(word).min(1, 'takes at least one model').exactOptional(),
  defaultModel: word.exactOptional(),
  connectTimeout: duration.exactOptional(),
  firstEventTimeout: duration.exactOptional(),
  betweenEventsTimeout: duration.exactOptional(),
})

/** What the file says of one provider. Its key is never there. */
export type ProviderSetting = z.infer<typeof providerSchema>
export type ProviderSettings = Partial<Record<ProviderId, ProviderSetting>>

export const PROVIDER_KEYS = Object.keys(providerSchema.shape)

const providersSchema = z.strictObject({
  openai: providerSchema.exactOptional(),
  anthropic: providerSchema.exactOptional(),
  gemini: providerSchema.exactOptional(),
  'openai-compatible': providerSchema.exactOptional(),
} satisfies Record<ProviderId, unknown>)

export function decodeProviderSettings(value: unknown, file: string): ProviderSettings {
  const result = providersSchema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const path = ['providers', ...(issue?.path ?? [])].map(String).join('.')
  if (issue?.code !== 'unrecognized_keys') {
    throw new UsageError(`${path} of ${file}: ${issue?.message ?? 'cannot be read'}`)
  }
  const [key = ''] = issue.keys
  const known = issue.path.length === 0 ? PROVIDER_IDS : PROVIDER_KEYS
  const advice = /key|token|secret/i.test(key)
    ? '; keys of providers are taken from the environment alone'
    : suggestion(key, known)
  throw new UsageError(`${path} of ${file} has an unknown key ${key}${advice}`)
}
