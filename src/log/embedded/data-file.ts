import type { Stats } from 'node:fs'
import { chmod, mkdir, open, rename, rm, stat, statfs } from 'node:fs/promises'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'

/** The name of the file that holds everything. */
export const DATA_FILE = 'turns.mdb'

/** Turns hold prompts and answers: nobody but their owner may read them. */
export const DIRECTORY_MODE = 0o700
export const FILE_MODE = 0o600

/*
 * The beginning of an LMDB file (data format 2): two pages which each say where everything is; the one
 * with the higher transaction holds. Numbers are in the order of the machine, which is little-endian on
 * all that lmdb is built for.
 */
const MAGIC_AT = 24
const MAGIC = 0xbeefc0de
const FORMAT_AT = 28
const FORMAT = 2
const PAGE_SIZE_AT = 48
const ROOTS_AT = [88, 136]
const TRANSACTION_AT = 152
const META_BYTES = 160
/** A tree without entries has no root. */
const NO_ROOT = 0xffffffffffffffffn
const PAGE_SIZES = new Set([4096, 8192, 16_384, 32_768, 65_536])

/** An option of `open` of lmdb that its types leave out. */
export const PRIVATE = { permissionsMode: FILE_MODE }

/**
 * Refuses with STORE_CORRUPT what LMDB could not open: lmdb 3.5.6 brings the process down where it should
 * throw. A file that is missing or empty is a new store. Returns the number of its newest transaction.
 */
export async function checkDataFile(file: string): Promise<number> {
  const found = await statFile(file)
  if (found === undefined) return 0
  // To open a named pipe would never return.
  if (!found.isFile()) throw new TurnstreamError('STORE_CORRUPT', `${file} is not a file`)
  const { size } = found
  if (size === 0) return 0
  const handle = await open(file, 'r')
  try {
    const read = async (at: number) => {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(META_BYTES), 0, META_BYTES, at)
      return parseMeta(bytesRead === META_BYTES ? buffer : undefined, file)
    }
    const first = await read(0)
    const second = await read(first.pageSize)
    const newest = second.transaction > first.transaction ? second : first
    for (const root of newest.roots) {
      const isThere = root === NO_ROOT || (root + 1n) * BigInt(first.pageSize) <= BigInt(size)
      if (!isThere) throw new TurnstreamError('STORE_CORRUPT', `${file} is cut off`)
    }
    return Number(newest.transaction)
  } finally {
    await handle.close()
  }
}

/** Undefined if there is no such file. */
export async function statFile(file: string): Promise<Stats | undefined> {
  return await stat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
}

function parseMeta(page: Buffer | undefined, file: string) {
  const isStore = page?.readUInt32LE(MAGIC_AT) === MAGIC && page.readUInt32LE(FORMAT_AT) === FORMAT
  const pageSize = page?.readUInt32LE(PAGE_SIZE_AT) ?? 0
  if (page === undefined || !isStore || !PAGE_SIZES.has(pageSize)) {
    throw new TurnstreamError('STORE_CORRUPT', `${file} is not a turnstream store`)
  }
  const roots = ROOTS_AT.map((at) => page.readBigUInt64LE(at))
  return { pageSize, roots, transaction: page.readBigUInt64LE(TRANSACTION_AT) }
}

/** Holds the copy until it replaces the data. LMDB creates a copy for all to read, so the directory is private. */
const COPY_DIRECTORY = 'turns.mdb.compacting'

/**
 * Replaces the data file by what `write` puts into a new one, in one step and when all of it is on the disk. Until
 * then the old one is untouched. Returns what `write` does.
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

/** LMDB copies the pages that it changes, and text may take three bytes for a character. */
const COPIES = 4

/** What a commit needs besides: the pages on the way to those that it changes, and the list of free ones. */
const COMMIT_BYTES = 256 * 1024

/** Kept free for whatever else writes to the disk at the same moment. */
const RESERVE_BYTES = 1024 * 1024

/** How long a measurement is believed. */
const BELIEVED_MS = 1000

