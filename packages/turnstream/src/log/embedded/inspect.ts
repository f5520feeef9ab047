import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { TurnstreamError, withoutSummary } from '@turnstream/core/internal/protocol/errors'
import { decodeChunk } from '@turnstream/core/internal/protocol/event-codec'
import type { Key } from 'lmdb'
import { corrupt } from '../rules.ts'
import { checkDataFile, checkTablePages, DATA_FILE, statFile, storeError } from './data-file.ts'
import { lockDirectory, lockPath, STORE_FILES } from './directory.ts'
import {
  type ByteTable,
  checkTables,
  FORMAT_VERSION,
  openRoot,
  openTables,
  readFormat,
  type Table,
  type Tables,
  versionError,
} from './environment.ts'
import { DAMAGED, parseTurn, type StoredTurn } from './stored-turn.ts'
import { unpackLines } from './turn-events.ts'
import { TurnProcessed } from './turn-processed.ts'

export interface EmbeddedFacts {
  /** Size of the store; undefined if there is none yet. */
  readonly bytes: number | undefined
  /** Undefined if nothing was verified: format 1 has no checksums, and a store without lock files is not opened. */
  readonly verification?: Verification
}

/**
 * Verifies the store in a directory, locked but unchanged. Rejects like `openEmbeddedLog`. LMDB can crash on damaged
 * pages: run this in a separate process.
 */
export async function inspectEmbeddedLog(
  directory: string,
  onProgress: OnProgress = () => {},
): Promise<EmbeddedFacts> {
  const file = join(directory, DATA_FILE)
  try {
    await checkDataFile(file)
    const found = await Promise.all(STORE_FILES.map((name) => statFile(join(directory, name))))
    const bytes = found[0]?.size
    // Opening would create missing files. Only a process that lost its files can still hold the path.
    if (found.includes(undefined)) {
      const unlockPath = await lockPath(directory)
      await unlockPath()
      return { bytes }
    }
    const unlock = await lockDirectory(directory)
    try {
      await checkTablePages(file)
      const verification = await readAll(file, onProgress)
      return { bytes, ...(verification && { verification }) }
    } finally {
      await unlock()
    }
  } catch (error) {
    throw await storeError(error, file)
  }
}

async function readAll(file: string, onProgress: OnProgress): Promise<Verification | undefined> {
  const root = await openRoot(file, { readOnly: true })
  try {
    const stored = readFormat(root)
    // An older format is rewritten when the store is next opened.
    if (stored === undefined || Number(stored) < FORMAT_VERSION) return undefined
    if (stored !== String(FORMAT_VERSION)) throw versionError(file, stored)
    const existing = new Set([...root.getKeys({})].map(String))
    const tables = openTables(root)
    checkTables(file, tables, existing)
    return await verify(tables, onProgress)
  } finally {
    await root.close()
  }
}

type Verification = Awaited<ReturnType<typeof verify>>

/** Called periodically with the number of records read and the total. */
export type OnProgress = (done: number, total: number) => void

const MAX_FINDINGS = 5
const STEP_RECORDS = 500

/** Reads each turn with its logs, then every record. Counts damage and continues. */
async function verify(tables: Tables, onProgress: OnProgress) {
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

/** Yields for each record why it is unreadable, or undefined. */
function* failures(table: Table | ByteTable, read: (key: Key) => void) {
  let found = 0
  try {
    for (const key of table.getKeys({})) {
      found += 1
      yield failureOf(() => read(key))
    }
  } catch (error) {
    yield messageOf(error)
    return
  }
  const missing = table.entryCount - found
  if (missing !== 0) yield `${missing} records of table ${table.name} are unreachable`
}

function failureOf(read: () => void): string | undefined {
  try {
    read()
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

function messageOf(error: unknown): string {
  return error instanceof TurnstreamError ? withoutSummary(error) : (error as Error).message
}

function readRecord(table: Table | ByteTable, key: Key): void {
  // No checksum: every version must be able to read it.
  if (table.name === 'store' && key === 'format') return
  table.getListed(key)
}

function readTurn(tables: Tables, key: Key): void {
  const failure = failureOf(() => {
    const turn = parseTurn(tables.turns.get(key) ?? '')
    if (tables.store.get([DAMAGED, String(key)]) !== undefined) throw corrupt('a part was lost')
    if (turn.expired) return
    checkEvents(tables, turn)
    new TurnProcessed(turn.number, tables.processed).restore(turn.state.logs.processed)
    tables.responses.get(turn.number)
  })
  if (failure !== undefined) throw corrupt(`turn ${JSON.stringify(key)}: ${failure}`)
}

/** Every event is in a chunk; the last ones of an open turn may be in the journal. */
function checkEvents({ chunks }: Tables, { number, state }: StoredTurn): void {
  const { head, sealed } = state.logs.events
  let next = 1
  for (const { key, value } of chunks.getRange({ start: [number], end: [number + 1] })) {
    if (!Array.isArray(key) || key[1] !== next) throw corrupt(`event ${next} is missing`)
    next += decodeChunk(unpackLines(value).join('\n')).length
  }
  if (sealed && next !== head + 1) throw corrupt(`event ${next} is missing`)
}
