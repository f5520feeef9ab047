import { hostname } from 'node:os'
import { parseArgs } from 'node:util'
import { UsageError } from '../command.ts'
import { optionFault } from '../option-fault.ts'
import type { Terminal } from '../terminal.ts'
import { readConfiguration } from './configuration.ts'
import { isLoopback } from './loopback.ts'
import { type ActiveProviders, providersFrom } from './providers.ts'
import {
  flagOf,
  SETTING_NAMES,
  SETTINGS,
  type Setting,
  type SettingName,
  type Settings,
} from './settings.ts'
import { type StoreChoice, storeOf } from './store.ts'
import { warningsOf } from './warnings.ts'
import { refuseOpenOrigins } from './web-access.ts'

/** Everything that a server is started with, decoded and checked. */
export interface ServeOptions {
  readonly json: boolean
  readonly instance: string
  readonly store: StoreChoice
  readonly providers: ActiveProviders
  readonly settings: Settings
  /** What is not as it should be, for people. */
  readonly warnings: readonly string[]
}

export const FLAGS = {
  config: { type: 'string' },
  json: { type: 'boolean', default: false },
  ...Object.fromEntries(SETTING_NAMES.map((name) => [flagOf(name), { type: flagType(name) }])),
} as const

function flagType(name: SettingName): 'string' | 'boolean' {
  const { isSwitch }: Setting<unknown> = SETTINGS[name]
  return isSwitch ? 'boolean' : 'string'
}

export function parseServeOptions(
  args: string[],
  { env, cwd }: Pick<Terminal, 'env' | 'cwd'>,
): ServeOptions {
  const { config, json, ...flags } = parseFlags(args)
  const sources = { flags, env, cwd, ...(typeof config === 'string' && { configFile: config }) }
  const { settings, providers } = readConfiguration(sources)
  refusePublic(settings)
  refuseOpenOrigins(settings)
  const store = storeOf(settings, cwd)
  return {
    json: json === true,
    instance: settings.instance ?? `${hostname()}:${process.pid}`,
    store,
    providers: providersFrom({ ...settings, env, settings: providers }),
    settings,
    warnings: warningsOf({ ...sources, settings, store, providers }),
  }
}

export function parseFlags(args: string[]): Record<string, string | boolean | undefined> {
  try {
    return parseArgs({ args, options: FLAGS }).values
  } catch (error) {
    throw optionFault(error, Object.keys(FLAGS)) ?? error
  }
}

/** As long as there are no keys, whoever reaches the port reads every turn and spends our money. */
export function refusePublic({ host, keysFile, allowPublicWithoutKeys }: Settings): void {
  if (keysFile !== undefined || allowPublicWithoutKeys || isLoopback(host)) return
  throw new UsageError(
    `${host} can be reached from other machines, and anybody there could read every turn and use every ` +
      'provider: make a key with "turnstream keys add <tenant> --file turnstream.keys" and set ' +
      'TURNSTREAM_KEYS_FILE=turnstream.keys, or accept it with --allow-public-without-keys',
  )
}
