import {
  closeSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { TurnstreamError } from '../../protocol/errors.ts'
import { type KeyEntry, MAX_KEYS_FILE_CHARS, parseKeysFile } from '../../server/auth/key-ring.ts'

/** The keys of a file. KEYS_FILE_INVALID names the file, and the line at fault. */
export function readKeysFile(path: string): KeyEntry[] {
  return naming(path, () => parseKeysFile(textOf(path)))
}

/**
 * Puts a changed text in the place of the file, all at once, or makes the file, for its owner alone. Mode and
 * owner stay as they are: the server that reads it may run as another user. KEYS_FILE_INVALID, also when what
 * is there, or would be, is not a file of keys.
 */
export function changeKeysFile(path: string, change: (text: string) => string): void {
  naming(path, () => {
    const target = statSync(path, { throwIfNoEntry: false }) ? realpathSync(path) : path
    // A name that is always the same keeps two from changing the file at the same time.
    const next = `${target}.new`
    const file = openNew(next)
    try {
      const stats = statSync(target, { throwIfNoEntry: false })
      const text = change(stats === undefined ? '' : textOf(target))
      parseKeysFile(text)
      writeFileSync(file, text)
      if (stats !== undefined) {
        fchownSync(file, stats.uid, stats.gid)
        fchmodSync(file, stats.mode & 0o7777)
      }
      fsyncSync(file)
      renameSync(next, target)
    } catch (error) {
      rmSync(next, { force: true })
      throw error
    } finally {
      closeSync(file)
    }
    syncDirectory(dirname(target))
  })
}

function textOf(path: string): string {
  const stats = statSync(path)
  if (!stats.isFile()) throw invalid('it is no file')
  if (stats.size > MAX_KEYS_FILE_CHARS)
    throw invalid(`it is longer than ${MAX_KEYS_FILE_CHARS} bytes`)
  return readFileSync(path, 'utf8')
}

const OWNER_ONLY = 0o600

function openNew(path: string): number {
  try {
    return openSync(path, 'wx', OWNER_ONLY)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
    throw invalid(`another command is changing it; if there is none, remove ${path}`)
  }
}

/** Only then is the new name sure to outlive a crash of the machine. Not every system can do it. */
function syncDirectory(path: string): void {
  try {
    const directory = openSync(path, 'r')
    fsyncSync(directory)
    closeSync(directory)
  } catch {
    // The file is in its place all the same.
  }
}

const REASONS: Record<string, string> = {
  ENOENT: 'there is no such file',
  EACCES: 'this user may not use it',
  EPERM: 'only its owner may change it',
  EROFS: 'it is on a disk that cannot be written',
}

/** Adds the path to errors. The system's own message would name other files as well. */
function naming<T>(path: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (error instanceof TurnstreamError) {
      // The message begins with that of its code, and so will the new one.
      const { message } = error
      throw invalid(`${message.slice(message.indexOf(': ') + 2)} (${path})`)
    }
    const code = codeOf(error)
    if (code === undefined) throw error
    throw invalid(`${REASONS[code] ?? code} (${path})`)
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('KEYS_FILE_INVALID', detail)
}
