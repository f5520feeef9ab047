import { TurnstreamError } from '../../protocol/errors.ts'
import { isTenant } from '../../protocol/tenant.ts'
import { isKeyName, isSha256, type KeyEntry } from './key-ring.ts'

/** Some eight thousand keys. */
export const MAX_KEYS_FILE_CHARS = 1024 * 1024

/** A line of a file of keys; `key` is missing where it is blank or a comment. */
export interface KeysFileLine {
  readonly text: string
  readonly key?: KeyEntry
}

/**
 * The keys of a file: one `tenant:name:sha256hex` to a line, among blank lines and comments. KEYS_FILE_INVALID
 * names the line at fault and not what is in it: it may be a key that somebody put there as it is.
 */
export function parseKeysFile(text: string): KeyEntry[] {
  return linesOfKeysFile(text).flatMap(({ key }) => key ?? [])
}

/** The same with everything that is in the file: the texts, joined with `\n`, are the file. */
export function linesOfKeysFile(text: string): KeysFileLine[] {
  if (text.length > MAX_KEYS_FILE_CHARS) {
    throw invalid(`it is longer than ${MAX_KEYS_FILE_CHARS} characters`)
  }
  const seen = new Map<string, number>()
  return text.split('\n').map((line, index) => {
    const number = index + 1
    const key = keyIn(line, number)
    if (key === undefined) return { text: line }
    claim(seen, `${key.tenant}:${key.name}`, number, 'the name')
    claim(seen, key.sha256, number, 'the key')
    return { text: line, key }
  })
}

function keyIn(line: string, number: number): KeyEntry | undefined {
  // Trims the mark that some editors put before the first line, too.
  const written = line.trim()
  if (written === '' || written.startsWith('#')) return undefined
  const [tenant = '', name = '', sha256 = '', ...rest] = written.split(':')
  if (rest.length > 0 || sha256 === '') throw invalid(`line ${number} is not tenant:name:sha256hex`)
  if (!isTenant(tenant)) throw invalid(`line ${number} has a tenant that cannot be one`)
  if (!isKeyName(name)) throw invalid(`line ${number} has a name that cannot be one`)
  if (!isSha256(sha256)) throw invalid(`line ${number} has no 64 hexadecimal digits at its end`)
  return { tenant, name, sha256: sha256.toLowerCase() }
}

/** A hash has no colon, so that it is never taken for a name. */
function claim(seen: Map<string, number>, id: string, number: number, what: string): void {
  const before = seen.get(id)
  if (before !== undefined) throw invalid(`line ${number} has ${what} of line ${before}`)
  seen.set(id, number)
}

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('KEYS_FILE_INVALID', detail)
}
