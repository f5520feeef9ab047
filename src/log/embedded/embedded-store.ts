import { type Clock, steadyTime } from '../../async/clock.ts'
import { hasCode, TurnstreamError } from '../../protocol/errors.ts'
import type { StoreFiles } from './directory.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment, Write } from './environment.ts'
import { type GroupCommit, type Journal, JournalEntry } from './group-commit.ts'
import type { AllTurns } from './loaded-turns.ts'
import { Removal, Sweeper, ThreadSweep } from './removal.ts'
import { parseKey } from './stored-turn.ts'
import type { Chunks } from './turn-events.ts'

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

interface Store {
  readonly env: Environment
  readonly journal: Journal
  readonly chunks: Chunks
  readonly turns: AllTurns
}

/**
 * Reads the open turns of all tenants when the store is opened, and stores the lines that only the journal has as
 * chunks, so that the journal begins empty. Turns that have ended are not read: there may be many. A turn of which
 * something is damaged is STORE_CORRUPT from then on, and the others are not affected.
 */
export async function recover(store: Store): Promise<void> {
  const { env, journal } = store
  const turns = new Map<number, EmbeddedTurn>()
  const damaged = new Set<EmbeddedTurn>()
  for (const { key, value } of env.tables.open.getRange({})) {
    const turn = findTurn(store, value)
    if (turn === undefined) continue
    turns.set(Number(key), turn)
    unlessDamaged(turn, damaged, () => recoverTurn(turn, env))
  }
  try {
    for (const section of journal.read()) {
      const turn = turns.get(section.number)
      if (turn === undefined || damaged.has(turn)) continue
      const { epochs } = turn.state.logs.events
      unlessDamaged(turn, damaged, () => turn.events.restoreLines(section, epochs))
    }
  } catch (error) {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
    // Nobody knows whose lines were in that entry.
    for (const turn of turns.values()) damaged.add(turn)
  }
  const intact = [...turns.values()].filter((turn) => !damaged.has(turn))
  for (const turn of intact) turn.settleHeads()
  await emptyJournal(store, intact, damaged)
  for (const turn of intact) store.turns.of(turn.keys.tenant).add(turn)
}

/** Undefined if the turn's record is damaged, which whoever reads it is told. */
function findTurn({ turns }: Store, key: string): EmbeddedTurn | undefined {
  try {
    const turn = turns.find(key)
    if (turn !== undefined) return turn
  } catch (error) {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
    return undefined
  }
  throw new TurnstreamError('STORE_CORRUPT', `turn ${parseKey(key).id} is missing`)
}

function unlessDamaged(
  turn: EmbeddedTurn,
  damaged: Set<EmbeddedTurn>,
  restore: () => unknown,
): void {
  try {
    restore()
  } catch (error) {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
    damaged.add(turn)
  }
}

function recoverTurn(turn: EmbeddedTurn, { tables }: Environment): EmbeddedTurn {
  const { number } = turn.facts
  const newest = { start: [number + 1], end: [number], reverse: true, limit: 1 }
  for (const { key, value } of tables.chunks.getRange(newest)) {
    const first = Array.isArray(key) ? Number(key[1]) : 0
    turn.events.restoreChunk(first, value, turn.state.logs.events.epochs)
  }
  turn.load(tables)
  return turn
}

async function emptyJournal(
  { env, journal, chunks, turns: all }: Store,
  turns: readonly EmbeddedTurn[],
  damaged: Iterable<EmbeddedTurn>,
): Promise<void> {
  const writes: Write[] = []
  for (const turn of damaged) all.markDamaged(turn, writes)
  for (const { events } of turns) events.write(writes, env.tables, new JournalEntry(), true)
  journal.clear(writes)
  if (writes.length > 0) await env.commit(writes)
  for (const { events, state } of turns) events.committed(chunks, state.logs.events.epochs)
}
