import { isRecord, parseJsonObject } from '../protocol/json.ts'
import { nameSet } from './fields.ts'
import { EFFORTS, type Effort } from './model-traits.ts'
import { MISSING, ParameterError } from './openai-errors.ts'
import type { SettingName, ThinkingParameters } from './provider-request.ts'
import { type IgnoredNames, MAX_SCHEMA_CHARS, MAX_TOKENS, omitNullish } from './request-in.ts'
import type { SettingSources, SubmissionSettings } from './submission.ts'

/* The hints of vendors' APIs. Each takes every spelling: clients send what they know from another vendor. */

type Name = Exclude<SettingName, 'strict' | 'name' | 'compaction' | 'longCallIds'>
type Value = SubmissionSettings[Name] | Default | undefined

/** The value requests the default behaviour. */
const DEFAULT = Symbol('default')
type Default = typeof DEFAULT

interface Spelling {
  /** `seed`, or `text.verbosity` within an object. */
  readonly path: string
  readonly setting: Name
  /** Undefined for a value that means nothing here; `ignore` names a field within it. */
  readonly read: (value: unknown, ignore: (field: string) => void) => Value
}

function spell(setting: Name, paths: string, read: Spelling['read']): Spelling[] {
  return paths.split(' ').map((path) => ({ path, setting, read }))
}

const number = (min: number, max: number) => (value: unknown) =>
  typeof value === 'number' && value >= min && value <= max ? value : undefined

const integer = (min: number, max: number) => (value: unknown) =>
  Number.isSafeInteger(value) ? number(min, max)(value) : undefined

const text = (maxChars: number) => (value: unknown) =>
  typeof value === 'string' && value !== '' && value.length <= maxChars ? value : undefined

const oneOf = <Value extends string>(...values: readonly Value[]) => {
  return (value: unknown) => values.find((each) => each === value)
}

export const toEffort = oneOf(...EFFORTS)

export const toSummary = oneOf('auto', 'concise', 'detailed')

const penalty = (value: unknown) => (value === 0 ? DEFAULT : number(-2, 2)(value))

/** Parameters with the same meaning everywhere. */
const COMMON: readonly Spelling[] = [
  ...spell(
    'maxOutputTokens',
    'max_completion_tokens max_output_tokens max_tokens',
    integer(1, MAX_TOKENS),
  ),
  ...spell('temperature', 'temperature', number(0, 2)),
  ...spell('topP', 'top_p', number(0, 1)),
  ...spell('topK', 'top_k', integer(1, 1_000_000)),
  ...spell('stop', 'stop stop_sequences', toStop),
  ...spell('seed', 'seed', integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)),
  ...spell('frequencyPenalty', 'frequency_penalty', penalty),
  ...spell('presencePenalty', 'presence_penalty', penalty),
  ...spell('logitBias', 'logit_bias', toLogitBias),
  ...spell('verbosity', 'verbosity text.verbosity', oneOf('low', 'medium', 'high')),
  ...spell('serviceTier', 'service_tier', toServiceTier),
  ...spell('user', 'safety_identifier user', text(512)),
  ...spell('promptCacheKey', 'prompt_cache_key', text(512)),
  ...spell('parallelToolCalls', 'parallel_tool_calls', (value) =>
    typeof value === 'boolean' ? value : undefined,
  ),
  ...spell('reasoningEffort', 'reasoning_effort reasoning.effort', toEffort),
  ...spell('reasoningSummary', 'reasoning.summary reasoning.generate_summary', toSummary),
  ...spell(
    'responseFormat',
    'response_format text.format output_config.format',
    (value, ignore) => {
      const format = toFormat(value, ignore)
      return 'fault' in format ? undefined : format
    },
  ),
  // Of Ollama and vLLM.
  ...spell('responseFormat', 'format guided_json', toSchemaFormat),
]

export const OPENAI_SPELLINGS: readonly Spelling[] = [
  ...COMMON,
  ...spell('reasoningEffort', 'output_config.effort', toEffort),
  ...spell('thinkingBudget', 'thinking.budget_tokens', integer(1, MAX_TOKENS)),
  ...spell('reasoningEffort', 'thinking', toThinkingEffort),
]

