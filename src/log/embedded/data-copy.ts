import { chmod, mkdir, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DIRECTORY_MODE, FILE_MODE } from './directory.ts'
import { DATA_FILE } from './environment.ts'

/** Holds the copy until it replaces the data. LMDB creates a copy for all to read, so the directory is private. */
const COPY_DIRECTORY = 'turns.mdb.compacting'

/**
 * Replaces the data file by what `write` puts into a new one, in one step and when all of it is on the disk. Until
 * then the old one is untouched. Answers with what `write` does.
 */
export async function replaceData<T>(
  directory: string,
  write: (file: string) => Promise<T>,
): Promise<T> {
  await removeCopy(directory)
  await mkdir(join(directory, COPY_DIRECTORY), { mode: DIRECTORY_MODE })
  try {
    const file = join(directory, COPY_DIRECTORY, DATA_FILE)
    const result = await write(file)
    await chmod(file, FILE_MODE)
    await syncFile(file)
    await rename(file, join(directory, DATA_FILE))
    await syncFile(directory)
    return result
  } finally {
    await removeCopy(directory)
  }
}

/** Removes what an interrupted replacement left, and the lock file that LMDB creates beside the copy. */
export async function removeCopy(directory: string): Promise<void> {
  await rm(join(directory, COPY_DIRECTORY), { recursive: true, force: true })
}

/** So that a power cut cannot undo what is done next. */
async function syncFile(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
