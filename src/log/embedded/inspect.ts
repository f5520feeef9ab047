import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { Key } from 'lmdb'
import { TurnstreamError } from '../../protocol/errors.ts'
import { checkDataFile, DATA_FILE, storeError } from './data-file.ts'
import { DirectoryGuard, OWNER_FILE, PathLock } from './directory.ts'
import {
  type ByteTable,
  checkTables,
  FORMAT_VERSION,
  openTables,
  TABLE_NAMES,
  type Table,
  type Tables,
} from './environment.ts'
import { DAMAGED } from './loaded-turns.ts'
import { parseTurn, type StoredTurn } from './stored-turn.ts'
import { decodeRecords, unpackLines } from './turn-events.ts'
import { TurnProcessed } from './turn-processed.ts'

/** What is in a directory that may have a store. */
export interface EmbeddedFacts {
  /** The size of the store; undefined when there is none yet. */
  readonly bytes: number | undefined
  /** Undefined when nothing was verified: format 1 has no checksums, and a store without its lock files is not opened. */
  readonly verification?: Verification
}

/**
 * Verifies the store in a directory as it is. Creates nothing and changes no record. Rejects as `openEmbeddedLog`
 * would: STORE_LOCKED when a process has it, STORE_READ_ONLY, STORE_VERSION, STORE_CORRUPT. Meanwhile no other
 * process can open it. LMDB can crash on damaged pages: run this in a process that may die.
 */
export async function inspectEmbeddedLog(
  directory: string,
  onProgress: OnProgress = () => {},
): Promise<EmbeddedFacts> {
  const file = join(directory, DATA_FILE)
  try {
    await checkDataFile(file)
    const bytes = await sizeOf(file)
    const owner = join(directory, OWNER_FILE)
    // Where one of these is missing, looking would make it; at most a process has the path that lost its files.
    const needed = [file, lockOf(file), owner, lockOf(owner)]
    const sizes = await Promise.all(needed.map(sizeOf))
    if (sizes.includes(undefined)) {
      await (await PathLock.take(directory)).release()
      return { bytes }
    }
    const guard = await DirectoryGuard.take(directory)
    try {
      const verification = await readAll(file, onProgress)
      return { bytes, ...(verification && { verification }) }
    } finally {
      await guard.release()
    }
  } catch (error) {
    throw await storeError(error, file)
  }
}

function lockOf(file: string): string {
  return `${file}-lock`
}

async function sizeOf(file: string): Promise<number | undefined> {
  const stats = await stat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  return stats?.size
}

async function readAll(file: string, onProgress: OnProgress): Promise<Verification | undefined> {
  const { open } = await import('lmdb')
  const maxDbs = TABLE_NAMES.length + 1
  const root = open<string>({
    path: file,
    noSubdir: true,
    encoding: 'string',
    readOnly: true,
    maxDbs,
  })
  try {
    const stored = root.openDB<string>({ name: 'store', encoding: 'string' }).get('format')
    if (stored === String(FORMAT_VERSION)) {
      const existing = new Set([...root.getKeys({})].map(String))
      const tables = openTables(root)
      checkTables(file, tables, existing)
      return await verify(tables, onProgress)
    }
    // An older format is rewritten when the store is next opened.
    if (stored === undefined || Number(stored) < FORMAT_VERSION) return undefined
    const detail = `${file} has format ${stored}, and this version reads format ${FORMAT_VERSION}`
    throw new TurnstreamError('STORE_VERSION', detail)
  } finally {
    await root.close()
  }
}

export interface Verification {
  readonly records: number
  readonly turns: number
  readonly damagedRecords: number
  readonly damagedTurns: number
  /** The first few damages, in words. */
  readonly findings: readonly string[]
}

/** Called now and then with the number of records that were read, of so many. */
export type OnProgress = (done: number, total: number) => void

const MAX_FINDINGS = 5
/** So many records are read before the process can do anything else. */
const STEP_RECORDS = 500

/** Reads each turn with its logs, then every record. Damage is counted, and reading goes on. */
export async function verify(tables: Tables, onProgress: OnProgress): Promise<Verification> {
  const all = Object.values(tables)
  const turns = tables.turns.entryCount
  const records = all.reduce((sum, { entryCount }) => sum + entryCount, 0)
  const findings: string[] = []
  let done = 0

  async function countDamaged(table: Table | ByteTable, read: (key: Key) => void) {
    let damaged = 0
    for (const failure of failures(table, read)) {
      done += 1
      if (failure !== undefined) {
        damaged += 1
        if (findings.length < MAX_FINDINGS) findings.push(failure)
      }
      if (done % STEP_RECORDS !== 0) continue
      onProgress(Math.min(done, records + turns), records + turns)
      await setImmediate()
    }
    return damaged
  }

  const damagedTurns = await countDamaged(tables.turns, (key) => readTurn(tables, key))
  let damagedRecords = 0
  for (const table of all) {
    damagedRecords += await countDamaged(table, (key) => readRecord(table, key))
  }
  return { records, turns, damagedRecords, damagedTurns, findings }
}

/** For each record of a table why it cannot be read, or undefined. */
function* failures(table: Table | ByteTable, read: (key: Key) => void) {
  let found = 0
  try {
    for (const key of table.getKeys({})) {
      found += 1
      yield failureOf(() => read(key))
    }
  } catch (error) {
    yield failureOf(() => {
      throw error
    })
    return
  }
  const missing = table.entryCount - found
  if (missing !== 0) yield `${missing} records of table ${table.name} cannot be found`
}

function failureOf(read: () => void): string | undefined {
  try {
    read()
    return undefined
  } catch (error) {
    const { message } = error as Error
    // Without the summary of the code.
    return error instanceof TurnstreamError ? message.slice(message.indexOf(': ') + 2) : message
  }
}

function readRecord(table: Table | ByteTable, key: Key): void {
  // Without a checksum, since every version must be able to read it.
  if (table.name === 'store' && key === 'format') return
  table.get(key)
}

function readTurn(tables: Tables, key: Key): void {
  const failure = failureOf(() => {
    const turn = parseTurn(tables.turns.get(key) ?? '')
    if (tables.store.get([DAMAGED, String(key)]) !== undefined) throw corrupt('a part is lost')
    if (turn.expired) return
    checkEvents(tables, turn)
    new TurnProcessed(turn.number).restore(tables, turn.state.logs.processed)
    tables.responses.get(turn.number)
  })
  if (failure !== undefined) throw corrupt(`turn ${JSON.stringify(key)}: ${failure}`)
}

/** Every event is in a chunk; of an open turn the last ones may be in the journal. */
function checkEvents({ chunks }: Tables, { number, state }: StoredTurn): void {
  const { head, sealed, epochs } = state.logs.events
  let next = 1
  for (const { key, value } of chunks.getRange({ start: [number], end: [number + 1] })) {
    if (!Array.isArray(key) || key[1] !== next) throw corrupt(`event ${next} is missing`)
    next += decodeRecords(unpackLines(value), next, epochs).length
  }
  if (sealed && next !== head + 1) throw corrupt(`event ${next} is missing`)
}

function corrupt(detail: string): TurnstreamError {
  return new TurnstreamError('STORE_CORRUPT', detail)
}
