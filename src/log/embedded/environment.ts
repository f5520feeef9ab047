import type { Database, Key, RootDatabase } from 'lmdb'
import { TurnstreamError } from '../../protocol/errors.ts'
import { checkDataFile, PRIVATE } from './data-file.ts'
import { DiskRoom } from './disk-room.ts'
import { storeError } from './failures.ts'
import type { SyncPolicy } from './sync-policy.ts'
import { ByteTable, Table } from './table.ts'

export type { ByteTable, Table }

/** The name of the file that holds everything. */
export const DATA_FILE = 'turns.mdb'

/** Raised when what is stored changes its form. */
export const FORMAT_VERSION = 2

/** One change to a table; without a value the key is removed. */
export interface Write {
  readonly table: Table | ByteTable
  readonly key: Key
  readonly value?: string | Uint8Array
}

/* Where an id is named it is that of the tenant `default`; see `TenantKeys` for those of others. */
export const TABLE_NAMES = [
  /** `format` and `nextNumber`. */
  'store',
  /** Turn id to StoredTurn. */
  'turns',
  /** Run id to turn id, where they differ. */
  'runs',
  /** Thread id to StoredThread. */
  'threads',
  /** [thread id, ordinal] to turn id. */
  'threadTurns',
  /** [time of the last change, thread id] to nothing, for another tenant behind its name. */
  'recency',
  /** The numbers of turns that are not sealed, to their ids: all that is read when the store is opened. */
  'open',
  /** ['logs' or 'record', end of the turn, turn id] to nothing: what the sweeper looks through. */
  'ended',
  /** [number of the turn, place of the key] to the newest snapshot. */
  'processed',
  /** Number of the turn to its Response, once `events` is sealed with one. */
  'responses',
  /** Number of the commit to the lines in it that no chunk holds yet. */
  'journal',
] as const

export type Tables = Readonly<Record<(typeof TABLE_NAMES)[number], Table>> & {
  /** [number of the turn, seq of the first line] to up to 256 lines, deflated. */
  readonly chunks: ByteTable
}

/** More transactions than it takes to create a store. */
const CREATING = 2 * (TABLE_NAMES.length + 1)

/** The LMDB file: its tables, and commits that happen as a whole or not at all. */
export class Environment {
  readonly file: string
  readonly tables: Tables
  readonly #room: DiskRoom
  readonly #root: RootDatabase<string>
  /** The table `store` without checksums: every version must be able to read `format`. */
  readonly #plainStore: Database<string>

  private constructor(file: string, root: RootDatabase<string>, tables: Tables) {
    this.file = file
    this.#root = root
    this.#plainStore = root.openDB<string>({ name: 'store', encoding: 'string' })
    this.#room = new DiskRoom(file)
    this.tables = tables
  }

  static async open(file: string, sync: SyncPolicy): Promise<Environment> {
    const { open } = await import('lmdb')
    try {
      const transactions = await checkDataFile(file)
      const root = open<string>({
        path: file,
        noSubdir: true,
        encoding: 'string',
        maxDbs: TABLE_NAMES.length + 1,
        noMemInit: true,
        ...PRIVATE,
        noSync: sync === 'system',
        // With it a commit would be acknowledged before it is on the disk.
        overlappingSync: false,
        // With it a failed commit is also an unhandled rejection (lmdb 3.5.6).
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
    const stored = this.#plainStore.get('format')
    if (stored === undefined) {
      if (transactions > CREATING) throw damaged(this.file, 'its format is missing')
      await this.#writeFormat()
    } else if (stored !== String(FORMAT_VERSION)) {
      const detail = `${this.file} has format ${stored}, and this version reads format ${FORMAT_VERSION}`
      throw new TurnstreamError('STORE_VERSION', detail)
    }
  }

  async #writeFormat(): Promise<void> {
    await this.#room.take(0)
    await this.#plainStore.put('format', String(FORMAT_VERSION))
  }

  /** Resolves when all of it is stored, as safely as the policy says; rejects when none of it is. */
  async commit(writes: readonly Write[]): Promise<void> {
    let bytes = 0
    for (const { value } of writes) bytes += value?.length ?? 0
    try {
      await this.#room.take(bytes)
      await this.#root.batch(() => {
        for (const { table, key, value } of writes) {
          if (value === undefined) table.remove(key)
          else put(table, key, value)
        }
      })
    } catch (error) {
      throw await storeError(error, this.file)
    }
  }

  /**
   * The pages in use, those of the journal aside; the file is larger by the pages that are free to be used
   * again.
   */
  bytesUsed(): number {
    const { journal: _journal, ...tables } = this.tables
    let bytes = 0
    for (const table of Object.values(tables)) {
      const stats = table.getStats() as Record<string, number>
      const { pageSize = 0, treeBranchPageCount = 0, treeLeafPageCount = 0 } = stats
      const { overflowPages = 0 } = stats
      bytes += pageSize * (treeBranchPageCount + treeLeafPageCount + overflowPages)
    }
    return bytes
  }

  /**
   * Writes all pages in use to a new file. That has no list of free pages at all, and lmdb 3.5.6
   * fails or brings the process down when the first commit to such a file frees more than some 250 of them: so
   * a small one is made here.
   */
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

function put(table: Table | ByteTable, key: Key, value: string | Uint8Array): void {
  // A table of texts gets texts, one of bytes gets bytes.
  if (table instanceof ByteTable) table.put(key, value as Uint8Array)
  else table.put(key, value as string)
}

export function openTables(root: RootDatabase<string>): Tables {
  const named = TABLE_NAMES.map((name) => {
    return [name, new Table(name, root.openDB<string>({ name, encoding: 'string' }))] as const
  })
  const bytes = root.openDB<Uint8Array>({ name: 'chunks', encoding: 'binary' })
  const chunks = new ByteTable('chunks', bytes)
  return { ...Object.fromEntries(named), chunks } as unknown as Tables
}

/** A damaged page can look like an empty table, or hide one: then turns would be unknown instead of damaged. */
export function checkTables(file: string, tables: Tables, existing: ReadonlySet<string>): void {
  for (const table of Object.values(tables)) {
    if (existing.size > 0 && !existing.has(table.name)) {
      throw damaged(file, `table ${table.name} is missing`)
    }
    const [first] = table.getKeys({ limit: 1 })
    if ((first === undefined) !== (table.entryCount === 0)) {
      throw damaged(file, `table ${table.name} cannot be read`)
    }
  }
}

function damaged(file: string, detail: string): TurnstreamError {
  return new TurnstreamError('STORE_CORRUPT', `${file}: ${detail}`)
}
