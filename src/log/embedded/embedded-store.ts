import { type Clock, steadyTime } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import type { AllTurns } from './all-turns.ts'
import type { Chunks } from './chunks.ts'
import type { Environment } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import type { Journal } from './journal.ts'
import { Removal, Sweeper } from './removal.ts'
import type { StoreFiles } from './store-files.ts'
import { ThreadSweep } from './thread-sweep.ts'

/** What an embedded store is made of. */
export interface EmbeddedParts {
  readonly env: Environment
  readonly files: StoreFiles
  readonly chunks: Chunks
  readonly journal: Journal
  readonly commits: GroupCommit
  readonly turns: AllTurns
  readonly clock: Clock
  readonly retentionMs: number
  readonly sweepMs: number
  /** Callback for what goes wrong beside any call. */
  readonly onError: (error: unknown) => void
  /** Lets go of the directory. */
  readonly release: () => Promise<void>
}

/** How often a store that is only read looks whether its files are there. */
const FILES_CHECK_MS = 1000

/** What the logs of all tenants in a directory have in common. */
export class EmbeddedStore {
  readonly env: Environment
  readonly chunks: Chunks
  readonly commits: GroupCommit
  readonly turns: AllTurns
  readonly clock: Clock
  readonly retentionMs: number
  readonly removal: Removal
  readonly #journal: Journal
  readonly #files: StoreFiles
  #filesCheckedAt: number
  readonly #release: () => Promise<void>
  readonly #sweeper: Sweeper
  #closing: Promise<void> | undefined
  #nextNumber: number

  constructor(parts: EmbeddedParts) {
    const { env, clock, retentionMs } = parts
    this.env = env
    this.chunks = parts.chunks
    this.commits = parts.commits
    this.turns = parts.turns
    this.clock = clock
    this.retentionMs = retentionMs
    this.#journal = parts.journal
    this.#files = parts.files
    this.#files.onLost = () => this.#endAll(this.#files.error())
    this.#filesCheckedAt = clock.now()
    this.#release = parts.release
    this.#nextNumber = Number(env.tables.store.get('nextNumber') ?? 1)
    const { sweepMs: everyMs, onError } = parts
    this.removal = new Removal(parts, onError)
    const threads = new ThreadSweep(parts, onError)
    // A clock that is set forward must not make every turn due at once.
    const steadyNow = steadyTime(clock)
    const step = async () => {
      const hasMoreTurns = await this.removal.sweep(steadyNow(), retentionMs)
      return (await threads.step(steadyNow())) || hasMoreTurns
    }
    this.#sweeper = new Sweeper(step, { clock, everyMs, onError })
  }

  /** The number of a new turn, of whichever tenant. It is stored with the change that is handed in next. */
  takeNumber(): number {
    const number = this.#nextNumber++
    this.commits.stage(this.env.tables.store, 'nextNumber', String(this.#nextNumber))
    return number
  }

  bytesKept(): number {
    return this.env.bytesUsed() + this.#journal.bytesNeeded()
  }

  /** Throws STORE_CLOSED, or STORE_LOST, which a store that commits nothing notices within a second of use. */
  checkOpen(): void {
    if (this.#closing !== undefined) {
      throw new TurnstreamError('STORE_CLOSED', 'the log was closed')
    }
    const now = this.clock.now()
    if (!this.#files.isLost && Math.abs(now - this.#filesCheckedAt) < FILES_CHECK_MS) return
    this.#filesCheckedAt = now
    this.#files.check()
  }

  #endAll(reason: TurnstreamError): void {
    for (const turn of this.turns.values()) turn.end(reason)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#sweeper.stop()
    await this.commits.idle()
    if (!this.#files.isLost) this.#endAll(new TurnstreamError('STORE_CLOSED', 'the log was closed'))
    await this.env.close()
    await this.#release()
  }
}
