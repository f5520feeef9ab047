import { statSync } from 'node:fs'
import { join } from 'node:path'
import { TurnstreamError } from '../../protocol/errors.ts'
import { OWNER_FILE } from './directory-guard.ts'
import { DATA_FILE } from './environment.ts'

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
