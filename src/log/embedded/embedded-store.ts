import type { Clock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import type { AllTurns } from './all-turns.ts'
import type { Chunks } from './chunks.ts'
import type { Environment } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import type { Journal } from './journal.ts'
import { Removal, Sweeper } from './removal.ts'

/** What an embedded store is made of. */
export interface EmbeddedParts {
  readonly env: Environment
  readonly chunks: Chunks
  readonly journal: Journal
  readonly commits: GroupCommit
  readonly turns: AllTurns
  readonly clock: Clock
  readonly retentionMs: number
  readonly sweepMs: number
  /** Lets go of the directory. */
  readonly release: () => Promise<void>
}

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
    this.#release = parts.release
    this.#nextNumber = Number(env.tables.store.get('nextNumber') ?? 1)
    this.removal = new Removal(parts)
    const step = () => this.removal.sweep(clock.now(), retentionMs)
    this.#sweeper = new Sweeper(step, clock, parts.sweepMs)
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

  checkOpen(): void {
    if (this.#closing !== undefined) {
      throw new TurnstreamError('STORE_CLOSED', 'the log was closed')
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#sweeper.stop()
    await this.commits.idle()
    for (const turn of this.turns.values()) {
      turn.end(new TurnstreamError('STORE_CLOSED', 'the log was closed'))
    }
    await this.env.close()
    await this.#release()
  }
}
