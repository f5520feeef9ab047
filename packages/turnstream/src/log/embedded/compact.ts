import { statSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, systemClock } from '@turnstream/core/internal/async/clock'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { RootDatabase } from 'lmdb'
import { checkDataFile, checkTablePages, DATA_FILE, replaceData, storeError } from './data-file.ts'
import { lockDirectory } from './directory.ts'
import { Environment, openRoot, readFormat, TABLE_NAMES, type Write } from './environment.ts'

export interface CompactOptions {
  readonly onProgress?: (bytes: number) => void
  readonly clock?: Clock
}

const PROGRESS_MS = 200

/** Rewrites the store without free pages: the file never shrinks by itself. STORE_LOCKED while it is in use. */
export async function compactEmbeddedLog(directory: string, options: CompactOptions = {}) {
  const file = join(directory, DATA_FILE)
  const bytesBefore = await sizeOf(file)
  const unlock = await lockDirectory(directory)
  try {
    // The copy would no longer show that records are missing.
    await checkTablePages(file)
    await migrate(directory)
    const bytesAfter = await replaceData(directory, (copy) => copyData(file, copy, options))
    return { bytesBefore, bytesAfter }
  } catch (error) {
    throw await storeError(error, file)
  } finally {
    await unlock()
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
    // The file does not exist until the first byte is written.
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
    throw new TurnstreamError('STORE_FAILED', `no store found at ${file}`, { cause: error })
  }
}

/** The format without checksums. */
const OLD_FORMAT = '1'

const BATCH_RECORDS = 1000
const BATCH_CHARS = 4 * 1024 * 1024

/** Rewrites a format 1 store. Requires the directory lock. A killed process leaves the store unchanged. */
export async function migrate(directory: string): Promise<void> {
  const file = join(directory, DATA_FILE)
  try {
    // Nothing was ever written to it.
    if ((await checkDataFile(file)) === 0) return
    const root = await openRoot(file)
    try {
      if (readFormat(root) === OLD_FORMAT)
        await replaceData(directory, (copy) => rewrite(root, copy))
    } finally {
      await root.close()
    }
  } catch (error) {
    throw await storeError(error, file)
  }
}

async function rewrite(root: RootDatabase<string>, file: string): Promise<void> {
  const env = await Environment.open(file, 'system')
  try {
    let writes: Write[] = []
    let chars = 0
    for (const write of oldRecords(root, env)) {
      writes.push(write)
      chars += write.value?.length ?? 0
      if (writes.length < BATCH_RECORDS && chars < BATCH_CHARS) continue
      await env.commit(writes)
      writes = []
      chars = 0
    }
    if (writes.length > 0) await env.commit(writes)
  } finally {
    await env.close()
  }
}

function* oldRecords(root: RootDatabase<string>, env: Environment): Generator<Write> {
  for (const name of TABLE_NAMES) {
    const old = root.openDB<string>({ name, encoding: 'string' })
    for (const { key, value } of old.getRange({})) {
      // The new file has its own.
      if (name === 'store' && key === 'format') continue
      yield { table: env.tables[name], key, value }
    }
  }
  const chunks = root.openDB<Uint8Array>({ name: 'chunks', encoding: 'binary' })
  for (const { key, value } of chunks.getRange({})) yield { table: env.tables.chunks, key, value }
}
