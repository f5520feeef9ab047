import { crc32 } from 'node:zlib'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { Database, Key, RangeOptions, RootDatabase, RootDatabaseOptions } from 'lmdb'
import { corrupt } from '../rules.ts'
import { checkDataFile, diskRoom, PRIVATE, storeError } from './data-file.ts'
import type { SyncPolicy } from './open.ts'

export const FORMAT_VERSION = 2

/** One change to a table; without a value the key is removed. */
export interface Write {
  readonly table: Table | ByteTable
  readonly key: Key
  readonly value?: string | Uint8Array | undefined
  /** Creates a large value. Yields to the event loop. */
  readonly createValue?: () => Promise<Uint8Array>
}

/* Ids are shown for the tenant `default`; see `TenantKeys` for other tenants. */
export const TABLE_NAMES = [
  /** `format`, `nextNumber`, marks of damaged turns, and the keyed records of each tenant. */
  'store',
  /** Turn id to StoredTurn. */
  'turns',
  /** Run id to turn id, where they differ. */
  'runs',
  /** Thread id to StoredThread. */
  'threads',
  /** [thread id, ordinal] to turn id. */
  'threadTurns',
  /** [time of the last change, thread id] to nothing; other tenants have their name first. */
  'recency',
  /** Numbers of unsealed turns to their ids: all that is read at startup. */
  'open',
  /** [kind of content, end of the turn or expiry, turn id or key] to nothing: the sweeper's index. */
  'ended',
  /** [turn number, key position] to the newest snapshot. */
  'processed',
  /** Turn number to its Response, once `events` is sealed with one. */
  'responses',
  /** Commit number to the lines that no chunk holds yet. */
  'journal',
] as const

export type Tables = Readonly<Record<(typeof TABLE_NAMES)[number], Table>> & {
  /** [turn number, seq of the first line] to up to 256 lines, deflated. */
  readonly chunks: ByteTable
}

/** More transactions than it takes to create a store. */
const CREATING = 2 * (TABLE_NAMES.length + 1)

/** The LMDB file: its tables, and atomic commits. */
export class Environment {
  readonly file: string
  readonly tables: Tables
  readonly #reserve: (bytes: number) => Promise<void>
  readonly #root: RootDatabase<string>

  private constructor(file: string, root: RootDatabase<string>, tables: Tables) {
    this.file = file
    this.#root = root
    this.#reserve = diskRoom(file)
    this.tables = tables
  }

  static async open(file: string, sync: SyncPolicy): Promise<Environment> {
    try {
      const transactions = await checkDataFile(file)
      const root = await openRoot(file, {
        noMemInit: true,
        noSync: sync === 'system',
        // Would acknowledge a commit before it is on disk.
        overlappingSync: false,
        // Would turn a failed commit into an unhandled rejection as well (lmdb 3.5.6).
        eventTurnBatching: false,
      })
      const existing = new Set([...root.getKeys({})].map(String))
      const tables = openTables(root)
      const env = new Environment(file, root, tables)
      try {
        await env.#checkFormat(transactions)
        checkTables(file, tables, existing)
      } catch (error) {
        await env.close()
        throw error
      }
      return env
    } catch (error) {
      throw await storeError(error, file)
    }
  }

  /** The format is written right after the tables are created. */
  async #checkFormat(transactions: number): Promise<void> {
    const stored = readFormat(this.#root)
    if (stored === undefined) {
      if (transactions > CREATING) throw corrupt(`${this.file}: its format is missing`)
      await this.#writeFormat()
    } else if (stored !== String(FORMAT_VERSION)) {
      throw versionError(this.file, stored)
    }
  }

  async #writeFormat(): Promise<void> {
    await this.#reserve(0)
    await plainStore(this.#root).put('format', String(FORMAT_VERSION))
  }

