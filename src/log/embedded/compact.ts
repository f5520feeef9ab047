import { statSync } from 'node:fs'
import { chmod, mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { DIRECTORY_MODE, FILE_MODE } from './directory.ts'
import { DirectoryGuard } from './directory-guard.ts'
import { DATA_FILE, Environment } from './environment.ts'
import { storeError } from './failures.ts'

/** Holds the copy until it replaces the data. LMDB creates a copy for all to read, so the directory is private. */
const COPY_DIRECTORY = 'turns.mdb.compacting'

export interface Compaction {
  readonly bytesBefore: number
  readonly bytesAfter: number
}

export interface CompactOptions {
  /** Told now and then how many bytes are written. */
  readonly onProgress?: (bytes: number) => void
  readonly clock?: Clock
}

const PROGRESS_MS = 200

/**
 * Writes the store of a directory anew without the room that deleted turns left: the file of an embedded
 * log never shrinks by itself. STORE_LOCKED while a process uses it. The new file takes the place of the
 * old one in one step, when all of it is on the disk; until then the old one is untouched.
 */
export async function compactEmbeddedLog(
  directory: string,
  options: CompactOptions = {},
): Promise<Compaction> {
  const file = join(directory, DATA_FILE)
  const bytesBefore = await sizeOf(file)
  const guard = await DirectoryGuard.take(directory)
  const compacted = join(directory, COPY_DIRECTORY, DATA_FILE)
  try {
    await removeCompacted(directory)
    await mkdir(join(directory, COPY_DIRECTORY), { mode: DIRECTORY_MODE })
    const env = await Environment.open(file, 'commit')
    const stopWatching = watch(compacted, options)
    try {
      await env.copyTo(compacted)
    } finally {
      stopWatching()
      await env.close()
    }
    await chmod(compacted, FILE_MODE)
    await syncFile(compacted)
    const bytesAfter = await sizeOf(compacted)
    await rename(compacted, file)
    await syncFile(directory)
    await removeCompacted(directory)
    return { bytesBefore, bytesAfter }
  } catch (error) {
    await removeCompacted(directory)
    throw await storeError(error, file)
  } finally {
    await guard.release()
  }
}

/** Removes what an interrupted compaction left, and the lock file that LMDB creates beside the copy. */
export async function removeCompacted(directory: string): Promise<void> {
  await rm(join(directory, COPY_DIRECTORY), { recursive: true, force: true })
}

function watch(file: string, { onProgress, clock = systemClock }: CompactOptions): () => void {
  if (onProgress === undefined) return () => {}
  let cancel: () => void
  const look = () => {
    // Missing until the first byte is written, and that is as good an answer as any.
    onProgress(statSync(file, { throwIfNoEntry: false })?.size ?? 0)
    cancel = clock.after(PROGRESS_MS, look)
  }
  look()
  return () => cancel()
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size
  } catch (error) {
    throw new TurnstreamError('STORE_FAILED', `there is no store at ${file}`, { cause: error })
  }
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
