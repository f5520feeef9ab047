import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseJson } from '../../protocol/decode.ts'
import { isRecord } from '../../protocol/json.ts'
import { suggestion } from '../../protocol/nearest.ts'
import { UsageError } from '../command.ts'
import { fileFault } from '../file-fault.ts'
import { decodeProviderSettings, type ProviderSettings } from './provider-settings.ts'
import { type Environment, secretOf, withoutQuotes } from './secrets.ts'
import {
  flagOf,
  SETTING_NAMES,
  SETTINGS,
  type Setting,
  type SettingName,
  type Settings,
  variableOf,
} from './settings.ts'

export const CONFIG_FILE = 'turnstream.config.json'

/** Variables that mean something to the other commands. */
const OTHER_VARIABLES = ['TURNSTREAM_URL', 'TURNSTREAM_KEY', 'TURNSTREAM_KEY_FILE']

/** What may hold a password may be kept in a file, which `<name>_FILE` names; nothing else needs to be. */
const KEPT_IN_FILES: readonly SettingName[] = ['store', 'streamTokenSecret']

/** What Kubernetes sets in every pod beside a service named turnstream; none of it is for us. */
const SERVICE_LINK = /^TURNSTREAM_(SERVICE_(HOST|PORT)|PORT_\d+_)/

export interface Configuration {
  readonly settings: Settings
  readonly providers: ProviderSettings
}

export interface ConfigurationSources {
  /** By the names of the options, as `parseArgs` gives them. */
  readonly flags: Readonly<Record<string, string | boolean | undefined>>
  readonly env: Environment
  readonly cwd: string
  /** The file of `--config`; without it the one in `cwd` is read, if it is there. */
  readonly configFile?: string
}

/** From the weakest to the strongest. */
export type Source = 'default' | 'file' | 'environment' | 'flag'

/** A value as it was written, and where. */
interface Written {
  readonly value: unknown
  readonly origin: string
  readonly source: Source
}

/** A setting with what it comes to. */
export interface ReadSetting {
  readonly name: SettingName
  readonly value: unknown
  /** Missing where nobody sets it and what holds then depends. */
  readonly written: Written | undefined
}

/** The file, then the environment, then the command line: the last word wins. */
export function readConfiguration(sources: ConfigurationSources): Configuration {
  const { values, providers } = readSettings(sources)
  return { settings: values, providers }
}

/** The same, with where each setting was found. */
export function readSettings(sources: ConfigurationSources) {
  const file = readConfigFile(sources)
  refuseUnknownVariables(sources.env)
  const settings = SETTING_NAMES.map((name): ReadSetting => {
    const written =
      fromFlags(name, sources.flags) ??
      fromEnvironment(name, sources.env) ??
      file.settings.get(name) ??
      standardOf(name)
    const value = written === undefined ? undefined : decodeSetting(name, written)
    return { name, value, written }
  })
  const values = settings.map(({ name, value }): [SettingName, unknown] => [name, value])
  return {
    settings,
    values: Object.fromEntries(values) as unknown as Settings,
    providers: file.providers,
  }
}

function standardOf(name: SettingName): Written | undefined {
  const { standard }: Setting<unknown> = SETTINGS[name]
  return standard === undefined ? undefined : { value: standard, origin: name, source: 'default' }
}

function fromFlags(name: SettingName, flags: ConfigurationSources['flags']): Written | undefined {
  const value = flags[flagOf(name)]
  return value === undefined ? undefined : { value, origin: `--${flagOf(name)}`, source: 'flag' }
}

function decodeSetting(name: SettingName, { value, origin }: Written): unknown {
  const { schema, takes, isSecret }: Setting<unknown> = SETTINGS[name]
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const got = isSecret ? 'something else' : clip(JSON.stringify(value))
  throw new UsageError(`${origin} takes ${takes}; got ${got}`)
}

function fromEnvironment(name: SettingName, env: Environment): Written | undefined {
  const variable = variableOf(name)
  const value = KEPT_IN_FILES.includes(name) ? secretOf(env, variable) : env[variable]?.trim()
  if (value === undefined || value === '') return undefined
  if (name === 'port' && value.startsWith('tcp://')) return undefined // a service link
  return { value, origin: variable, source: 'environment' }
}

function refuseUnknownVariables(env: Environment): void {
  const known = [
    ...SETTING_NAMES.map(variableOf),
    ...KEPT_IN_FILES.map((name) => `${variableOf(name)}_FILE`),
    ...OTHER_VARIABLES,
  ]
  for (const name of Object.keys(env)) {
    if (!name.startsWith('TURNSTREAM_') || SERVICE_LINK.test(name) || known.includes(name)) continue
    throw new UsageError(`the environment has an unknown ${name}${suggestion(name, known)}`)
  }
}

interface ConfigFile {
  readonly settings: ReadonlyMap<string, Written>
  readonly providers: ProviderSettings
}

function readConfigFile({ configFile, cwd }: ConfigurationSources): ConfigFile {
  const path = configFile === undefined ? join(cwd, CONFIG_FILE) : resolve(cwd, configFile)
  const name = configFile ?? CONFIG_FILE
  const text = textOf(path, configFile !== undefined)
  if (text === undefined) return { settings: new Map(), providers: {} }
  const json = parseJson(text)
  // What is quoted of it may be a password.
  if (!json.ok) throw new UsageError(`${name}: ${withoutQuotes(json.reason)}`)
  if (!isRecord(json.value)) throw new UsageError(`${name} takes one JSON object`)
  const { providers = {}, ...rest } = json.value
  const settings = Object.entries(rest).map(([key, value]): [string, Written] => {
    if (!isSettingName(key)) {
      const known = [...SETTING_NAMES, 'providers']
      throw new UsageError(`${name} has an unknown key ${key}${suggestion(key, known)}`)
    }
    return [key, { value, origin: `${key} of ${name}`, source: 'file' }]
  })
  return { settings: new Map(settings), providers: decodeProviderSettings(providers, name) }
}

function isSettingName(key: string): boolean {
  return Object.hasOwn(SETTINGS, key)
}

function textOf(path: string, mustExist: boolean): string | undefined {
  try {
    // Editors of Windows put a mark before the text, which is no JSON.
    return readFileSync(path, 'utf8').replace(/^\uFEFF/, '')
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (isMissing && !mustExist) return undefined
    throw new UsageError(`the configuration cannot be read: ${fileFault(error, path)}`)
  }
}

const MAX_SHOWN = 60

function clip(text: string | undefined): string {
  const shown = text ?? 'nothing'
  return shown.length <= MAX_SHOWN ? shown : `${shown.slice(0, MAX_SHOWN)}…`
}
