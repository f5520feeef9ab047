import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { parseJson } from '../../protocol/decode.ts'
import { isRecord } from '../../protocol/json.ts'
import { suggestion } from '../../protocol/nearest.ts'
import { fileFault, optionError, UsageError } from '../command.ts'
import type { Terminal } from '../terminal.ts'
import { withoutQuotes } from '../text.ts'
import { decodeProviderSettings, type ProviderSettings } from './provider-settings.ts'
import {
  flagOf,
  SETTING_NAMES,
  SETTINGS,
  type Setting,
  type SettingName,
  type Settings,
  variableOf,
} from './settings.ts'
import { type StoreChoice, storeOf } from './store.ts'

export const CONFIG_FILE = 'turnstream.config.json'

export type Environment = Readonly<Record<string, string | undefined>>

/** An environment variable, or the content of the file that `<name>_FILE` names. An empty variable counts as unset. */
export function secretOf(env: Environment, name: string): string | undefined {
  const value = env[name]?.trim() || undefined
  const file = env[`${name}_FILE`]?.trim() || undefined
  if (file === undefined) return value
  if (value !== undefined) throw new UsageError(`${name} and ${name}_FILE are both set: keep one`)
  let content: string
  try {
    content = readFileSync(file, 'utf8').trim()
  } catch (error) {
    throw new UsageError(`${name}_FILE cannot be read: ${fileFault(error, file)}`)
  }
  if (content === '') throw new UsageError(`${name}_FILE names an empty file: ${file}`)
  return content
}

/** The options of every command that takes those of `serve`. */
export const FLAGS = {
  config: { type: 'string' },
  json: { type: 'boolean', default: false },
  ...Object.fromEntries(SETTING_NAMES.map((name) => [flagOf(name), { type: flagType(name) }])),
} as const

function flagType(name: SettingName): 'string' | 'boolean' {
  const { placeholder }: Setting<unknown> = SETTINGS[name]
  return placeholder === undefined ? 'boolean' : 'string'
}

/** Variables of the other commands. */
const OTHER_VARIABLES = ['TURNSTREAM_URL', 'TURNSTREAM_KEY', 'TURNSTREAM_KEY_FILE']

/** Settings that may hold a password, and may therefore stand in a file that `<variable>_FILE` names. */
const SECRET_SETTINGS: readonly SettingName[] = ['store', 'streamTokenSecret']

/** What Kubernetes sets in every pod beside a service named turnstream; none of it is for us. */
const SERVICE_LINK = /^TURNSTREAM_(SERVICE_(HOST|PORT)|PORT_\d+_)/

export interface ConfigurationSources {
  /** By the names of the options, as `parseArgs` gives them. */
  readonly flags: Readonly<Record<string, string | boolean | undefined>>
  readonly env: Environment
  readonly cwd: string
  /** The file of `--config`; without it the one in `cwd` is read, if it is there. */
  readonly configFile?: string | undefined
}

/** Everything that a server would be started with, decoded. */
export interface Configuration extends ConfigurationSources {
  readonly settings: Settings
  /** The same with the origin of each. */
  readonly entries: readonly SettingEntry[]
  readonly store: StoreChoice
  readonly providerSettings: ProviderSettings
}

export interface SettingEntry {
  readonly name: SettingName
  readonly value: unknown
  /** Missing where nobody sets it and the default depends. */
  readonly written: Written | undefined
}

/** A value as it was written, and where. */
interface Written {
  readonly value: unknown
  readonly origin: string
  /** From the weakest to the strongest. */
  readonly source: 'default' | 'file' | 'environment' | 'flag'
}

/** The sources that a command line with the options of `serve` names. */
export function parseSources(args: string[], { env, cwd }: Pick<Terminal, 'env' | 'cwd'>) {
  let values: ConfigurationSources['flags']
  try {
    values = parseArgs({ args, options: FLAGS }).values
  } catch (error) {
    throw optionError(error, FLAGS) ?? error
  }
  const { config, json, ...flags } = values
  const configFile = typeof config === 'string' ? config : undefined
  return { json: json === true, sources: { flags, env, cwd, configFile } }
}

