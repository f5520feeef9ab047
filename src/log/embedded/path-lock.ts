import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { realpath } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { text } from 'node:stream/consumers'
import { TurnstreamError } from '../../protocol/errors.ts'

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