/** For Anthropic's API, which derives the effort from several parameters. */
export const ANTHROPIC_SPELLINGS: readonly Spelling[] = [
  ...spell('user', 'metadata.user_id', text(512)),
  ...COMMON,
]

export interface ReadSettings {
  readonly settings: SubmissionSettings
  readonly sources: SettingSources
}

/** Reads the hints of a body. Ignores unknown values and fields, and a second spelling that says something else. */
export function readSettings(
  body: Readonly<Record<string, unknown>>,
  spellings: readonly Spelling[],
  others: readonly string[],
  ignored: IgnoredNames,
): ReadSettings {
  const settings: Record<string, unknown> = {}
  const sources: Partial<Record<Name, string[]>> = {}
  for (const { path, setting, read } of spellings) {
    const given = valueAt(body, path)
    if (given === undefined || given === null) continue
    const value = read(given, (field) => ignored.add(`${path}.${field}`))
    if (value === DEFAULT) continue
    const before = settings[setting]
    if (value === undefined || (before !== undefined && !isSame(before, value))) {
      ignored.add(path)
      continue
    }
    settings[setting] = value
    ;(sources[setting] ??= []).push(path)
  }
  ignoreUnknown(body, [...spellings.map(({ path }) => path), ...others], ignored)
  return { settings, sources }
}

/** Names the fields of a body that are not known, such as `x` or `text.x`. */
function ignoreUnknown(
  body: Readonly<Record<string, unknown>>,
  paths: readonly string[],
  ignored: IgnoredNames,
): void {
  const tops = new Set(paths.map((path) => path.split('.', 1)[0] ?? ''))
  ignored.addUnknown(body, tops)
  for (const top of tops) {
    const value = body[top]
    if (paths.includes(top) || value === undefined || value === null) continue
    const inner = paths.filter((path) => path.startsWith(`${top}.`))
    if (!isRecord(value)) ignored.add(top)
    else ignored.addUnknown(value, new Set(inner.map((path) => path.slice(top.length + 1))), top)
  }
}

