import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { mkdir, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { TurnstreamError } from '../../protocol/errors.ts'
import {
  checkDataFile,
  DATA_FILE,
  DIRECTORY_MODE,
  FILE_MODE,
  PRIVATE,
  storeError,
} from './data-file.ts'

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

/** Nothing is ever written to it: its readers are those who own the directory. */
export const OWNER_FILE = 'owner.mdb'

/**
 * Keeps other processes out of a directory. Whoever opens it becomes a reader of a small LMDB file in it
 * and then looks who else is one. LMDB notes its readers beside the file, under locks that the kernel lets
 * go when a process dies in whatever way, so that nobody has to clear up after `kill -9`. Each looks only
 * after it can be seen itself: of two that come at once both may be refused, and never both let in. A
 * `PathLock` covers a directory that was removed or replaced since.
 */
export class DirectoryGuard {
  readonly #release: () => Promise<void>

  private constructor(release: () => Promise<void>) {
    this.#release = release
  }

  /** STORE_LOCKED when there is another owner, in this process or in another. */
  static async take(directory: string): Promise<DirectoryGuard> {
    const file = join(directory, OWNER_FILE)
    const lock = await PathLock.take(directory).catch(async (error: unknown) => {
      throw await storeError(error, directory)
    })
    try {
      return await DirectoryGuard.#enter(directory, file, lock)
    } catch (error) {
      await lock.release()
      throw await storeError(error, file)
    }
  }

  static async #enter(directory: string, file: string, lock: PathLock): Promise<DirectoryGuard> {
    const { open } = await import('lmdb')
    await checkDataFile(file)
    const env = open({ path: file, noSubdir: true, overlappingSync: false, ...PRIVATE })
    const reading = env.useReadTransaction()
    const guard = new DirectoryGuard(async () => {
      reading.done()
      await env.close()
      await lock.release()
    })
    env.readerCheck()
    const [other] = otherPids(env.readerList())
    if (other === undefined) return guard
    await guard.release()
    const owner = other === process.pid ? 'this process already' : `process ${other}`
    throw new TurnstreamError('STORE_LOCKED', `${directory} is used by ${owner}`)
  }

  async release(): Promise<void> {
    await this.#release()
  }
}

/** The table of LMDB has a heading and a row `<pid> <thread> <transaction>` for each reader, us included. */
function otherPids(table: string): number[] {
  const pids = [...table.matchAll(/^\s*(\d+) /gm)].map(([, pid]) => Number(pid))
  const own = pids.indexOf(process.pid)
  return pids.filter((_pid, index) => index !== own)
}

/** The owner answers at once, unless it is stopped. */
const ANSWER_MS = 500

/**
 * Holds the path of a store for this process. The locks inside the directory are gone with it; this one stays when
 * the directory is removed and recreated, so that no second process starts where the first believes to be.
 * It is a socket in Linux's abstract namespace: the kernel frees the name when the process ends in any way,
 * nothing is left on disk, and no process id is compared. Elsewhere there is no such lock.
 */
export class PathLock {
  readonly #server: Server | undefined

  private constructor(server?: Server) {
    this.#server = server
  }

  /** STORE_LOCKED when a process of this user has the path; `directory` must exist. */
  static async take(directory: string): Promise<PathLock> {
    if (process.platform !== 'linux') return new PathLock()
    const name = lockName(await realpath(directory))
    // Says who has it. Nothing is read.
    const server = createServer((socket) => {
      socket.on('error', () => {}).end(String(process.pid))
    })
    // Shared by the workers of a cluster otherwise.
    server.listen({ path: name, exclusive: true }).unref()
    try {
      await once(server, 'listening')
      return new PathLock(server)
    } catch (error) {
      // A sandbox may forbid such sockets; the locks in the directory remain.
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') return new PathLock()
      throw new TurnstreamError('STORE_LOCKED', `${directory} is used by ${await ownerOf(name)}`)
    }
  }

  async release(): Promise<void> {
    if (this.#server?.listening !== true) return
    this.#server.close()
    await once(this.#server, 'close')
  }
}

function lockName(path: string): string {
  const hash = createHash('sha256').update(path).digest('hex')
  return `\0turnstream-store-${process.getuid?.() ?? 0}-${hash}`
}

async function ownerOf(name: string): Promise<string> {
  const socket = connect({ path: name })
  socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error('no answer')))
  try {
    const pid = /^\d+$/.exec(await text(socket))?.[0]
    if (pid === String(process.pid)) return 'this process already'
    return pid === undefined ? 'another process' : `process ${pid}`
  } catch {
    return 'another process'
  }
}

/** With another lock file, another process could write to the same data. */
const NAMES = [DATA_FILE, `${DATA_FILE}-lock`, OWNER_FILE, `${OWNER_FILE}-lock`]

/**
 * The files that a store was opened with. LMDB goes on writing to a file that was removed or whose directory was
 * replaced, and everything that it then acknowledges is lost with the process.
 */
export class StoreFiles {
  readonly #directory: string
  readonly #files: readonly { readonly path: string; readonly identity: string | undefined }[]
  isLost = false
  /** Called once. */
  onLost: () => void = () => {}

  constructor(directory: string) {
    this.#directory = directory
    this.#files = NAMES.map((name) => {
      const path = join(directory, name)
      return { path, identity: identify(path) }
    })
  }

  /** Throws STORE_LOST from the moment on at which one of the files is not at its path. */
  check(): void {
    if (!this.isLost) {
      if (this.#files.every(({ path, identity }) => isAt(path, identity))) return
      this.isLost = true
      this.onLost()
    }
    throw this.error()
  }

  error(): TurnstreamError {
    return new TurnstreamError('STORE_LOST', `${this.#directory}; restart the server`)
  }
}

/** Undefined if there is no such file. */
function identify(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false })
  return found && `${found.dev}:${found.ino}`
}

function isAt(path: string, identity: string | undefined): boolean {
  try {
    return identify(path) === identity
  } catch (error) {
    // A parent became a file. Anything else, such as EACCES, does not say that the file is gone.
    return (error as NodeJS.ErrnoException).code !== 'ENOTDIR'
  }
}
