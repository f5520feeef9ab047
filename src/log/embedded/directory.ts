import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { mkdir, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
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
const OWNER_FILE = 'owner.mdb'

/** How long to wait for the process that has a path to say who it is: at once, unless it is stopped. */
const REPLY_MS = 500

/**
 * Keeps other processes out of a directory until the returned function is called. STORE_LOCKED when there is another
 * owner, in this process or in another. Whoever opens the directory becomes a reader of a small LMDB file in it and
 * then checks who else is one. LMDB notes its readers beside the file, under locks that the kernel releases when a
 * process dies in any way, so that nothing has to be cleared up after `kill -9`. Each checks only after it can be
 * seen itself: of two that come at once both may be refused, and never both let in. `lockPath` covers a directory
 * that was removed or replaced since.
 */
export async function lockDirectory(directory: string): Promise<() => Promise<void>> {
  const file = join(directory, OWNER_FILE)
  const unlockPath = await lockPath(directory).catch(async (error: unknown) => {
    throw await storeError(error, directory)
  })
  try {
    const { open } = await import('lmdb')
    await checkDataFile(file)
    const env = open({ path: file, noSubdir: true, overlappingSync: false, ...PRIVATE })
    const reading = env.useReadTransaction()
    const release = async () => {
      reading.done()
      await env.close()
    }
    env.readerCheck()
    const [other] = otherPids(env.readerList())
    if (other !== undefined) {
      await release()
      const owner = other === process.pid ? 'this process already' : `process ${other}`
      throw new TurnstreamError('STORE_LOCKED', `${directory} is used by ${owner}`)
    }
    return async () => {
      await release()
      await unlockPath()
    }
  } catch (error) {
    await unlockPath()
    throw await storeError(error, file)
  }
}

/** The table of LMDB has a heading and a row `<pid> <thread> <transaction>` for each reader, us included. */
function otherPids(table: string): number[] {
  const pids = [...table.matchAll(/^\s*(\d+) /gm)].map(([, pid]) => Number(pid))
  const own = pids.indexOf(process.pid)
  return pids.filter((_pid, index) => index !== own)
}

/**
 * Holds the path of a store for this process until the returned function is called. STORE_LOCKED when a process of
 * this user has it; `directory` must exist. The locks inside the directory are gone with it; this one stays when the
 * directory is removed and recreated, so that no second process starts where the first believes to be. It is a
 * socket in Linux's abstract namespace: the kernel frees the name when the process ends in any way, nothing is left
 * on disk, and no process id is compared. On other systems there is no such lock.
 */
export async function lockPath(directory: string): Promise<() => Promise<void>> {
  if (process.platform !== 'linux') return async () => {}
  const hash = createHash('sha256')
    .update(await realpath(directory))
    .digest('hex')
  const name = `\0turnstream-store-${process.getuid?.() ?? 0}-${hash}`
  // Says who has it. Nothing is read.
  const server = createServer((socket) => {
    socket.on('error', () => {}).end(String(process.pid))
  })
  // Shared by the workers of a cluster otherwise.
  server.listen({ path: name, exclusive: true }).unref()
  try {
    await once(server, 'listening')
  } catch (error) {
    // A sandbox may forbid such sockets; the locks in the directory remain.
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') return async () => {}
    throw new TurnstreamError('STORE_LOCKED', `${directory} is used by ${await findOwner(name)}`)
  }
  return async () => {
    if (!server.listening) return
    server.close()
    await once(server, 'close')
  }
}

async function findOwner(name: string): Promise<string> {
  const socket = connect({ path: name })
  socket.setTimeout(REPLY_MS, () => socket.destroy(new Error('no reply')))
  try {
    const pid = /^\d+$/.exec(await text(socket))?.[0]
    if (pid === String(process.pid)) return 'this process already'
    return pid === undefined ? 'another process' : `process ${pid}`
  } catch {
    return 'another process'
  }
}

/** With another lock file, another process could write to the same data. */
export const STORE_FILES = [DATA_FILE, `${DATA_FILE}-lock`, OWNER_FILE, `${OWNER_FILE}-lock`]

/**
 * The files that a store was opened with. LMDB goes on writing to a file that was removed or whose directory was
 * replaced, and everything that it then acknowledges is lost with the process.
 */
export class StoreFiles {
  readonly #directory: string
  readonly #files: readonly { readonly path: string; readonly identity: string | undefined }[]
  readonly #onLost: (reason: TurnstreamError) => void
  isLost = false

  /** `onLost` is called once. */
  constructor(directory: string, onLost: (reason: TurnstreamError) => void) {
    this.#directory = directory
    this.#onLost = onLost
    this.#files = STORE_FILES.map((name) => {
      const path = join(directory, name)
      return { path, identity: identify(path) }
    })
  }

  /** Throws STORE_LOST from the moment on at which one of the files is not at its path. */
  check(): void {
    if (!this.isLost && this.#files.every(({ path, identity }) => isAt(path, identity))) return
    const reason = new TurnstreamError('STORE_LOST', `${this.#directory}; restart the server`)
    if (!this.isLost) {
      this.isLost = true
      this.#onLost(reason)
    }
    throw reason
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
