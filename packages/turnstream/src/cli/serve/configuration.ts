import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { EFFORTS, SAMPLING, THINKING_FORMS } from '@turnstream/core/internal/formats/model-traits'
import { isRecord, parseJson } from '@turnstream/core/internal/protocol/json'
import { suggestion } from '@turnstream/core/internal/protocol/nearest'
import * as z from 'zod'
import { CODEX_ID, PROVIDER_KINDS, SCRIPTED_ID } from '../../providers/provider.ts'
import type { ModelAliases } from '../../turns/providers.ts'
import { errorCode, fileFault, type Options, parseOptions, UsageError } from '../command.ts'
import type { Terminal } from '../terminal.ts'
import { withoutQuotes } from '../text.ts'
import { decodeCodexSetting } from './codex.ts'
import { type Environment, readSecret } from './secrets.ts'
import {
  baseUrlSchema,
  countSchema,
  decodePart,
  durationSchema,
  flagSchema,
  formatDuration,
  GROUP,
  nameSchema,
  SECRET_NAMES,
  SETTING_NAMES,
  SETTINGS,
  type Setting,
  type SettingName,
  type Settings,
  toFlag,
  toSettings,
  toVariable,
  variableSchema,
} from './settings.ts'
import { parseStore } from './store.ts'
import { decodeToolSettings } from './tool-settings.ts'

export const CONFIG_FILE = 'turnstream.config.json'

export const CONFIG_OPTION = {
  value: 'file',
  about: `configuration file (./${CONFIG_FILE}, if it exists)`,
} as const

/** An option per setting, with its default if that is fixed. */
export const SETTING_OPTIONS: Options = Object.fromEntries(
  SETTING_NAMES.map((name) => {
    const { placeholder, about, standard }: Setting<unknown> = SETTINGS[name]
    // Not a `parseArgs` default: the file and the environment take precedence over defaults.
    const text = standard === undefined ? about : `${about} (${standard})`
    return [toFlag(name), { about: text, ...(placeholder && { value: placeholder }) }]
  }),
)

const OTHER_VARIABLES = ['TURNSTREAM_URL', 'TURNSTREAM_KEY', 'TURNSTREAM_KEY_FILE']

/** Variables that Kubernetes sets in every pod next to a service named turnstream. Ignored. */
const SERVICE_LINK = /^TURNSTREAM_(SERVICE_(HOST|PORT)|PORT_\d+_)/

export interface ConfigurationSources {
  /** By option name, as returned by `parseArgs`. */
  readonly flags: Readonly<Record<string, string | boolean | undefined>>
  readonly env: Environment
  readonly cwd: string
  /** The file of `--config`; without it the one in `cwd` is read, if it exists. */
  readonly configFile?: string | undefined
  /** Runs codex as the default provider, also if the file does not mention it. */
  readonly isForCodex?: boolean
}

export type Configuration = ReturnType<typeof readConfiguration>

/** The option of `turnstream codex` that wins over the file. */
export const CODEX_BINARY = 'binary'

/** A setting with its origin. */
export interface SettingEntry {
  readonly name: SettingName
  readonly written: Written | undefined
}

/** A value as it was written, and where. */
export interface Written {
  readonly value: unknown
  readonly origin: string
  /** In order of precedence, lowest first. */
  readonly source: 'default' | 'file' | 'environment' | 'flag'
}

/** The sources that a command line with the options of `serve`, and perhaps more, names. */
export function parseSources(
  args: string[],
  { env, cwd }: Pick<Terminal, 'env' | 'cwd'>,
  more: Options = {},
) {
  const options = { ...SETTING_OPTIONS, ...more, config: CONFIG_OPTION, json: { about: '' } }
  const { config: configFile, json, ...rest } = parseOptions(args, { options }).values
  const flags: ConfigurationSources['flags'] = rest
  return { json, sources: { flags, env, cwd, configFile } }
}

/** Reads the file, the environment and the command line. The last one wins. */
export function readConfiguration(sources: ConfigurationSources) {
  const file = readConfigFile(sources)
  refuseUnknownVariables(sources.env)
  const entries = SETTING_NAMES.map((name) => ({
    name,
    written: findSetting(name, sources, file.settings),
  }))
  const settings = toSettings(new Map(entries.map((entry) => [entry.name, decodeSetting(entry)])))
  checkRetries(settings)
  const store = parseStore(settings, sources.cwd)
  const standard = sources.isForCodex ? decodeCodexSetting({}, CONFIG_FILE, file.folder) : undefined
  const codex = file.codex ?? standard
  const binary = sources.flags[CODEX_BINARY]
  const chosen = codex && typeof binary === 'string' ? { ...codex, binary } : codex
  return { ...sources, ...file, settings, entries, store, codex: chosen }
}

