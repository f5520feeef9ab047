import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { CONFIG_FILE, type ConfigurationSources } from './configuration.ts'
import type { ProviderSettings } from './provider-settings.ts'
import { keyOf, type ProviderPlan, providerPlans } from './providers.ts'
import { secretOf } from './secrets.ts'
import { flagOf, type SettingName, type Settings, variableOf } from './settings.ts'
import { type StoreChoice, secretsOf } from './store.ts'

export interface WarningSources extends ConfigurationSources {
  readonly settings: Settings
  readonly store: StoreChoice
  readonly providers: ProviderSettings
}

/** Secrets and turns that others on the machine, or on the network, can see. */
export function warningsOf(sources: WarningSources): string[] {
  return [
    ...ofCommandLine(sources),
    ...ofFiles(sources),
    ...ofStore(sources),
    ...ofPlainHttp(sources),
  ]
}

/** The settings that hold a secret, each with what that is. */
function secretSettings({ settings, store }: WarningSources): [SettingName, what: string][] {
  return [
    ...(secretsOf(store).length > 0 ? [['store', 'the password of the store'] as const] : []),
    ...(settings.streamTokenSecret === undefined
      ? []
      : [['streamTokenSecret', 'the secret of stream tokens'] as const]),
  ].map(([name, what]) => [name, what])
}

function ofCommandLine(sources: WarningSources): string[] {
  return secretSettings(sources)
    .filter(([name]) => sources.flags[flagOf(name)] !== undefined)
    .map(([name, what]) => {
      const variable = variableOf(name)
      return (
        `${what} on the command line can be seen by every user of this machine: ` +
        `set ${variable}, or name a file with ${variable}_FILE`
      )
    })
}

function ofFiles(sources: WarningSources): string[] {
  const { cwd, settings } = sources
  const secrets = [...namedFiles(sources), ...configFile(sources)]
    .filter(([, path]) => isOpenTo(path, OTHERS_READ))
    .map(([what, path]) => `${what} can be read by ${EVERYBODY}: chmod o-r ${path}`)
  // What is in it is no secret: whoever can add a line to it has a key.
  const keys = settings.keysFile === undefined ? undefined : resolve(cwd, settings.keysFile)
  if (keys === undefined || !isOpenTo(keys, OTHERS_WRITE)) return secrets
  return [...secrets, `the file of keys can be changed by ${EVERYBODY}: chmod o-w ${keys}`]
}

const EVERYBODY = 'every user of this machine'

function namedFiles(sources: WarningSources): [what: string, path: string][] {
  const { env } = sources
  const ofProviders = plansOf(sources).flatMap(({ keyVariable }) => keyVariable ?? [])
  const names = [variableOf('store'), variableOf('streamTokenSecret'), ...ofProviders]
  return names.flatMap((name) => {
    const path = env[`${name}_FILE`]?.trim()
    return path ? [[`the file of ${name}_FILE`, path]] : []
  })
}

/** The file of the settings, if a secret is written there. */
function configFile(sources: WarningSources): [what: string, path: string][] {
  const { flags, env, cwd, configFile: name = CONFIG_FILE } = sources
  const written = secretSettings(sources).filter(
    ([each]) => flags[flagOf(each)] === undefined && !secretOf(env, variableOf(each)),
  )
  return written.map(([, what]) => [`${what} in ${name}`, resolve(cwd, name)])
}

const OTHERS_READ = 0o004
const OTHERS_WRITE = 0o002
const OTHERS = 0o007

/** Whether every user of the machine may list, enter or change a directory. */
export function isOpenToAll(directory: string): boolean {
  return isOpenTo(directory, OTHERS)
}

function isOpenTo(path: string, bit: number): boolean {
  // There the bits say nothing.
  if (process.platform === 'win32') return false
  try {
    return (statSync(path).mode & bit) !== 0
  } catch {
    // Missing, or behind a directory that this user may not enter: whoever reads the file says so, with its name.
    return false
  }
}

/** A directory that does not exist yet is created for its owner alone. */
function ofStore({ store }: WarningSources): string[] {
  if (store.kind !== 'embedded' || !isOpenToAll(store.directory)) return []
  return [`the store directory is open to ${EVERYBODY}: chmod 700 ${store.directory}`]
}

function ofPlainHttp(sources: WarningSources): string[] {
  return plansOf(sources)
    .filter((plan) => {
      const isSent = keyOf(plan, sources.env) !== undefined
      return isSent && isPlainHttp(plan.setting.baseUrl ?? '')
    })
    .map(({ id }) => `the key of ${id} is sent over plain http: whoever is on the way can read it`)
}

function plansOf({ env, providers, settings }: WarningSources): ProviderPlan[] {
  return providerPlans({ ...settings, env, settings: providers })
}

function isPlainHttp(address: string): boolean {
  if (!URL.canParse(address)) return false
  const { protocol, hostname } = new URL(address)
  return protocol === 'http:' && !/^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
}