/** Reads the file, then the environment, then the command line: the last one wins. */
export function readConfiguration(sources: ConfigurationSources): Configuration {
  const { flags, env, cwd } = sources
  const file = readConfigFile(sources)
  refuseUnknownVariables(env)
  const entries = SETTING_NAMES.map((name): SettingEntry => {
    const written =
      fromFlags(name, flags) ??
      fromEnvironment(name, env) ??
      file.settings.get(name) ??
      fromDefaults(name)
    return { name, value: written && decodeSetting(name, written), written }
  })
  const values = entries.map(({ name, value }) => [name, value] as const)
  const settings = Object.fromEntries(values) as unknown as Settings
  const { providerSettings } = file
  return { ...sources, settings, entries, store: storeOf(settings, cwd), providerSettings }
}

function fromDefaults(name: SettingName): Written | undefined {
  const { standard }: Setting<unknown> = SETTINGS[name]
  return standard === undefined ? undefined : { value: standard, origin: name, source: 'default' }
}

function fromFlags(name: SettingName, flags: ConfigurationSources['flags']): Written | undefined {
  const value = flags[flagOf(name)]
  return value === undefined ? undefined : { value, origin: `--${flagOf(name)}`, source: 'flag' }
}

function fromEnvironment(name: SettingName, env: Environment): Written | undefined {
  const origin = variableOf(name)
  const value = SECRET_SETTINGS.includes(name) ? secretOf(env, origin) : env[origin]?.trim()
  if (value === undefined || value === '') return undefined
  if (name === 'port' && value.startsWith('tcp://')) return undefined // a service link
  return { value, origin, source: 'environment' }
}

const MAX_SHOWN = 60

function decodeSetting(name: SettingName, { value, origin }: Written): unknown {
  const { schema, takes, isSecret }: Setting<unknown> = SETTINGS[name]
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const got = isSecret ? 'something else' : JSON.stringify(value)
  const shown = got.length <= MAX_SHOWN ? got : `${got.slice(0, MAX_SHOWN)}…`
  throw new UsageError(`${origin} takes ${takes}; got ${shown}`)
}

function refuseUnknownVariables(env: Environment): void {
  const known = [
    ...SETTING_NAMES.map(variableOf),
    ...SECRET_SETTINGS.map((name) => `${variableOf(name)}_FILE`),
    ...OTHER_VARIABLES,
  ]
  for (const name of Object.keys(env)) {
    if (!name.startsWith('TURNSTREAM_') || SERVICE_LINK.test(name) || known.includes(name)) continue
    throw new UsageError(`the environment has an unknown ${name}${suggestion(name, known)}`)
  }
}

function readConfigFile({ configFile, cwd }: ConfigurationSources) {
  const name = configFile ?? CONFIG_FILE
  const path = configFile === undefined ? join(cwd, name) : resolve(cwd, name)
  const settings = new Map<string, Written>()
  const text = readOptional(path, configFile !== undefined)
  if (text === undefined) return { settings, providerSettings: {} }
  const json = parseJson(text)
  // What is quoted of it may be a password.
  if (!json.ok) throw new UsageError(`${name}: ${withoutQuotes(json.reason)}`)
  if (!isRecord(json.value)) throw new UsageError(`${name} takes one JSON object`)
  const { providers = {}, ...rest } = json.value
  for (const [key, value] of Object.entries(rest)) {
    if (!Object.hasOwn(SETTINGS, key)) {
      const advice = suggestion(key, [...SETTING_NAMES, 'providers'])
      throw new UsageError(`${name} has an unknown key ${key}${advice}`)
    }
    settings.set(key, { value, origin: `${key} of ${name}`, source: 'file' })
  }
  return { settings, providerSettings: decodeProviderSettings(providers, name) }
}

function readOptional(path: string, mustExist: boolean): string | undefined {
  try {
    // Editors of Windows put a mark before the text, which is not JSON.
    return readFileSync(path, 'utf8').replace(/^\uFEFF/, '')
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (isMissing && !mustExist) return undefined
    throw new UsageError(`the configuration cannot be read: ${fileFault(error, path)}`)
  }
}
