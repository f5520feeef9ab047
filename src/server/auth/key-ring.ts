import { createHash, timingSafeEqual } from 'node:crypto'
import { TurnstreamError } from '../../protocol/errors.ts'
import { isTenant } from '../../protocol/tenant.ts'

/** What tells a key from all others, and is no secret. */
export interface KeyName {
  readonly tenant: string
  /** Unique per tenant. */
  readonly name: string
}

/** A key as it is kept: whoever reads this cannot use it. */
export interface KeyEntry extends KeyName {
  /** SHA-256 of the key, in 64 hexadecimal digits. */
  readonly sha256: string
}

/** Like the name of a tenant; people also write versions and dates. */
const KEY_NAME = /^[a-z0-9][a-z0-9._-]{0,63}$/i

export function isKeyName(name: string): boolean {
  return KEY_NAME.test(name)
}

export function isSha256(text: string): boolean {
  return /^[0-9a-f]{64}$/i.test(text)
}

/** What can stand in a header, and is soon hashed. */
const KEY = /^[!-~]{1,512}$/

/** Whether a text can be a key at all. */
export function isKey(text: string): boolean {
  return KEY.test(text)
}

/** SHA-256, without salt and stretching: a key is 256 random bits, and no dictionary has those. */
export function sha256Of(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

interface Kept {
  readonly owner: KeyName
  readonly digest: Buffer
}

/** The keys that are in force. They may be replaced at any time, all at once. */
export class KeyRing {
  #keys: readonly Kept[] = []
  #fingerprints: ReadonlyMap<string, string> = new Map()
  readonly #listeners = new Set<() => void>()

  /** OPTION_INVALID for what cannot be a tenant, a name or a hash. */
  constructor(entries: Iterable<KeyEntry>) {
    this.replace(entries)
  }

  get size(): number {
    return this.#keys.length
  }

  /** When one of them is refused, those that were in force stay. */
  replace(entries: Iterable<KeyEntry>): void {
    const keys = Array.from(entries, keptOf)
    this.#fingerprints = new Map(
      keys.map(({ owner, digest }) => [idOf(owner), digest.toString('hex')]),
    )
    this.#keys = keys
    for (const tell of this.#listeners) tell()
  }

  /** Calls `listener` after each change, until the returned function is called. */
  onReplace(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * Whose key it is. How long this takes says nothing of the keys: what was given is hashed and compared with
   * every one of them to the last byte, whether one fits or not. 1,000 keys take 0.1 ms.
   */
  find(key: string): KeyName | undefined {
    if (!isKey(key)) return undefined
    const digest = createHash('sha256').update(key).digest()
    let found: KeyName | undefined
    for (const kept of this.#keys) {
      found = timingSafeEqual(kept.digest, digest) ? kept.owner : found
    }
    return found
  }

  /** What tells the key that has this name now from one that had it before; undefined when none has it. */
  fingerprintOf(key: KeyName): string | undefined {
    return this.#fingerprints.get(idOf(key))
  }
}

function keptOf({ tenant, name, sha256 }: KeyEntry): Kept {
  if (!isTenant(tenant) || !isKeyName(name) || !isSha256(sha256)) {
    throw new TurnstreamError('OPTION_INVALID', 'a key has a tenant, a name and a SHA-256')
  }
  return { owner: { tenant, name }, digest: Buffer.from(sha256, 'hex') }
}

/** Neither of the two can hold a colon. */
function idOf({ tenant, name }: KeyName): string {
  return `${tenant}:${name}`
}