/** The value with the highest precedence; undefined when unset and without a default. */
function findSetting(
  name: SettingName,
  { flags, env }: ConfigurationSources,
  file: ReadonlyMap<string, Written>,
): Written | undefined {
  const flag = flags[toFlag(name)]
  const isGiven = flag !== undefined && flag !== false
  if (isGiven) return { value: flag, origin: `--${toFlag(name)}`, source: 'flag' }
  const origin = toVariable(name)
  const value = SECRET_NAMES.includes(name) ? readSecret(env, origin) : env[origin]?.trim()
  const isServiceLink = name === 'port' && value?.startsWith('tcp://')
  if (value && !isServiceLink) return { value, origin, source: 'environment' }
  const { standard }: Setting<unknown> = SETTINGS[name]
  if (file.has(name) || standard === undefined) return file.get(name)
  return { value: standard, origin: name, source: 'default' }
}

const MAX_SHOWN = 60

function decodeSetting({ name, written }: SettingEntry): unknown {
  if (written === undefined) return undefined
  const { value, origin } = written
  const { schema, takes, secret }: Setting<unknown> = SETTINGS[name]
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const got = secret === undefined ? JSON.stringify(value) : 'something else'
  const shown = got.length <= MAX_SHOWN ? got : `${got.slice(0, MAX_SHOWN)}…`
  throw new UsageError(`${origin} must be ${takes}; got ${shown}`)
}

/** A retry that comes after the lease would never be made. */
function checkRetries({ leaseMs, processor: { retryBaseMs } }: Settings): void {
  if (retryBaseMs <= leaseMs) return
  const [most, got] = [leaseMs, retryBaseMs].map(formatDuration)
  throw new UsageError(`processor.retryBase must be at most the lease, ${most}; got ${got}`)
}

function refuseUnknownVariables(env: Environment): void {
  const known = [
    ...SETTING_NAMES.map(toVariable),
    ...SECRET_NAMES.map((name) => `${toVariable(name)}_FILE`),
    ...OTHER_VARIABLES,
  ]
  for (const name of Object.keys(env)) {
    if (!name.startsWith('TURNSTREAM_') || SERVICE_LINK.test(name) || known.includes(name)) continue
    throw new UsageError(`the environment has an unknown ${name}${suggestion(name, known)}`)
  }
}

function readConfigFile({ configFile, cwd }: ConfigurationSources) {
  const name = configFile ?? CONFIG_FILE
  const path = resolve(cwd, name)
  const settings = new Map<string, Written>()
  const folder = dirname(path)
  const json = parseJson(readOptional(path, configFile !== undefined) ?? '{}')
  // A quoted part may be a password.
  if (!json.ok) throw new UsageError(`${name}: ${withoutQuotes(json.reason)}`)
  if (!isRecord(json.value)) throw new UsageError(`${name} must be a JSON object`)
  const { providers = {}, aliases = {}, tools = [], codex, ...rest } = json.value
  for (const [key, value] of settingsIn(rest, name)) {
    if (!Object.hasOwn(SETTINGS, key)) {
      const known = [...SETTING_NAMES, 'providers', 'aliases', 'tools', 'codex', GROUP]
      throw new UsageError(`${name} has an unknown key ${key}${suggestion(key, known)}`)
    }
    settings.set(key, { value, origin: `${key} of ${name}`, source: 'file' })
  }
  return {
    settings,
    /** The directory of the file: where modules of tools are found, and MCP servers run. */
    folder,
    providerSettings: decodeProviderSettings(providers, name),
    aliases: decodeAliases(aliases, name),
    toolSettings: decodeToolSettings(tools, name),
    codex: codex === undefined ? undefined : decodeCodexSetting(codex, name, folder),
  }
}

function settingsIn(written: Record<string, unknown>, file: string): [key: string, unknown][] {
  const { [GROUP]: group = {}, ...rest } = written
  if (!isRecord(group)) throw new UsageError(`${GROUP} of ${file} must be an object`)
  const dotted = Object.keys(rest).find((key) => key.startsWith(`${GROUP}.`))
  if (dotted !== undefined) {
    throw new UsageError(`${file} has an unknown key ${dotted}: write it as a key of ${GROUP}`)
  }
  const grouped = Object.entries(group).map(([key, value]) => [`${GROUP}.${key}`, value] as const)
  return Object.entries({ ...rest, ...Object.fromEntries(grouped) })
}

