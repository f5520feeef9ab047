import type { Stats } from 'node:fs'
import { chmod, mkdir, rename, rm, stat, statfs } from 'node:fs/promises'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import {
  ERROR_CODES,
  type ErrorCode,
  TurnstreamError,
} from '@turnstream/core/internal/protocol/errors'
import { corrupt } from '../rules.ts'
import { checkPages, type Newest, NO_ROOT, parseTree, withFile } from './pages.ts'

export const DATA_FILE = 'turns.mdb'

/** Turns hold prompts and answers: only the owner may read them. */
export const DIRECTORY_MODE = 0o700
export const FILE_MODE = 0o600

/* Two meta pages of LMDB (data format 2): the one with the higher transaction is valid. Numbers are little-endian. */
const MAGIC_AT = 24
const MAGIC = 0xbeefc0de
const FORMAT_AT = 28
const FORMAT = 2
const PAGE_SIZE_AT = 48
const FREE_LIST_AT = 48
const TABLES_AT = 96
const TRANSACTION_AT = 152
const META_BYTES = 160
const PAGE_SIZES = new Set([4096, 8192, 16_384, 32_768, 65_536])

/** An option of LMDB's `open` that its types omit. */
export const PRIVATE = { permissionsMode: FILE_MODE }

/** STORE_CORRUPT for a file that would crash lmdb 3.5.6. Returns the newest transaction, 0 for a new store. */
export async function checkDataFile(file: string): Promise<number> {
  const newest = await readNewest(file)
  return Number(newest?.transaction ?? 0)
}

/** See `checkPages`. Call it while LMDB does not have the file open: damaged pages can crash it. */
export async function checkTablePages(
  file: string,
  isSelected: (table: string) => boolean = () => true,
): Promise<void> {
  const newest = await readNewest(file)
  if (newest !== undefined) await checkPages(file, newest, isSelected)
}

/** Undefined for a new store. */
async function readNewest(file: string): Promise<Newest | undefined> {
  const found = await statFile(file)
  if (found === undefined) return undefined
  // Opening a named pipe would block forever.
  if (!found.isFile()) throw corrupt(`${file} is not a file`)
  const { size } = found
  if (size === 0) return undefined
  return await withFile(file, 'r', async (handle) => {
    const read = async (at: number) => {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(META_BYTES), 0, META_BYTES, at)
      return parseMeta(bytesRead === META_BYTES ? buffer : undefined, file)
    }
    const first = await read(0)
    const second = await read(first.pageSize)
    const newest = second.transaction > first.transaction ? second : first
    for (const { root } of [newest.freeList, newest.tables]) {
      const isThere = root === NO_ROOT || (root + 1n) * BigInt(first.pageSize) <= BigInt(size)
      if (!isThere) throw corrupt(`${file} is truncated`)
    }
    return newest
  })
}

export async function statFile(file: string): Promise<Stats | undefined> {
  return await stat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
}

function parseMeta(page: Buffer | undefined, file: string): Newest {
  const isStore = page?.readUInt32LE(MAGIC_AT) === MAGIC && page.readUInt32LE(FORMAT_AT) === FORMAT
  const pageSize = page?.readUInt32LE(PAGE_SIZE_AT) ?? 0
  if (page === undefined || !isStore || !PAGE_SIZES.has(pageSize)) {
    throw corrupt(`${file} is not a turnstream store`)
  }
  return {
    pageSize,
    transaction: page.readBigUInt64LE(TRANSACTION_AT),
    freeList: parseTree(page, FREE_LIST_AT, 'free pages'),
    tables: parseTree(page, TABLES_AT, 'tables'),
  }
}

/** Holds the copy until it replaces the data file. Private, because LMDB creates copies readable by everyone. */
const COPY_DIRECTORY = 'turns.mdb.compacting'