/**
 * Refuses a commit for which the disk may have no room. LMDB could be left to find out: nothing would be
 * lost, but lmdb 3.5.6 damages the memory of the process when a write fails for want of room, which then
 * dies somewhat later.
 */
export class DiskRoom {
  readonly #directory: string
  #left = 0
  #measuredAt = Number.NEGATIVE_INFINITY

  constructor(file: string) {
    this.#directory = dirname(file)
  }

  /** Takes the room for storing so much. STORE_FULL if there is not enough. */
  async take(bytes: number): Promise<void> {
    const needed = bytes * COPIES + COMMIT_BYTES
    const isOld = performance.now() - this.#measuredAt > BELIEVED_MS
    if (isOld || this.#left < needed) await this.#measure()
    if (this.#left < needed) {
      const detail = `${this.#directory}: a commit may need ${needed} bytes more than are free`
      throw new TurnstreamError('STORE_FULL', detail)
    }
    this.#left -= needed
  }

  async #measure(): Promise<void> {
    const { bavail, bsize } = await statfs(this.#directory)
    this.#left = bavail * bsize - RESERVE_BYTES
    this.#measuredAt = performance.now()
  }
}

/*
 * What goes wrong with files reaches us in three forms: errors of Node with a name, errors of LMDB with a
 * number (that of the system, or a negative one of its own), and a failed commit, which keeps the number
 * in a promise.
 */

const { errno } = constants

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

const NAMES = new Map<number, string>([
  [-30_797, 'MDB_PAGE_NOTFOUND'],
  [-30_796, 'MDB_CORRUPTED'],
  [-30_794, 'MDB_VERSION_MISMATCH'],
  [-30_793, 'MDB_INVALID'],
  [-30_792, 'MDB_MAP_FULL'],
  ...Object.entries(errno).map(([name, number]): [number, string] => [number, name]),
])

/** More than one commit needs: a disk that has this much room was not full. */
const PROBE_BYTES = 1024 * 1024

/** The error for whoever called, with a code; `file` is the file that was being used. */
export async function storeError(error: unknown, file: string): Promise<TurnstreamError> {
  const cause = await causeOf(error)
  if (cause instanceof TurnstreamError) return cause
  const name = nameOf(cause)
  // LMDB calls a write that was cut short an input/output error, and a full disk cuts writes short.
  const known = CODES[name] ?? (name === 'EIO' ? await codeOfWriting(file) : undefined)
  const detail = `${file}: ${cause instanceof Error ? cause.message : String(cause)}`
  return new TurnstreamError(known ?? 'STORE_FAILED', detail, { cause })
}

/** The same error once more, with a stack of its own. */
export function sameError(error: unknown): TurnstreamError {
  if (!(error instanceof TurnstreamError)) {
    return new TurnstreamError('STORE_FAILED', String(error), { cause: error })
  }
  const { summary } = ERROR_CODES[error.code]
  return new TurnstreamError(error.code, error.message.slice(summary.length + 2), { cause: error })
}

/** lmdb rejects with an error that promises the true one. */
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

/** Asks the system what is wrong with a file of the same size beside it. */
async function codeOfWriting(file: string): Promise<ErrorCode | undefined> {
  const probe = `${file}.probe`
  try {
    const { size } = await stat(file)
    const handle = await open(probe, 'w')
    try {
      await writeAll(handle, size)
    } finally {
      await handle.close()
    }
    return undefined
  } catch (error) {
    return CODES[nameOf(error)]
  } finally {
    await rm(probe, { force: true })
  }
}

async function writeAll(handle: Awaited<ReturnType<typeof open>>, at: number): Promise<void> {
  const bytes = new Uint8Array(PROBE_BYTES)
  let written = 0
  // A write that does not fit is cut short first; the next one says why.
  while (written < PROBE_BYTES) {
    const rest = PROBE_BYTES - written
    written += (await handle.write(bytes, written, rest, at + written)).bytesWritten
  }
}
