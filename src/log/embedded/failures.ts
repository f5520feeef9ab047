import { open, rm, stat } from 'node:fs/promises'
import { constants } from 'node:os'
import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'

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
