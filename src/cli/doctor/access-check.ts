import { type Stats, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { hasCode } from '../../protocol/errors.ts'
import { UsageError } from '../command.ts'
import { readKeysFile } from '../keys/keys-file.ts'
import type { Configuration, ConfigurationSources } from '../serve/configuration.ts'
import { refusePublic } from '../serve/options.ts'
import type { Settings } from '../serve/settings.ts'
import { type StoreChoice, storeOf } from '../serve/store.ts'
import { warningsOf } from '../serve/warnings.ts'
import { type Check, fail, ok, skipped, warn } from './check.ts'

/** Whether others reach a server that asks nobody for a key. */
export function exposureCheck(settings: Settings): Check {
  const name = 'exposure'
  const { host, keysFile, allowPublicWithoutKeys } = settings
  try {
    refusePublic({ ...settings, allowPublicWithoutKeys: false })
    const who = keysFile === undefined ? 'this machine alone' : 'those who have a key'
    return ok(name, `${host}, for ${who}`)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
  }
  const found = `${host} can be reached from other machines, and no key is asked for`
  const fix =
    'Make a key (turnstream keys add <tenant> --file turnstream.keys) and set TURNSTREAM_KEYS_FILE=turnstream.keys'
  if (allowPublicWithoutKeys) return warn(name, `${found}, as allowed`, fix)
  return fail(name, found, fix)
}

export interface KeysLook {
  readonly check: Check
  /** How many keys there are. */
  readonly count: number
}

const OTHERS_WRITE = 0o022
const OTHERS_READ = 0o044

export function keysLook({ keysFile }: Settings, cwd: string): KeysLook {
  const name = 'keys'
  if (keysFile === undefined) return { check: ok(name, 'none are needed'), count: 0 }
  const path = resolve(cwd, keysFile)
  const add = `turnstream keys add <tenant> --file ${path}`
  try {
    const count = readKeysFile(path).length
    if (count === 0) {
      return { check: fail(name, `there are no keys in ${path}`, `Make one: ${add}`), count }
    }
    return {
      check: modeCheck(path, `${count === 1 ? 'a key' : `${count} keys`} in ${path}`),
      count,
    }
  } catch (error) {
    if (!hasCode(error, 'KEYS_FILE_INVALID')) throw error
    return { check: fail(name, error.message, unreadableFix(error.message, path)), count: 0 }
  }
}

/** It says itself what is the matter. */
function unreadableFix(message: string, path: string): string {
  if (message.includes('no such file')) {
    return `Make it with its first key: turnstream keys add <tenant> --file ${path}`
  }
  if (/\bline \d/.test(message)) {
    return `Correct or remove that line, then: turnstream keys list --file ${path}`
  }
  return `Let this user read it, then: turnstream keys list --file ${path}`
}

function modeCheck(path: string, found: string): Check {
  const fix = `chmod 600 ${path}`
  const { mode }: Stats = statSync(path)
  // There the bits say nothing.
  if (process.platform === 'win32') return ok('keys', found)
  if ((mode & OTHERS_WRITE) !== 0) {
    return fail('keys', `${found}, to which other users can add theirs`, fix)
  }
  if ((mode & OTHERS_READ) !== 0) return warn('keys', `${found}, which other users can read`, fix)
  return ok('keys', found)
}

/** Several instances on one store have to sign with the same secret. */
export function tokensCheck(settings: Settings, store: StoreChoice): Check {
  const name = 'stream tokens'
  if (settings.streamTokenSecret !== undefined) return ok(name, 'signed with a secret of your own')
  if (store.kind !== 'redis') return ok(name, 'signed with a random secret, until the next start')
  const found = 'each instance on this Redis refuses the tokens of the others'
  return warn(
    name,
    found,
    'Give all of them the same: TURNSTREAM_STREAM_TOKEN_SECRET="$(openssl rand -base64 32)"',
  )
}

/** Who else can see the secrets that a server would be started with. */
export function secretsChecks(
  sources: ConfigurationSources,
  configuration: Configuration,
): Check[] {
  const name = 'secrets'
  const { settings, providers } = configuration
  const all = { ...sources, settings, providers, store: storeOf(settings, sources.cwd) }
  try {
    const warnings = warningsOf(all)
    if (warnings.length === 0) return [ok(name, 'nobody else can read them')]
    return warnings.map((warning) => secretWarning(name, warning))
  } catch {
    // Another check says which, and why.
    return [skipped(name, 'not all of them can be read')]
  }
}

/** They say what is wrong and, after a colon, what to do about it. */
function secretWarning(name: string, warning: string): Check {
  const [, found = warning, fix = ''] = /^(.*?): (.*)$/s.exec(warning) ?? []
  if (/^(chmod|set) /.test(fix)) return warn(name, found, fix)
  return warn(name, warning, 'Give it an https:// address: baseUrl in turnstream.config.json')
}
