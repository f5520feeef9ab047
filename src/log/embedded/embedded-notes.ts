import type { Key } from 'lmdb'
import { TurnstreamError } from '../../protocol/errors.ts'
import { parseJsonSafe } from '../../protocol/json.ts'
import { checkNote, checkNoteKeys, lastExpiry, liveNotes, MAX_NOTES, type Note } from '../notes.ts'
import type { Environment } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import type { TenantKeys } from './stored-turn.ts'

/** Maximum keys swept in one commit. */
const KEYS_PER_STEP = 100

interface Store {
  readonly env: Environment
  readonly commits: GroupCommit
  readonly steadyNow: () => number
}

/*
 * The notes of a key are one record of the table `store`, under `note <key>`. Its entry in the sweeper's index has the
 * expiry of the last one. Neither needs a table that older stores lack.
 */
function recordKey(key: string): string {
  return `note ${key}`
}

function indexKey(until: number, key: string): Key {
  return ['note', until, key]
}

/** The notes of one tenant. */
export class EmbeddedNotes {
  readonly #keys: TenantKeys
  readonly #store: Store

  constructor(keys: TenantKeys, store: Store) {
    this.#keys = keys
    this.#store = store
  }

  async add(key: string, value: string, ttlMs: number): Promise<void> {
    checkNote(key, value, ttlMs)
    const now = this.#store.steadyNow()
    const note: Note = [now + ttlMs, value]
    await this.#replace(key, (notes) => [...liveNotes(notes, now), note].slice(-MAX_NOTES))
  }

  /** Only what is stored. */
  read(keys: readonly string[]): (string | undefined)[] {
    checkNoteKeys(keys)
    const { env, steadyNow } = this.#store
    const now = steadyNow()
    return keys.map((key) => {
      const notes = parseNotes(env.tables.store.get(recordKey(this.#keys.of(key))))
      return liveNotes(notes, now).at(-1)?.[1]
    })
  }

  async take(key: string): Promise<string | undefined> {
    checkNoteKeys([key])
    const { commits, env, steadyNow } = this.#store
    const name = recordKey(this.#keys.of(key))
    const live = liveNotes(parseNotes(commits.get(env.tables.store, name)), steadyNow())
    const taken = live.pop()
    if (taken !== undefined) await this.#replace(key, () => live)
    // Another call has taken it, but its commit may still fail.
    else if (commits.isStaged(env.tables.store, name)) await commits.store(undefined)
    return taken?.[1]
  }

  async #replace(key: string, change: (notes: readonly Note[]) => readonly Note[]): Promise<void> {
    const { commits, env } = this.#store
    const { store, ended } = env.tables
    const own = this.#keys.of(key)
    const before = parseNotes(commits.get(store, recordKey(own)))
    const after = change(before)
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

/** Removes some keys of any tenant whose notes have all expired; false when none is left. */
export async function sweepNotes(
  { env, commits, onError }: Store & { readonly onError: (error: unknown) => void },
  now: number,
): Promise<boolean> {
  const { store, ended } = env.tables
  const range = { start: ['note'], end: ['note', now, '\uffff'], limit: KEYS_PER_STEP }
  const due = [...ended.getKeys(range)].filter((key): key is (string | number)[] =>
    Array.isArray(key),
  )
  if (due.length === 0) return false
  for (const [, until, key] of due) {
    const name = recordKey(String(key))
    try {
      // A note was added since: the key has a later entry.
      if (lastExpiry(parseNotes(commits.get(store, name))) > Number(until)) continue
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

function parseNotes(text: string | undefined): readonly Note[] {
  if (text === undefined) return []
  const notes = parseJsonSafe(text)
  // Written by this package.
  if (Array.isArray(notes) && notes.every(Array.isArray)) return notes as unknown as Note[]
  throw new TurnstreamError('STORE_CORRUPT', 'a stored note is malformed')
}