function readOptional(path: string, mustExist: boolean): string | undefined {
  try {
    // Some Windows editors write a byte order mark, which is not JSON.
    return readFileSync(path, 'utf8').replace(/^\uFEFF/, '')
  } catch (error) {
    if (errorCode(error) === 'ENOENT' && !mustExist) return undefined
    throw new UsageError(`cannot read the configuration: ${fileFault(error, path)}`)
  }
}

/** Whether the models exist is checked with the providers. */
function decodeAliases(value: unknown, file: string): ModelAliases {
  const result = z.record(z.string(), z.string()).safeParse(value)
  if (result.success) return result.data
  throw new UsageError(`aliases of ${file} must be an object of model names`)
}

/** A provider id precedes a model name, separated by a slash. */
const PROVIDER_ID = /^[a-z0-9][a-z0-9._-]{0,63}$/

const MODELS_MESSAGE = 'must be a list of at least one model, or "any"'

const traitsSchema = z.strictObject({
  thinking: z.enum(THINKING_FORMS, `must be one of ${THINKING_FORMS.join(', ')}`).exactOptional(),
  efforts: z.array(z.enum(EFFORTS, `must be some of ${EFFORTS.join(', ')}`)).exactOptional(),
  sampling: z.enum(SAMPLING, `must be one of ${SAMPLING.join(', ')}`).exactOptional(),
})

const providerSchema = z.strictObject({
  kind: z.enum(PROVIDER_KINDS, `must be one of ${PROVIDER_KINDS.join(', ')}`).exactOptional(),
  keyVariable: variableSchema.exactOptional(),
  baseUrl: baseUrlSchema.exactOptional(),
  models: z
    .union([z.literal('any'), z.array(nameSchema).min(1, MODELS_MESSAGE)], MODELS_MESSAGE)
    .exactOptional(),
  defaultModel: nameSchema.exactOptional(),
  modelTraits: z.record(nameSchema, traitsSchema).exactOptional(),
  maxOutputTokens: countSchema.exactOptional(),
  connectTimeout: durationSchema.exactOptional(),
  firstEventTimeout: durationSchema.exactOptional(),
  betweenEventsTimeout: durationSchema.exactOptional(),
  stallTimeout: durationSchema.exactOptional(),
  retryTimeouts: flagSchema.exactOptional(),
})

export type ProviderSetting = z.infer<typeof providerSchema>
/** By id, in the order of the file. */
export type ProviderSettings = Readonly<Record<string, ProviderSetting>>

export const PROVIDER_KEYS = Object.keys(providerSchema.shape)

/** An object by id, or a list with an `id` each. */
function decodeProviderSettings(value: unknown, file: string): ProviderSettings {
  const decoded = new Map<string, ProviderSetting>()
  for (const [id, written] of entriesOf(value, file)) {
    if (decoded.has(id)) throw new UsageError(`providers of ${file} has ${id} twice`)
    if (!PROVIDER_ID.test(id) || id === SCRIPTED_ID || id === CODEX_ID) {
      throw new UsageError(
        `providers of ${file} has ${JSON.stringify(id.slice(0, 64))}: an id has lower-case letters, digits, ` +
          `dots and dashes, and is neither ${SCRIPTED_ID} nor ${CODEX_ID}`,
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
  if (!Array.isArray(value))
    throw new UsageError(`providers of ${file} must be an object or a list`)
  return value.map((each: unknown, index) => {
    const { id, ...written } = isRecord(each) ? each : {}
    if (typeof id === 'string') return [id, written]
    throw new UsageError(`providers.${index} of ${file}: must be an object with an id`)
  })
}

function decodeProvider(id: string, value: unknown, file: string): ProviderSetting {
  return decodePart(providerSchema, value, { path: `providers.${id}`, file }, (key, known) =>
    /key|token|secret/i.test(key)
      ? '; provider keys come from the environment only'
      : suggestion(key, known),
  )
}

/** A provider whose id is the name of a kind has that kind. */
function checkKind(id: string, { kind }: ProviderSetting, file: string): void {
  const known = PROVIDER_KINDS.find((each) => each === id)
  if (known === undefined && kind === undefined) {
    const kinds = PROVIDER_KINDS.join(', ')
    throw new UsageError(
      `providers of ${file} has an unknown key ${id}${suggestion(id, PROVIDER_KINDS)}; ` +
        `your own provider needs a kind: ${kinds}`,
    )
  }
  if (known !== undefined && kind !== undefined && kind !== known) {
    throw new UsageError(
      `providers.${id}.kind of ${file}: must be ${known}; use another id for another kind`,
    )
  }
}
