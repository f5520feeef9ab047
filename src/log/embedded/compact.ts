import { statSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { replaceData } from './data-copy.ts'
import { DirectoryGuard } from './directory-guard.ts'
import { DATA_FILE, Environment } from './environment.ts'
import { storeError } from './failures.ts'
import { migrate } from './migrate.ts'

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
  try {
    await migrate(directory)
    const bytesAfter = await replaceData(directory, (copy) => copyData(file, copy, options))
    return { bytesBefore, bytesAfter }
  } catch (error) {
    throw await storeError(error, file)
  } finally {
    await guard.release()
  }
}

async function copyData(file: string, copy: string, options: CompactOptions): Promise<number> {
  const env = await Environment.open(file, 'commit')
  const stopWatching = watch(copy, options)
  try {
    await env.copyTo(copy)
  } finally {
    stopWatching()
    await env.close()
  }
  return await sizeOf(copy)
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