  /** Resolves when everything is stored, as durably as configured; rejects if nothing is. */
  async commit(writes: readonly Write[]): Promise<void> {
    try {
      const values = await createValues(writes)
      let bytes = 0
      for (const value of values) bytes += value?.length ?? 0
      await this.#reserve(bytes)
      await this.#root.batch(() => {
        for (const [at, { table, key }] of writes.entries()) table.write(key, values[at])
      })
    } catch (error) {
      throw await storeError(error, this.file)
    }
  }

  /** Pages in use, without the journal. The file also contains free pages for reuse. */
  bytesUsed(): number {
    const { journal: _journal, ...tables } = this.tables
    return Object.values(tables).reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** Writes all pages in use to a new file. Without a free list, lmdb 3.5.6 may crash at its first commit. */
  async copyTo(file: string): Promise<void> {
    await this.#root.backup(file, true)
    const copy = await Environment.open(file, 'commit')
    try {
      await copy.#writeFormat()
    } finally {
      await copy.close()
    }
  }

  async close(): Promise<void> {
    await this.#root.close()
  }
}

async function createValues(writes: readonly Write[]): Promise<Write['value'][]> {
  const values: Write['value'][] = []
  for (const { value, createValue } of writes) {
    values.push(createValue === undefined ? value : await createValue())
  }
  return values
}

export async function openRoot(file: string, options: RootDatabaseOptions = {}) {
  const { open } = await import('lmdb')
  const maxDbs = TABLE_NAMES.length + 1
  return open<string>({
    path: file,
    noSubdir: true,
    encoding: 'string',
    maxDbs,
    ...PRIVATE,
    ...options,
  })
}

/** Has no checksum: every version must be able to read it. Undefined in a new store. */
export function readFormat(root: RootDatabase<string>): string | undefined {
  return plainStore(root).get('format')
}

function plainStore(root: RootDatabase<string>): Database<string> {
  return root.openDB<string>({ name: 'store', encoding: 'string' })
}

export function versionError(file: string, stored: string): TurnstreamError {
  const detail = `${file} has format ${stored}, but this version reads format ${FORMAT_VERSION}`
  return new TurnstreamError('STORE_VERSION', detail)
}

export function openTables(root: RootDatabase<string>): Tables {
  const named = TABLE_NAMES.map((name) => {
    return [name, new Table(name, root.openDB<string>({ name, encoding: 'string' }))] as const
  })
  const bytes = root.openDB<Uint8Array>({ name: 'chunks', encoding: 'binary' })
  const chunks = new ByteTable('chunks', bytes)
  return { ...Object.fromEntries(named), chunks } as unknown as Tables
}

/** A damaged page can look like an empty table, or hide one: turns would then be unknown instead of damaged. */
export function checkTables(file: string, tables: Tables, existing: ReadonlySet<string>): void {
  for (const table of Object.values(tables)) {
    if (existing.size > 0 && !existing.has(table.name)) {
      throw corrupt(`${file}: table ${table.name} is missing`)
    }
    const [first] = table.getKeys({ limit: 1 })
    if ((first === undefined) !== (table.entryCount === 0)) {
      throw corrupt(`${file}: table ${table.name} is unreadable`)
    }
  }
}

/** Returns what is read, or `other` if that is damaged. */
export function unlessDamaged<T, Other = undefined>(read: () => T, other?: Other): T | Other {
  try {
    return read()
  } catch (error) {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
    return other as Other
  }
}

/** Checksum prefix: eight hexadecimal digits for text, four bytes for binary values. */
const TEXT_SUM = 8
const BYTES_SUM = 4

/** A table whose values carry a CRC-32 of table, key and value: LMDB has no checksums. STORE_CORRUPT on a mismatch. */
abstract class CheckedTable<Value extends string | Uint8Array> {
  readonly name: string
  readonly #db: Database<Value>
  readonly #seed: number

  constructor(name: string, db: Database<Value>) {
    this.name = name
    this.#db = db
    this.#seed = crc32(name)
  }

  protected abstract seal(value: Value, seed: number): Value
  /** Undefined on a checksum mismatch. */
  protected abstract unseal(stored: Value, seed: number): Value | undefined

  get(key: Key): Value | undefined {
    try {
      const stored = this.#db.get(key)
      return stored === undefined ? undefined : this.#read(key, stored)
    } catch (error) {
      throw this.#unreadable(error)
    }
  }

