import { join } from 'node:path'
import fc from 'fast-check'
import { type Database, open } from 'lmdb'
import { describe, expect, onTestFinished, test } from 'vitest'
import { TenantKeys } from '../../../src/log/embedded/stored-turn.ts'
import { ID_PATTERN } from '../../../src/log/records.ts'
import { parseTenantKey } from '../../../src/log/tenants.ts'
import { folderOfTest } from './support.ts'

const tenants = ['default', 'acme', 'acme2', 'a', `a${'b'.repeat(63)}`] as const
const tenant = fc.constantFrom(...tenants)

/** Ids that are one; some are long, because lmdb writes them in another way than short ones. */
const id = fc
  .oneof(
    fc.constantFrom('turn', 'acme', 'default', 'x'.repeat(64), 'x'.repeat(200), '漢'.repeat(200)),
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 30 }),
  )
  .filter((text) => ID_PATTERN.test(text))

const joint = fc.constantFrom(' ', '\u0000', '\u0001', '\u0004', '\u001b', '\u001e', ':', '\n', '')

/** Whatever may be asked for, often something that looks like a key of another tenant. */
const asked = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc
    .tuple(joint, tenant, joint, id, joint, fc.string({ unit: 'binary' }))
    .map((all) => all.join('')),
  fc.tuple(tenant, joint, id, joint, fc.string()).map((all) => all.join('')),
  fc.tuple(tenant, joint, id).map((all) => all.join('')),
  id,
)

async function table(): Promise<Database<string>> {
  const db = open<string>({
    path: join(folderOfTest(), 'keys.mdb'),
    noSubdir: true,
    encoding: 'string',
  })
  onTestFinished(() => db.close())
  return db
}

describe('tenant keys', () => {
  test('L13 a stored key contains its tenant and id', () => {
    fc.assert(
      fc.property(tenant, id, (name, text) => {
        expect(parseTenantKey(new TenantKeys(name).of(text))).toEqual({ tenant: name, id: text })
      }),
    )
  })

  test('L13 of default are plain ids, and thread positions are a time and an id', () => {
    fc.assert(
      fc.property(id, (text) => {
        const keys = new TenantKeys('default')
        expect(keys.of(text)).toBe(text)
        expect(keys.recency({ updatedAt: 7, threadId: text })).toEqual([7, text])
      }),
    )
  })

  test('L13 no text matches keys of another tenant, exactly or as a prefix', {
    timeout: 60_000,
  }, async () => {
    const db = await table()
    const owners = new Map<string, string>()
    const stored = fc.sample(fc.tuple(tenant, id), { numRuns: 300, seed: 3 })
    for (const [name, text] of stored) {
      const key = new TenantKeys(name).of(text)
      owners.set(key, name)
      await db.put(key, key)
      await db.put([key, 1], key)
      await db.put([key, 5], key)
    }
    fc.assert(
      fc.property(tenant, asked, (name, text) => {
        const key = new TenantKeys(name).of(text)
        const found = [db.get(key), ...rangeOf(db, key)]
        const others = found.filter((each) => each !== undefined && owners.get(each) !== name)
        // Within a tenant as well: what is no id is the name of nothing.
        return others.length === 0 && (found[0] === undefined || ID_PATTERN.test(text))
      }),
      { numRuns: 3000, seed: 5 },
    )
  })

  test('L13 no list position leads to threads of another tenant', {
    timeout: 60_000,
  }, async () => {
    const db = await table()
    const times = fc.constantFrom(0, 1, 1000, 1_700_000_000_000, 999_999_999_999_999)
    for (const [name, updatedAt, threadId] of fc.sample(fc.tuple(tenant, times, id), {
      numRuns: 300,
      seed: 3,
    })) {
      await db.put(new TenantKeys(name).recency({ updatedAt, threadId }), name)
    }
    const check = (name: string, from?: { updatedAt: number; threadId: string }) => {
      const range = new TenantKeys(name).newestFirst(from)
      const owners = [...db.getRange(range)].map(({ value }) => value)
      expect(owners.every((owner) => owner === name)).toBe(true)
      return owners.length
    }
    let listed = 0
    for (const name of tenants) listed += check(name)
    expect(listed).toBe(db.getKeysCount())
    fc.assert(
      fc.property(tenant, times, asked, (name, updatedAt, threadId) => {
        check(name, { updatedAt, threadId })
      }),
      { numRuns: 1000, seed: 5 },
    )
  })

  test('L13 a text that is too long for a key matches nothing', async () => {
    const db = await table()
    for (const name of tenants) {
      const keys = new TenantKeys(name)
      await db.put(keys.of('漢'.repeat(200)), 'stored')
      for (const text of ['x'.repeat(2000), '漢'.repeat(201), '漢'.repeat(100_000)]) {
        expect(db.get(keys.of(text))).toBeUndefined()
        expect(rangeOf(db, keys.of(text))).toEqual([])
      }
    }
  })
})

function rangeOf(db: Database<string>, key: string): string[] {
  return [...db.getRange({ start: [key, 0], end: [key, Infinity] })].map(({ value }) => value)
}
