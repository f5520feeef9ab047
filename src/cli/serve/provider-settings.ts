import * as z from 'zod'
import { BASE_URL_TAKES, isBaseUrl } from '../../adapters/base-url.ts'
import { PROVIDER_KINDS, type ProviderKind, SCRIPTED_ID } from '../../adapters/provider-kinds.ts'
import { isRecord } from '../../protocol/json.ts'
import { suggestion } from '../../protocol/nearest.ts'
import { UsageError } from '../command.ts'
import { parseDuration } from './duration.ts'

/** The providers that need no file, in the order in which one of them becomes the default: one of each kind. */
export const PROVIDER_IDS: readonly ProviderKind[] = PROVIDER_KINDS

/** The name of a provider stands before that of a model, with a slash between them. */
const PROVIDER_ID = /^[a-z0-9][a-z0-9._-]{0,63}$/

const word = z.string().trim().min(1, 'takes a word')

const address = z.string().refine(isBaseUrl, { error: `takes ${BASE_URL_TAKES}` })

const duration = z.string().transform((written, context) => {
  const ms = parseDuration(written)
  if (ms !== undefined) return ms
  context.addIssue('takes a number with its unit, such as 500ms, 10s or 5m')
  return z.NEVER
})

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
    checkId(id, file)
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

function checkId(id: string, file: string): void {
  if (PROVIDER_ID.test(id) && id !== SCRIPTED_ID) return
  throw new UsageError(
    `providers of ${file} has ${JSON.stringify(id.slice(0, 64))}: an id is of lower-case letters, digits, ` +
      `dots and dashes, and is not ${SCRIPTED_ID}`,
  )
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

/** Those that are known by their ids are of the kind that their id says. */
function checkKind(id: string, { kind }: ProviderSetting, file: string): void {
  const known = PROVIDER_IDS.find((each) => each === id)
  if (known === undefined && kind === undefined) {
    const advice = suggestion(id, PROVIDER_IDS)
    throw new UsageError(
      `providers of ${file} has an unknown key ${id}${advice}; one of your own has a kind: ` +
        PROVIDER_KINDS.join(', '),
    )
  }
  if (known !== undefined && kind !== undefined && kind !== known) {
    throw new UsageError(
      `providers.${id}.kind of ${file}: is ${known}; give another kind another id`,
    )
  }
}
