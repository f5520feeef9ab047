import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { CONFIG_FILE, type Configuration } from './configuration.ts'
import { keyOf, providerPlans } from './providers.ts'
import { variableOf } from './settings.ts'
import { storeSecrets } from './store.ts'

/** Secrets and turns that others on the machine, or on the network, can see. */
export function warningsOf(configuration: Configuration): string[] {
  return [
    ...secretWarnings(configuration),
    ...fileWarnings(configuration),
    ...plainHttpWarnings(configuration),
  ]
}

const SECRETS: Partial<Record<string, string>> = {
  store: 'the password of the store',
  streamTokenSecret: 'the secret of stream tokens',
}

const EVERYBODY = 'every user of this machine'
const OTHERS_READ = 0o004
const OTHERS_WRITE = 0o002
const OTHERS = 0o007

/** Of secrets that stand on the command line, or in a settings file that others can read. */
function secretWarnings({ entries, store, cwd, configFile }: Configuration): string[] {
  return entries.flatMap(({ name, written }) => {
    const what = SECRETS[name]
    if (what === undefined || (name === 'store' && storeSecrets(store).length === 0)) return []
    const variable = variableOf(name)
    if (written?.source === 'flag') {
      const advice = `set ${variable}, or name a file with ${variable}_FILE`
      return [`${what} on the command line can be seen by ${EVERYBODY}: ${advice}`]
    }
    if (written?.source !== 'file') return []
    const file = configFile ?? CONFIG_FILE
    return readableWarning(`${what} in ${file}`, resolve(cwd, file))
  })
}

function fileWarnings(configuration: Configuration): string[] {
  const { env, cwd, settings, store } = configuration
  const keyVariables = providerPlans(configuration).flatMap(({ keyVariable }) => keyVariable ?? [])
  const variables = [variableOf('store'), variableOf('streamTokenSecret'), ...keyVariables]
  const warnings = variables.flatMap((name) => {
    const path = env[`${name}_FILE`]?.trim()
    return path ? readableWarning(`the file of ${name}_FILE`, path) : []
  })
  // What is in it is not a secret: whoever can add a line to it has a key.
  const keys = settings.keysFile === undefined ? undefined : resolve(cwd, settings.keysFile)
  if (keys !== undefined && isOpenTo(keys, OTHERS_WRITE)) {
    warnings.push(`the file of keys can be changed by ${EVERYBODY}: chmod o-w ${keys}`)
  }
  // A directory that does not exist yet is created for its owner alone.
  if (store.kind === 'embedded' && isOpenToAll(store.directory)) {
    warnings.push(`the store directory is open to ${EVERYBODY}: chmod 700 ${store.directory}`)
  }
  return warnings
}

function readableWarning(what: string, path: string): string[] {
  if (!isOpenTo(path, OTHERS_READ)) return []
  return [`${what} can be read by ${EVERYBODY}: chmod o-r ${path}`]
}

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

function plainHttpWarnings(configuration: Configuration): string[] {
  return providerPlans(configuration)
    .filter((plan) => keyOf(plan, configuration.env) && isPlainHttp(plan.setting.baseUrl ?? ''))
    .map(({ id }) => `the key of ${id} is sent over plain http: whoever is on the way can read it`)
}

/** Whether a key that is sent to this address can be read on the network. */
export function isPlainHttp(address: string): boolean {
  if (!URL.canParse(address)) return false
  const { protocol, hostname } = new URL(address)
  return protocol === 'http:' && !/^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
}
