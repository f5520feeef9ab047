import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { TurnstreamError } from '../../protocol/errors.ts'
import { checkDataFile } from './data-file.ts'
import { DirectoryGuard, OWNER_FILE } from './directory-guard.ts'
import { DATA_FILE, FORMAT_VERSION } from './environment.ts'
import { storeError } from './failures.ts'
import { PathLock } from './path-lock.ts'

/** What is in a directory that may have a store. */
export interface EmbeddedFacts {
  /** The size of the store; undefined when there is none yet. */
  readonly bytes: number | undefined
}

/**
 * Looks at the store in a directory as it is. Makes nothing and changes no record. Rejects as `openEmbeddedLog`
 * would: STORE_LOCKED when a process has it, STORE_READ_ONLY, STORE_VERSION, STORE_CORRUPT. For as long as it
 * looks it has the directory to itself.
 */
export async function inspectEmbeddedLog(directory: string): Promise<EmbeddedFacts> {
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
      await checkFormat(file)
    } finally {
      await guard.release()
    }
    return { bytes }
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

async function checkFormat(file: string): Promise<void> {
  const { open } = await import('lmdb')
  const root = open<string>({ path: file, noSubdir: true, encoding: 'string', readOnly: true })
  try {
    const stored = root.openDB<string>({ name: 'store', encoding: 'string' }).get('format')
    // An older format is rewritten when the store is next opened.
    if (stored === undefined || Number(stored) <= FORMAT_VERSION) return
    const detail = `${file} has format ${stored}, and this version reads format ${FORMAT_VERSION}`
    throw new TurnstreamError('STORE_VERSION', detail)
  } finally {
    await root.close()
  }
}
