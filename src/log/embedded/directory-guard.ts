import { join } from 'node:path'
import { TurnstreamError } from '../../protocol/errors.ts'
import { checkDataFile, PRIVATE } from './data-file.ts'
import { storeError } from './failures.ts'
import { PathLock } from './path-lock.ts'

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
