import { parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import type { Key } from 'lmdb'
import { type ExpiringValue, LocalKeyedRecords, lastExpiry } from '../keyed-records.ts'
import type { TurnAccess } from '../local-log.ts'
import { corrupt } from '../rules.ts'
import type { EmbeddedStore } from './embedded-store.ts'
import type { TenantKeys } from './stored-turn.ts'

const KEYS_PER_STEP = 100

/* The values of a key are in `store`, under `note <key>`; the sweeper's index has the last expiry. */
function recordKey(key: string): string {
  return `note ${key}`
}

function indexKey(until: number, key: string): Key {
  return ['note', until, key]
}

export class EmbeddedKeyedRecords extends LocalKeyedRecords {
  readonly #keys: TenantKeys
  readonly #store: EmbeddedStore

  constructor(turns: TurnAccess, keys: TenantKeys, store: EmbeddedStore) {
    super(turns, store.steadyNow)
    this.#keys = keys
    this.#store = store
  }

  protected override visible(key: string): readonly ExpiringValue[] {
    return parseValues(this.#store.env.tables.store.get(recordKey(this.#keys.of(key))))
  }

  protected override decided(key: string): readonly ExpiringValue[] {
    const { commits, env } = this.#store
    return parseValues(commits.get(env.tables.store, recordKey(this.#keys.of(key))))
  }

  protected override async settled(key: string): Promise<void> {
    const { commits, env } = this.#store
    const isStaged = commits.isStaged(env.tables.store, recordKey(this.#keys.of(key)))
    if (isStaged) await commits.store(undefined)
  }

  protected override async replace(key: string, after: readonly ExpiringValue[]): Promise<void> {
    const { commits, env } = this.#store
    const { store, ended } = env.tables
    const own = this.#keys.of(key)
    const before = this.decided(key)
    commits.stage(store, recordKey(own), after.length === 0 ? undefined : JSON.stringify(after))
    await commits.store(undefined, {
      write: (writes) => {
        if (before.length > 0) writes.push({ table: ended, key: indexKey(lastExpiry(before), own) })
        if (after.length === 0) return
        writes.push({ table: ended, key: indexKey(lastExpiry(after), own), value: '' })
      },
    })
  }
}

/** Removes some keys of any tenant whose values have all expired; false when none is left. */
export async function sweepKeyedRecords({ env, commits, onError }: EmbeddedStore, now: number) {
  const { store, ended } = env.tables
  const range = { start: ['note'], end: ['note', now, '\uffff'], limit: KEYS_PER_STEP }
  const due = [...ended.getKeys(range)].filter((key): key is (string | number)[] =>
    Array.isArray(key),
  )
  if (due.length === 0) return false
  for (const [, until, key] of due) {
    const name = recordKey(String(key))
    try {
      // A value was added since: the key has a later entry.
      if (lastExpiry(parseValues(commits.get(store, name))) > Number(until)) continue
    } catch (error) {
      // An unreadable record expires too.
      onError(error)
    }
    commits.stage(store, name, undefined)
  }
  await commits.store(undefined, {
    write: (writes) => {
      for (const key of due) writes.push({ table: ended, key })
    },
  })
  return true
}

function parseValues(text: string | undefined): readonly ExpiringValue[] {
  if (text === undefined) return []
  const values = parseJsonSafe(text)
  // Written by this package.
  if (Array.isArray(values) && values.every(Array.isArray)) {
    return values as unknown as ExpiringValue[]
  }
  throw corrupt('a stored keyed record is malformed')
}