function valueAt(body: Readonly<Record<string, unknown>>, path: string): unknown {
  const [top = '', inner] = path.split('.')
  const value = body[top]
  if (inner === undefined) return value
  return isRecord(value) ? value[inner] : undefined
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

const MAX_STOPS = 16

function toStop(value: unknown): string[] | Default | undefined {
  const stops: unknown[] = Array.isArray(value) ? value : [value]
  if (stops.length === 0) return DEFAULT
  const texts = stops.filter((each): each is string => text(1000)(each) !== undefined)
  return texts.length === stops.length && texts.length <= MAX_STOPS ? texts : undefined
}

const MAX_BIASES = 1024

function toLogitBias(value: unknown): Record<string, number> | Default | undefined {
  if (!isRecord(value)) return undefined
  const entries = Object.entries(value)
  if (entries.length === 0) return DEFAULT
  if (entries.length > MAX_BIASES || !entries.every(isBias)) return undefined
  return value as Record<string, number>
}

function isBias([token, bias]: [string, unknown]): boolean {
  return /^\d{1,10}$/.test(token) && number(-100, 100)(bias) !== undefined
}

/** `standard_only` is Anthropic's name of the default tier. */
function toServiceTier(value: unknown): string | Default | undefined {
  if (value === 'auto') return DEFAULT
  if (value === 'standard_only') return 'default'
  return typeof value === 'string' && /^[\w-]{1,64}$/.test(value) ? value : undefined
}

const THINKING = nameSet('type budget_tokens display')

/** Reads Anthropic's `thinking`. Undefined for a type that is not known. */
export function toThinking(
  value: unknown,
  ignore: (field: string) => void,
): ThinkingParameters | undefined {
  if (!isRecord(value)) return undefined
  const { type, budget_tokens, display } = value
  for (const name of Object.keys(value)) if (!THINKING.has(name)) ignore(name)
  const budgetTokens = integer(1, MAX_TOKENS)(budget_tokens)
  const shown = oneOf('summarized', 'omitted')(display)
  if (display != null && shown === undefined) ignore('display')
  if (type === 'enabled') return { type, ...omitNullish({ budgetTokens, display: shown }) }
  if (type === 'adaptive') return { type, ...omitNullish({ display: shown }) }
  return type === 'disabled' || type === 'between_tools' ? { type } : undefined
}

/** An effort that means the same as Anthropic's `thinking` without a budget. */
function toThinkingEffort(
  value: unknown,
  ignore: (field: string) => void,
): Effort | Default | undefined {
  const { type, budgetTokens, display } = toThinking(value, ignore) ?? {}
  if (display !== undefined) ignore('display')
  if (type === 'disabled' || type === 'between_tools') return 'none'
  if (budgetTokens !== undefined) return DEFAULT
  return type === undefined ? undefined : 'medium'
}

type Format = NonNullable<SubmissionSettings['responseFormat']>

const FORMAT = nameSet('type json_schema name schema strict')

/**
 * Reads a format with its schema in `json_schema`, as in Chat Completions, or beside the type. Returns why it cannot be
 * used, and the field at fault.
 */
function toFormat(
  value: unknown,
  ignore: (field: string) => void = () => {},
): Format | { field: string; fault: string } {
  if (!isRecord(value)) return { field: '', fault: 'must be an object' }
  const { type } = value
  for (const name of Object.keys(value)) if (!FORMAT.has(name)) ignore(name)
  if (type === 'text' || (type === 'json_object' && isNoSchema(value['schema']))) return { type }
  if (type !== 'json_schema' && type !== 'json_object') {
    return { field: 'type', fault: 'must be text, json_object or json_schema' }
  }
  const nested = value['json_schema']
  const isNested = isRecord(nested)
  const { name, schema, strict, ...more } = isNested ? nested : value
  if (isNested) for (const unknown of Object.keys(more)) ignore(`json_schema.${unknown}`)
  const place = isNested ? 'json_schema.' : ''
  if (name != null && (typeof name !== 'string' || !/^[\w-]{1,64}$/.test(name))) {
    return { field: `${place}name`, fault: 'must contain only letters, digits, _ and -' }
  }
  const fault = schemaFault(schema)
  if (fault !== undefined || !isRecord(schema)) {
    return { field: `${place}schema`, fault: fault ?? 'is missing' }
  }
  const given = typeof strict === 'boolean' ? { strict } : {}
  return { type: 'json_schema', name: name ?? 'output', schema, ...given }
}

/** Throws for a format that cannot be used: without it the answer would be another one. */
export function refuseFormat(param: string, format: unknown): void {
  if (format === undefined || format === null) return
  const read = toFormat(format)
  if (!('fault' in read)) return
  const { field, fault } = read
  const reason = fault === 'is missing' ? MISSING : 'invalid_value'
  throw new ParameterError(field === '' ? param : `${param}.${field}`, fault, reason)
}

/** Clients send an empty schema if they want any object. */
function isNoSchema(schema: unknown): boolean {
  return schema == null || (isRecord(schema) && Object.keys(schema).length === 0)
}

function schemaFault(schema: unknown): string | undefined {
  if (schema === undefined) return 'is missing'
  if (!isRecord(schema)) return 'must be an object'
  if (JSON.stringify(schema).length <= MAX_SCHEMA_CHARS) return undefined
  return `is larger than ${MAX_SCHEMA_CHARS} characters`
}

/** `json`, or a schema, perhaps as text. */
function toSchemaFormat(value: unknown): Format | undefined {
  if (value === 'json' || (isRecord(value) && isNoSchema(value))) return { type: 'json_object' }
  const schema = typeof value === 'string' ? parseJsonObject(value) : value
  if (!isRecord(schema) || schemaFault(schema) !== undefined) return undefined
  return { type: 'json_schema', name: 'output', schema }
}
