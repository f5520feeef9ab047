import { hasCode } from '../../protocol/errors.ts'
import { type KeyEntry, KeyRing } from '../../server/auth/key-ring.ts'
import { readKeysFile } from '../keys/keys-file.ts'
import type { Journal } from './journal.ts'
import { StartError } from './start-error.ts'

/** The keys that a server was started with, which change when the file is read again. */
export interface ServerKeys {
  readonly ring: KeyRing
  readonly file: string
  /** What can be read takes the place of what was in force; otherwise that stays, and the journal says why. */
  readAgain(): void
}

/** StartError when the file cannot be read, or has no keys: nobody could use the server. */
export function openKeys(file: string, journal: Journal): ServerKeys {
  const keys = keysAtStart(file)
  const ring = new KeyRing(keys)
  journal.info(`${describeKeys(keys)} in force`)
  return {
    ring,
    file,
    readAgain() {
      try {
        const next = readKeysFile(file)
        ring.replace(next)
        if (next.length > 0)
          journal.info(`the keys were read again: ${describeKeys(next)} in force`)
        else journal.warn('the keys were read again: there are none, and nobody gets in')
      } catch (error) {
        journal.error(error)
        journal.warn(`the keys were not read again: the ${ring.size} that were in force stay`)
      }
    },
  }
}

function keysAtStart(file: string): KeyEntry[] {
  try {
    const keys = readKeysFile(file)
    if (keys.length > 0) return keys
  } catch (error) {
    if (!hasCode(error, 'KEYS_FILE_INVALID')) throw error
    throw new StartError(error.message, { cause: error })
  }
  throw new StartError(
    `there are no keys in ${file}: make one with "turnstream keys add <tenant> --file ${file}"`,
  )
}

/** `3 keys of 2 tenants are`. */
function describeKeys(keys: readonly KeyEntry[]): string {
  const tenants = new Set(keys.map(({ tenant }) => tenant)).size
  const verb = keys.length === 1 ? 'is' : 'are'
  return `${counted(keys.length, 'key')} of ${counted(tenants, 'tenant')} ${verb}`
}

function counted(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`
}
