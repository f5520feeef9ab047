import { createHash, timingSafeEqual } from 'node:crypto'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isTenant } from '@turnstream/core/internal/protocol/names'

/** Identifies a key. Not a secret. */
export interface KeyName {
  readonly tenant: string
  /** Unique per tenant. */
  readonly name: string
}

/** A stored key. It cannot be used to authenticate. */
export interface KeyEntry extends KeyName {
  /** SHA-256 of the key: 64 hexadecimal digits. */
  readonly sha256: string
}

/** A key in plain text. The ring stores only its hash. */
export interface PlainKey extends KeyName {
  readonly key: string
}

/** Like a tenant name, with room for versions and dates. */
export function isKeyName(name: string): boolean {
  return /^[a-z0-9][a-z0-9._-]{0,63}$/i.test(name)
}

function isSha256(text: string): boolean {
  return /^[0-9a-f]{64}$/i.test(text)
}

/** Whether a text can be a key: fits into a header, and is cheap to hash. */
export function isKey(text: string): boolean {
  return /^[!-~]{1,512}$/.test(text)
}

/** SHA-256 without salt or stretching: a key is 256 random bits, so dictionary attacks do not apply. */
export function sha256Of(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

interface StoredKey {
  readonly owner: KeyName
  readonly digest: Buffer
}

/** The valid keys. Can be replaced atomically at any time. */
export class KeyRing {
  #keys: readonly StoredKey[] = []
  #fingerprints: ReadonlyMap<string, string> = new Map()
  readonly #listeners = new Set<() => void>()

  /** OPTION_INVALID for an invalid tenant, name, key or hash. */
  constructor(entries: Iterable<KeyEntry | PlainKey>) {
    this.replace(entries)
  }

  get size(): number {
    return this.#keys.length
  }

  /** Keeps the current keys if any entry is invalid. */
  replace(entries: Iterable<KeyEntry | PlainKey>): void {
    const keys = Array.from(entries, toStoredKey)
    this.#fingerprints = new Map(
      keys.map(({ owner, digest }) => [idOf(owner), digest.toString('hex')]),
    )
    this.#keys = keys
    for (const notify of this.#listeners) notify()
  }

  /** Calls `listener` after each change until the returned function is called. */
  onReplace(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Finds the name of a key in constant time: every stored hash is compared in full. 1,000 keys take 0.1 ms. */
  find(key: string): KeyName | undefined {
    if (!isKey(key)) return undefined
    const digest = createHash('sha256').update(key).digest()
    let found: KeyName | undefined
    for (const stored of this.#keys) {
      found = timingSafeEqual(stored.digest, digest) ? stored.owner : found
    }
    return found
  }

  /** Distinguishes the key with this name from an earlier one; undefined if there is none. */
  fingerprintOf(key: KeyName): string | undefined {
    return this.#fingerprints.get(idOf(key))
  }
}

function toStoredKey(entry: KeyEntry | PlainKey): StoredKey {
  const { tenant, name } = entry
  const sha256 = 'key' in entry ? sha256Of(entry.key) : entry.sha256
  if (!isTenant(tenant) || !isKeyName(name) || !isSha256(sha256)) {
    throw new TurnstreamError('OPTION_INVALID', 'a key needs a tenant, a name and a SHA-256')
  }
  if ('key' in entry && !isKey(entry.key)) {
    const detail = `the key ${name} of ${tenant} must have 1 to 512 printable ASCII characters`
    throw new TurnstreamError('OPTION_INVALID', detail)
  }
  return { owner: { tenant, name }, digest: Buffer.from(sha256, 'hex') }
}

/** Unambiguous: neither part contains a colon. */
function idOf({ tenant, name }: KeyName): string {
  return `${tenant}:${name}`
}

/** About 8,000 keys. */
export const MAX_KEYS_FILE_CHARS = 1024 * 1024

/** A line of a keys file; `key` is missing for blank lines and comments. */
export interface KeysFileLine {
  readonly text: string
  readonly key?: KeyEntry
}

/** Parses lines of `tenant:name:sha256hex`. KEYS_FILE_INVALID names the line, not its content, which may be a key. */
export function parseKeysFile(text: string): KeyEntry[] {
  return linesOfKeysFile(text).flatMap(({ key }) => key ?? [])
}

/** Like `parseKeysFile`, with all lines: their texts joined with `\n` are the file. */
export function linesOfKeysFile(text: string): KeysFileLine[] {
  if (text.length > MAX_KEYS_FILE_CHARS) {
    throw invalidFile(`larger than ${MAX_KEYS_FILE_CHARS} characters`)
  }
  // Names and hashes never collide: a hash has no colon.
  const seen = new Map<string, number>()
  const claim = (id: string, number: number, what: string): void => {
    const before = seen.get(id)
    if (before !== undefined) throw invalidFile(`line ${number} repeats ${what} of line ${before}`)
    seen.set(id, number)
  }
  return text.split('\n').map((line, index) => {
    const number = index + 1
    const key = parseLine(line, number)
    if (key === undefined) return { text: line }
    claim(idOf(key), number, 'the name')
    claim(key.sha256, number, 'the key')
    return { text: line, key }
  })
}

function parseLine(line: string, number: number): KeyEntry | undefined {
  // Also trims a byte order mark.
  const written = line.trim()
  if (written === '' || written.startsWith('#')) return undefined
  const [tenant = '', name = '', sha256 = '', ...rest] = written.split(':')
  if (rest.length > 0 || sha256 === '') {
    throw invalidFile(`line ${number} is not tenant:name:sha256hex`)
  }
  if (!isTenant(tenant)) throw invalidFile(`line ${number} has an invalid tenant`)
  if (!isKeyName(name)) throw invalidFile(`line ${number} has an invalid key name`)
  if (!isSha256(sha256)) throw invalidFile(`line ${number} does not end with 64 hexadecimal digits`)
  return { tenant, name, sha256: sha256.toLowerCase() }
}

function invalidFile(detail: string): TurnstreamError {
  return new TurnstreamError('KEYS_FILE_INVALID', detail)
}
