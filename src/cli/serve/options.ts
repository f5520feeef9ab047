import { isIPv4 } from 'node:net'
import { hostname } from 'node:os'
import { parseArgs } from 'node:util'
import { UsageError } from '../command.ts'
import { suggestion } from '../nearest.ts'
import type { Terminal } from '../terminal.ts'
import { readConfiguration } from './configuration.ts'
import { type ActiveProviders, providersFrom } from './providers.ts'
import { flagOf, SETTING_NAMES, type Settings } from './settings.ts'
import { type StoreChoice, storeOf } from './store.ts'

/** Everything that a server is started with, decoded and checked. */
export interface ServeOptions {
  readonly json: boolean
  readonly instance: string
  readonly store: StoreChoice
  readonly providers: ActiveProviders
  readonly settings: Settings
}

const FLAGS = {
  config: { type: 'string' },
  json: { type: 'boolean', default: false },
  ...Object.fromEntries(SETTING_NAMES.map((name) => [flagOf(name), { type: flagType(name) }])),
} as const

function flagType(name: string): 'string' | 'boolean' {
  return name === 'allowPublicWithoutKeys' ? 'boolean' : 'string'
}

export function parseServeOptions(
  args: string[],
  { env, cwd }: Pick<Terminal, 'env' | 'cwd'>,
): ServeOptions {
  const { config, json, ...flags } = parseFlags(args)
  const { settings, providers } = readConfiguration({
    flags,
    env,
    cwd,
    ...(typeof config === 'string' && { configFile: config }),
  })
  refusePublic(settings)
  return {
    json: json === true,
    instance: settings.instance ?? `${hostname()}:${process.pid}`,
    store: storeOf(settings, cwd),
    providers: providersFrom({ ...settings, env, settings: providers }),
    settings,
  }
}

function parseFlags(args: string[]): Record<string, string | boolean | undefined> {
  try {
    return parseArgs({ args, options: FLAGS }).values
  } catch (error) {
    const unknown = /Unknown option '--([^']+)'/.exec(String(error))?.[1]
    if (unknown === undefined) throw error
    const advice = suggestion(unknown, Object.keys(FLAGS))
    throw new UsageError(`there is no option --${unknown}${advice.replace('mean ', 'mean --')}`)
  }
}

/** As long as there are no keys, whoever reaches the port reads every turn and spends our money. */
function refusePublic({ host, allowPublicWithoutKeys }: Settings): void {
  if (allowPublicWithoutKeys || isLoopback(host)) return
  throw new UsageError(
    `${host} can be reached from other machines, and anybody there could read every turn and use every ` +
      'provider: listen on 127.0.0.1 behind a proxy that asks who it is, or accept it with ' +
      '--allow-public-without-keys',
  )
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}
