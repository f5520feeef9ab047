import * as z from 'zod'
import { BASE_URL_TAKES, isBaseUrl } from '../../adapters/base-url.ts'
import { PROVIDER_KINDS, SCRIPTED_ID } from '../../adapters/provider-kinds.ts'
import { isRecord } from '../../protocol/json.ts'
import { suggestion } from '../../protocol/nearest.ts'
import { UsageError } from '../command.ts'
import { durationSchema } from './settings.ts'

/** The id of a provider stands before the name of a model, with a slash between them. */
const PROVIDER_ID = /^[a-z0-9][a-z0-9._-]{0,63}$/

const word = z.string().trim().min(1, 'takes a word')
const address = z.string().refine(isBaseUrl, { error: `takes ${BASE_URL_TAKES}` })
const duration = durationSchema('takes a number with its unit, such as 500ms, 10s or 5m')

const MODELS_MESSAGE = 'takes a list of at least one model, or "any"'

const providerSchema = z.strictObject({
  kind: z.enum(PROVIDER_KINDS, `takes one of ${PROVIDER_KINDS.join(', ')}`).exactOptional(),
  keyVariable: z
    .string()
    .regex(/^[A-Z][A-Z0-9_]*$/, 'takes the name of a variable, such as GROQ_API_KEY')
    .exactOptional(),
  baseUrl: address.exactOptional(),
  models: z
    .union([z.literal('any'), z.array(word).min(1, MODELS_MESSAGE)], MODELS_MESSAGE)
    .exactOptional(),
  defaultModel: word.exactOptional(),
  connectTimeout: duration.exactOptional(),
  firstEventTimeout: duration.exactOptional(),
  betweenEventsTimeout: duration.exactOptional(),
  stallTimeout: duration.exactOptional(),
  retryTimeouts: z.boolean('takes true or false').exactOptional(),
})

/** What the file says of one provider. Its key is never there. */
export type ProviderSetting = z.infer<typeof providerSchema>
/** By id, in the order of the file. */
export type ProviderSettings = Readonly<Record<string, ProviderSetting>>

export const PROVIDER_KEYS = Object.keys(providerSchema.shape)

/** Either by their ids, or as a list in which each has its `id`. */
export function decodeProviderSettings(value: unknown, file: string): ProviderSettings {
  const decoded = new Map<string, ProviderSetting>()
  for (const [id, written] of entriesOf(value, file)) {
    if (decoded.has(id)) throw new UsageError(`providers of ${file} has ${id} twice`)
    if (!PROVIDER_ID.test(id) || id === SCRIPTED_ID) {
      throw new UsageError(
        `providers of ${file} has ${JSON.stringify(id.slice(0, 64))}: an id is of lower-case letters, digits, ` +
          `dots and dashes, and is not ${SCRIPTED_ID}`,
      )
    }
    const setting = decodeProvider(id, written, file)
    checkKind(id, setting, file)
    decoded.set(id, setting)
  }
  return Object.fromEntries(decoded)
}

function entriesOf(value: unknown, file: string): [id: string, written: unknown][] {
  if (isRecord(value)) return Object.entries(value)
  if (!Array.isArray(value)) throw new UsageError(`providers of ${file} takes an object or a list`)
  return value.map((each: unknown, index) => {
    const { id, ...written } = isRecord(each) ? each : {}
    if (typeof id === 'string') return [id, written]
    throw new UsageError(`providers.${index} of ${file}: takes an object with an id`)
  })
}

function decodeProvider(id: string, value: unknown, file: string): ProviderSetting {
  const result = providerSchema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const path = ['providers', id, ...(issue?.path ?? [])].map(String).join('.')
  if (issue?.code !== 'unrecognized_keys') {
    throw new UsageError(`${path} of ${file}: ${issue?.message ?? 'cannot be read'}`)
  }
  const [key = ''] = issue.keys
  const advice = /key|token|secret/i.test(key)
    ? '; keys of providers are taken from the environment alone'
    : suggestion(key, PROVIDER_KEYS)
  throw new UsageError(`${path} of ${file} has an unknown key ${key}${advice}`)
}

/** A provider whose id is that of a kind is of that kind. */
function checkKind(id: string, { kind }: ProviderSetting, file: string): void {
  const known = PROVIDER_KINDS.find((each) => each === id)
  if (known === undefined && kind === undefined) {
    const kinds = PROVIDER_KINDS.join(', ')
    throw new UsageError(
      `providers of ${file} has an unknown key ${id}${suggestion(id, PROVIDER_KINDS)}; ` +
        `one of your own has a kind: ${kinds}`,
    )
  }
  if (known !== undefined && kind !== undefined && kind !== known) {
    throw new UsageError(
      `providers.${id}.kind of ${file}: is ${known}; give another kind another id`,
    )
  }
}
