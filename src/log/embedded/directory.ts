import { randomUUID } from 'node:crypto'
import { mkdir, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { TurnstreamError } from '../../protocol/errors.ts'
import { storeError } from './failures.ts'

/** Turns hold prompts and answers: nobody but their owner may read them. */
export const DIRECTORY_MODE = 0o700
export const FILE_MODE = 0o600

/**
 * Creates the directory of a store, and the missing ones above it, for their owner alone. False when it
 * exists. Without `recursive` of `mkdir`: Node 20 then never returns where the system refuses with ENOENT, as in
 * `/proc`.
 */
export async function makeDirectory(directory: string): Promise<boolean> {
  if (await isDirectory(directory)) return false
  const parent = dirname(directory)
  if (parent !== directory) await makeDirectory(parent)
  try {
    await mkdir(directory, { mode: DIRECTORY_MODE })
    return true
  } catch (error) {
    // Another process may have been faster.
    if (await isDirectory(directory)) return false
    throw await unwritable(`${directory} cannot be created`, error)
  }
}

/** Rejects with STORE_READ_ONLY, or STORE_FULL, if no file can be created in a directory. */
export async function checkWritable(directory: string): Promise<void> {
  const probe = join(directory, `.probe-${randomUUID()}`)
  try {
    await writeFile(probe, '', { flag: 'wx', mode: FILE_MODE })
  } catch (error) {
    throw await unwritable(`no file can be created in ${directory}`, error)
  } finally {
    await rm(probe, { force: true }).catch(() => {}) // an empty file left behind harms nobody
  }
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await stat(path).catch(async (error: NodeJS.ErrnoException) => {
    // ENOTDIR: the recursion finds the file that is in the way.
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
    throw await unwritable(`${path} cannot be read`, error)
  })
  if (found === undefined) return false
  if (found.isDirectory()) return true
  throw new TurnstreamError('STORE_READ_ONLY', `${path} is not a directory`)
}

async function unwritable(detail: string, error: unknown): Promise<TurnstreamError> {
  const known = await storeError(error, detail)
  if (known.code !== 'STORE_FAILED') return known
  return new TurnstreamError('STORE_READ_ONLY', detail, { cause: error })
}
