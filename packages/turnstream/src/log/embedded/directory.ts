import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { mkdir, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import {
  checkDataFile,
  DATA_FILE,
  DIRECTORY_MODE,
  FILE_MODE,
  PRIVATE,
  storeError,
} from './data-file.ts'

/**
 * Creates the directory and its parents, private to the owner; false if it exists. Does not use recursive `mkdir`: in
 * Node 20 that hangs if the system refuses with ENOENT, as in `/proc`.
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
    throw await unwritable(`cannot create ${directory}`, error)
  }
}

/** Rejects with STORE_READ_ONLY or STORE_FULL if the directory is not writable. */
export async function checkWritable(directory: string): Promise<void> {
  const probe = join(directory, `.probe-${randomUUID()}`)
  try {
    await writeFile(probe, '', { flag: 'wx', mode: FILE_MODE })
  } catch (error) {
    throw await unwritable(`cannot create a file in ${directory}`, error)
  } finally {
    await rm(probe, { force: true }).catch(() => {}) // a leftover empty file is harmless
  }
}

async function isDirectory(path: string): Promise<boolean> {
  const found = await stat(path).catch(async (error: NodeJS.ErrnoException) => {
    // ENOTDIR: the recursion finds the file in the way.
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
    throw await unwritable(`cannot read ${path}`, error)
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

/** Never written to: its readers are the owners of the directory. */
const OWNER_FILE = 'owner.mdb'

/** How long to wait for the owner of a path to identify itself. Immediate, unless it is stopped. */
const REPLY_MS = 500

/**
 * Locks a directory until the returned function is called. STORE_LOCKED if it has another owner. Each owner becomes a
 * reader of a small LMDB file, then checks for others: of two concurrent ones both may be refused, but never both
 * admitted. The kernel releases LMDB's reader locks when a process dies, so `kill -9` needs no cleanup.
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
      const owner = other === process.pid ? 'this process' : `process ${other}`
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

/** LMDB's reader table has a header and a row `<pid> <thread> <transaction>` per reader, including this one. */
function otherPids(table: string): number[] {
  const pids = [...table.matchAll(/^\s*(\d+) /gm)].map(([, pid]) => Number(pid))
  const own = pids.indexOf(process.pid)
  return pids.filter((_pid, index) => index !== own)
}

/**
 * Locks the path of a store, which must exist. The locks inside the directory vanish with it; this one stays, so no
 * second process can start in a recreated directory. It is a socket in Linux's abstract namespace, which the kernel
 * frees when the process ends. Other systems have no such lock.
 */
export async function lockPath(directory: string): Promise<() => Promise<void>> {
  if (process.platform !== 'linux') return async () => {}
  const hash = createHash('sha256')
    .update(await realpath(directory))
    .digest('hex')
  const name = `\0turnstream-store-${process.getuid?.() ?? 0}-${hash}`
  // Sends the owner's process id; reads nothing.
  const server = createServer((socket) => {
    socket.on('error', () => {}).end(String(process.pid))
  })
  // Otherwise shared by the workers of a cluster.
  server.listen({ path: name, exclusive: true }).unref()
  try {
    await once(server, 'listening')
  } catch (error) {
    // A sandbox may forbid such sockets; the directory locks remain.
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
    if (pid === String(process.pid)) return 'this process'
    return pid === undefined ? 'another process' : `process ${pid}`
  } catch {
    return 'another process'
  }
}

/** With another lock file, another process could write to the same data. */
export const STORE_FILES = [DATA_FILE, `${DATA_FILE}-lock`, OWNER_FILE, `${OWNER_FILE}-lock`]

/** The files of a store. LMDB continues to write to a removed file, and loses it with the process. */
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

  /** Throws STORE_LOST once one of the files is no longer at its path. */
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

function identify(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false })
  return found && `${found.dev}:${found.ino}`
}

function isAt(path: string, identity: string | undefined): boolean {
  try {
    return identify(path) === identity
  } catch (error) {
    // A parent became a file. Other errors, such as EACCES, do not mean that the file is gone.
    return (error as NodeJS.ErrnoException).code !== 'ENOTDIR'
  }
}
