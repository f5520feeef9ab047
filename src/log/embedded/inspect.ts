import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { TurnstreamError } from '../../protocol/errors.ts'
import { checkDataFile } from './data-file.ts'
import { DirectoryGuard, OWNER_FILE } from './directory-guard.ts'
import { checkTables, DATA_FILE, FORMAT_VERSION, openTables, TABLE_NAMES } from './environment.ts'
import { storeError } from './failures.ts'
import { PathLock } from './path-lock.ts'
import { type OnProgress, type Verification, verify } from './verify.ts'

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
