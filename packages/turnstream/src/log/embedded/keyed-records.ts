import type { AddResult, KeyedRecords, Lease } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import type { Key } from 'lmdb'
import {
  checkKeys,
  checkTenantRecord,
  checkTurnRecord,
  type ExpiringValue,
  findValue,
  lastExpiry,
  liveValues,
  MAX_VALUES,
  withValue,
} from '../keyed-records.ts'
import type { EmbeddedLog } from './embedded-log.ts'
import type { EmbeddedStore } from './embedded-store.ts'

const KEYS_PER_STEP = 100

/*
 * The values of a key are one record of the table `store`, under `note <key>`. Its entry in the sweeper's index has the
 * expiry of the last one. Neither needs a table that older stores lack. The keyed records of a turn are in its record.
 */
function recordKey(key: string): string {
  return `note ${key}`
}

function indexKey(until: number, key: string): Key {
  return ['note', until, key]
}

export class EmbeddedKeyedRecords implements KeyedRecords {
  readonly #log: EmbeddedLog
  readonly #store: EmbeddedStore

  constructor(log: EmbeddedLog, store: EmbeddedStore) {
    this.#log = log
    this.#store = store
  }

  async add(key: string, value: string, ttlMs: number): Promise<void> {
    this.#store.checkOpen()
    checkTenantRecord(key, value, ttlMs)
    const now = this.#store.steadyNow()
    const added: ExpiringValue = [now + ttlMs, value]
    await this.#replace(key, (values) => [...liveValues(values, now), added].slice(-MAX_VALUES))
  }

  /** Only what is stored. */
  async read(keys: readonly string[]): Promise<(string | undefined)[]> {
    const { env, steadyNow } = this.#store
    this.#store.checkOpen()
    checkKeys(keys)
    const now = steadyNow()
    return keys.map((key) => {
      const values = parseValues(env.tables.store.get(recordKey(this.#log.keys.of(key))))
      return liveValues(values, now).at(-1)?.[1]
    })
  }

  async consume(key: string): Promise<string | undefined> {
    const { commits, env, steadyNow } = this.#store
    this.#store.checkOpen()
    checkKeys([key])
    const name = recordKey(this.#log.keys.of(key))
    const live = liveValues(parseValues(commits.get(env.tables.store, name)), steadyNow())
    const newest = live.pop()
    if (newest !== undefined) await this.#replace(key, () => live)
    // Another call has consumed it, but its commit may still fail.
    else if (commits.isStaged(env.tables.store, name)) await commits.store(undefined)
    return newest?.[1]
  }

  async #replace(
    key: string,
    change: (values: readonly ExpiringValue[]) => readonly ExpiringValue[],
  ): Promise<void> {
    const { commits, env } = this.#store
    const { store, ended } = env.tables
    const own = this.#log.keys.of(key)
    const before = parseValues(commits.get(store, recordKey(own)))
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

  async addOnce(turnId: string, key: string, value: string): Promise<AddResult> {
    checkTurnRecord(key, value)
    const { commits } = this.#store
    for (;;) {
      const turn = this.#log.existing(turnId)
      const { cancelReason, values } = turn.facts
      const before = findValue(turn.committed?.values, key)
      if (before !== undefined) return { isAdded: false, value: before }
      // Decided, but the commit may still fail.
      if (findValue(values, key) === undefined) {
        if (turn.state.logs.events.sealed || cancelReason !== undefined) return { isAdded: false }
        turn.decide({ values: withValue(values, key, value) })
        await commits.store(turn)
        return { isAdded: true, value }
      }
      await commits.store(turn)
    }
  }

  async find(turnId: string, key: string): Promise<string | undefined> {
    return findValue(this.#log.existing(turnId).committed?.values, key)
  }

  watch(lease: Lease, key: string, signal: AbortSignal): Promise<string> {
    return this.#log.waitFor(lease, signal, ({ values }) => findValue(values, key))
  }
}

/** Removes some keys of any tenant whose values have all expired; false when none is left. */
export async function sweepKeyedRecords(
  { env, commits, onError }: EmbeddedStore,
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
  throw new TurnstreamError('STORE_CORRUPT', 'a stored keyed record is malformed')
}