  /** The value of a key that a range contains. STORE_CORRUPT if the key does not lead to it. */
  getListed(key: Key): Value {
    const value = this.get(key)
    if (value !== undefined) return value
    throw corrupt(`record ${JSON.stringify(key)} of table ${this.name} is not in its place`)
  }

  *getRange(options: RangeOptions): Generator<{ readonly key: Key; readonly value: Value }> {
    for (const { key, value } of this.#iterate(this.#db.getRange(options))) {
      yield { key, value: this.#read(key, value) }
    }
  }

  getKeys(options: RangeOptions): Generator<Key> {
    return this.#iterate(this.#db.getKeys(options))
  }

  /** Keys in batches, without an open cursor between them: values may be read and turns removed meanwhile. */
  *batches(range: RangeOptions & { start: Key }, limit: number): Generator<Key[]> {
    let { start } = range
    for (;;) {
      const keys = [...this.getKeys({ ...range, start, exclusiveStart: true, limit })]
      const last = keys.at(-1)
      if (last === undefined) return
      yield keys
      start = last
    }
  }

  *#iterate<T>(range: Iterable<T>): Generator<T> {
    const iterator = range[Symbol.iterator]()
    try {
      for (let next = iterator.next(); !next.done; next = iterator.next()) yield next.value
    } catch (error) {
      // Otherwise it would keep the transaction.
      iterator.return?.()
      throw this.#unreadable(error)
    } finally {
      iterator.return?.()
    }
  }

  get bytes(): number {
    const stats = this.#db.getStats() as Record<string, number>
    const { pageSize = 0, treeBranchPageCount = 0, treeLeafPageCount = 0 } = stats
    return pageSize * (treeBranchPageCount + treeLeafPageCount + (stats['overflowPages'] ?? 0))
  }

  /** The record count stored in the table; fewer may be reachable when it is damaged. */
  get entryCount(): number {
    return (this.#db.getStats() as { entryCount: number }).entryCount
  }

  /** Part of a batch, whose promise covers it. Text tables take strings, binary tables bytes. */
  write(key: Key, value: string | Uint8Array | undefined): void {
    if (value === undefined) void this.#db.remove(key)
    else void this.#db.put(key, this.seal(value as Value, this.#seedOf(key)))
  }

  #read(key: Key, stored: Value): Value {
    const value = this.unseal(stored, this.#seedOf(key))
    if (value !== undefined) return value
    throw corrupt(`record ${JSON.stringify(key)} of table ${this.name} is damaged`)
  }

  /** LMDB detects some damage itself and fails to read a page. Then every read of its transaction fails: it is ended. */
  #unreadable(error: unknown): TurnstreamError {
    if (error instanceof TurnstreamError) return error
    this.#db.resetReadTxn()
    return corrupt(`table ${this.name} is unreadable`, {
      cause: error,
    })
  }

  #seedOf(key: Key): number {
    return crc32(JSON.stringify(key), this.#seed)
  }
}

export class Table extends CheckedTable<string> {
  protected override seal(value: string, seed: number): string {
    return sumText(value, seed) + value
  }

  protected override unseal(stored: string, seed: number): string | undefined {
    const value = stored.slice(TEXT_SUM)
    return stored.slice(0, TEXT_SUM) === sumText(value, seed) ? value : undefined
  }
}

export class ByteTable extends CheckedTable<Uint8Array> {
  protected override seal(value: Uint8Array, seed: number): Uint8Array {
    const stored = Buffer.allocUnsafe(BYTES_SUM + value.length)
    stored.writeUInt32LE(crc32(value, seed))
    stored.set(value, BYTES_SUM)
    return stored
  }

  protected override unseal(stored: Uint8Array, seed: number): Uint8Array | undefined {
    if (stored.length < BYTES_SUM) return undefined
    const value = stored.subarray(BYTES_SUM)
    const sum = Buffer.from(stored.buffer, stored.byteOffset, BYTES_SUM).readUInt32LE()
    return sum === crc32(value, seed) ? value : undefined
  }
}

function sumText(value: string, seed: number): string {
  return crc32(value, seed).toString(16).padStart(TEXT_SUM, '0')
}
