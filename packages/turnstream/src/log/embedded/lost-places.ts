import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { hasCode } from '@turnstream/core/internal/protocol/errors'
import type { Key } from 'lmdb'
import type { Table, Tables } from './environment.ts'
import { parseKey, parsePlace, TenantKeys } from './stored-turn.ts'

const READ_AT_ONCE = 1000

/** The places of a turn whose record does not name its thread, found by reading those of all turns. */
export async function placesOf({ threadTurns }: Tables, turnKey: string): Promise<Key[]> {
  const found: Key[] = []
  let start: Key = ['']
  for (;;) {
    const range = { start, exclusiveStart: true, limit: READ_AT_ONCE }
    const keys: Key[] = [...threadTurns.getKeys(range)]
    for (const key of keys) {
      if (turnKeyAt(threadTurns, key) === turnKey) found.push(key)
    }
    const last = keys.at(-1)
    if (last === undefined) return found
    start = last
    if (isSliceOver()) await nextSlice()
  }
}

function turnKeyAt(threadTurns: Table, place: Key): string | undefined {
  if (!Array.isArray(place)) return undefined
  const { tenant } = parseKey(String(place[0]))
  try {
    return new TenantKeys(tenant).of(parsePlace(threadTurns.getListed(place)).turnId)
  } catch (error) {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
    return undefined
  }
}