/** Atomically replaces the data file by what `write` puts into a new one, once that is on disk. */
export async function replaceData<T>(directory: string, write: (file: string) => Promise<T>) {
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

/** Removes what an interrupted replacement left, and the lock file that LMDB creates next to the copy. */
export async function removeCopy(directory: string): Promise<void> {
  await rm(join(directory, COPY_DIRECTORY), { recursive: true, force: true })
}

/** Ensures that a power failure cannot undo earlier writes. */
async function syncFile(path: string): Promise<void> {
  await withFile(path, 'r', (handle) => handle.sync())
}

/** LMDB copies the pages it changes, and a character may take three bytes. */
const COPIES = 4

/** Overhead of a commit: inner pages and the free list. */
const COMMIT_BYTES = 256 * 1024

/** Reserved for other writers to the disk. */
const RESERVE_BYTES = 1024 * 1024

const BELIEVED_MS = 1000

/** Reserves room for a commit. STORE_FULL if it may not fit on the disk: lmdb 3.5.6 corrupts the process memory when a write fails. */
export function diskRoom(file: string): (bytes: number) => Promise<void> {
  const directory = dirname(file)
  let left = 0
  let measuredAt = Number.NEGATIVE_INFINITY
  return async (bytes) => {
    const needed = bytes * COPIES + COMMIT_BYTES
    const isOld = performance.now() - measuredAt > BELIEVED_MS
    if (isOld || left < needed) {
      const { bavail, bsize } = await statfs(directory)
      left = bavail * bsize - RESERVE_BYTES
      measuredAt = performance.now()
    }
    if (left < needed) {
      const detail = `${directory}: a commit needs up to ${needed} more bytes than are free`
      throw new TurnstreamError('STORE_FULL', detail)
    }
    left -= needed
  }
}

/* File errors: of Node, with a code; of LMDB, with a number; of commits, which hold the number in a promise. */

const CODES: Readonly<Record<string, ErrorCode>> = {
  EACCES: 'STORE_READ_ONLY',
  EPERM: 'STORE_READ_ONLY',
  EROFS: 'STORE_READ_ONLY',
  ENOSPC: 'STORE_FULL',
  EFBIG: 'STORE_FULL',
  EDQUOT: 'STORE_FULL',
  MDB_MAP_FULL: 'STORE_FULL',
  MDB_INVALID: 'STORE_CORRUPT',
  MDB_VERSION_MISMATCH: 'STORE_CORRUPT',
  MDB_CORRUPTED: 'STORE_CORRUPT',
  MDB_PAGE_NOTFOUND: 'STORE_CORRUPT',
}

const LMDB_ERRORS = {
  MDB_PAGE_NOTFOUND: -30_797,
  MDB_CORRUPTED: -30_796,
  MDB_VERSION_MISMATCH: -30_794,
  MDB_INVALID: -30_793,
  MDB_MAP_FULL: -30_792,
}

const NAMES = new Map(
  Object.entries({ ...LMDB_ERRORS, ...constants.errno }).map(([name, number]) => [number, name]),
)

/** More than one commit needs: a disk with this much free space was not full. */
const PROBE_BYTES = 1024 * 1024

/** Converts an error to one with a code; `file` is the file in use. */
export async function storeError(error: unknown, file: string): Promise<TurnstreamError> {
  const cause = await causeOf(error)
  if (cause instanceof TurnstreamError) return cause
  const name = nameOf(cause)
  // LMDB reports a short write as an I/O error, and a full disk causes short writes.
  const known = CODES[name] ?? (name === 'EIO' ? await codeOfWriting(file) : undefined)
  const detail = `${file}: ${cause instanceof Error ? cause.message : String(cause)}`
  return new TurnstreamError(known ?? 'STORE_FAILED', detail, { cause })
}

/** A copy of the error with its own stack. */
export function sameError(error: unknown): TurnstreamError {
  if (!(error instanceof TurnstreamError)) {
    return new TurnstreamError('STORE_FAILED', String(error), { cause: error })
  }
  const { summary } = ERROR_CODES[error.code]
  return new TurnstreamError(error.code, error.message.slice(summary.length + 2), { cause: error })
}

/** lmdb rejects with an error that holds a promise of the cause. */
async function causeOf(error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || !('commitError' in error)) return error
  try {
    return await error.commitError
  } catch (cause) {
    return cause
  }
}

function nameOf(cause: unknown): string {
  if (!(cause instanceof Error) || !('code' in cause)) return ''
  return typeof cause.code === 'number' ? (NAMES.get(cause.code) ?? '') : String(cause.code)
}

/** Probes the disk with a file of the same size in the same directory. */
async function codeOfWriting(file: string): Promise<ErrorCode | undefined> {
  const probe = `${file}.probe`
  try {
    const { size } = await stat(file)
    // A short write is continued, and then says why.
    await withFile(probe, 'a', async (handle) => {
      await handle.truncate(size)
      await handle.writeFile(new Uint8Array(PROBE_BYTES))
    })
    return undefined
  } catch (error) {
    return CODES[nameOf(error)]
  } finally {
    await rm(probe, { force: true })
  }
}
