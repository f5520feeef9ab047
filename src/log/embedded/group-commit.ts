import type { TurnstreamError } from '../../protocol/errors.ts'
import type { Chunks } from './chunks.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment, Table, Write } from './environment.ts'
import { sameError } from './failures.ts'
import { type Journal, JournalEntry } from './journal.ts'
import type { StoreFiles } from './store-files.ts'
import type { TurnEvents } from './turn-events.ts'

/** What somebody wants stored besides what the turn itself has decided. */
export interface Change {
  /** More to store. Asked when no commit is under way, so that what it reads is all there is. */
  readonly write?: (writes: Write[]) => void
  readonly committed?: () => void
  readonly undo?: () => void
}

/** What is stored together, with one promise for all who wait for it. */
class Group {
  readonly turns: EmbeddedTurn[] = []
  readonly changes: Change[] = []
  size = 0
  resolve: () => void = () => {}
  reject: (error: TurnstreamError) => void = () => {}
  readonly stored = new Promise<void>((resolve, reject) => {
    this.resolve = resolve
    this.reject = reject
  })

  constructor() {
    // Perhaps only writers wait for it, which are told otherwise.
    this.stored.catch(() => {})
  }

  add(turn: EmbeddedTurn | undefined, change: Change | undefined): void {
    this.size += 1
    // A mark instead of a Set: this runs once per token.
    if (turn !== undefined && turn.group !== this) {
      turn.group = this
      this.turns.push(turn)
    }
    if (change !== undefined) this.changes.push(change)
  }
}

/** What was decided and is not stored yet. */
interface Staged {
  readonly value: string | undefined
  readonly group: Group
}

interface CommitParts {
  readonly env: Environment
  readonly files: StoreFiles
  readonly journal: Journal
  readonly chunks: Chunks
  readonly intervalMs: number
}

/** Changes per second from which on commits are as far apart as they may be. */
const BUSY_RATE = 6000

/** How much of the rate is that of the newest group: single ones come by chance. */
const NEWEST = 0.3

/**
 * Stores what was decided. A commit costs the same however much is in it, so everything that arrives while
 * one is under way is in the next; and the more arrives, the further apart commits begin, up to
 * `intervalMs`. A store with little to do commits at once. The time is real and not a `Clock`'s: it is a
 * matter of what a commit costs, and no behaviour depends on it.
 */
export class GroupCommit {
  readonly #env: Environment
  readonly #files: StoreFiles
  readonly #journal: Journal
  readonly #chunks: Chunks
  readonly #intervalMs: number
  readonly #staged = new Map<Table, Map<string, Staged>>()
  #group = new Group()
  #running: Promise<void> | undefined
  #startedAt = 0
  /** Changes per millisecond. */
  #rate = 0

  constructor({ env, files, journal, chunks, intervalMs }: CommitParts) {
    this.#env = env
    this.#files = files
    this.#journal = journal
    this.#chunks = chunks
    this.#intervalMs = intervalMs
  }

  /**
   * Resolves when what the turn has decided and the change are stored; rejects when they are not, and
   * nothing that came after them.
   */
  store(turn: EmbeddedTurn | undefined, change?: Change): Promise<void> {
    this.add(turn, change)
    return this.#group.stored
  }

  /** The same for whoever is told otherwise. */
  add(turn: EmbeddedTurn | undefined, change?: Change): void {
    this.#group.add(turn, change)
    this.#running ??= this.#run()
  }

  /** The value of a small record as decided. */
  get(table: Table, key: string): string | undefined {
    const staged = this.#staged.get(table)?.get(key)
    return staged === undefined ? table.get(key) : staged.value
  }

  /** Decides a small record. It is stored with the change that is handed in next. */
  stage(table: Table, key: string, value: string | undefined): void {
    const records = this.#staged.get(table) ?? new Map<string, Staged>()
    this.#staged.set(table, records.set(key, { value, group: this.#group }))
  }

  /** Resolves when nothing is left to store. */
  async idle(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    let isTidy = false
    while (this.#group.size > 0 || !isTidy) {
      await this.#pause()
      const isStored = await this.#commit(this.#takeGroup())
      // A journal that cannot be tidied up now is the next commit's.
      isTidy = !isStored || !this.#journal.hasUnneeded
    }
    this.#running = undefined
  }

  /** Even an idle store waits for what else arrives in this turn of the event loop. */
  #pause(): Promise<void> {
    const apart = this.#intervalMs * Math.min(1, (this.#rate * 1000) / BUSY_RATE)
    const rest = this.#startedAt + apart - performance.now()
    return new Promise((resolve) => {
      // A timer of less than a millisecond is one of a millisecond.
      if (rest >= 1) setTimeout(resolve, rest)
      else setImmediate(resolve)
    })
  }

  /** Begins a group, and so ends the one that is stored now. */
  #takeGroup(): Group {
    const group = this.#group
    this.#group = new Group()
    const now = performance.now()
    const rate = group.size / Math.max(now - this.#startedAt, 1)
    this.#rate += NEWEST * (rate - this.#rate)
    this.#startedAt = now
    return group
  }

  async #commit(group: Group): Promise<boolean> {
    const overdue = new Set<TurnEvents>(this.#journal.overdue())
    const entry = new JournalEntry()
    try {
      const writes = this.#put(group, overdue, entry)
      if (writes.length > 0) await this.#write(writes)
    } catch (error) {
      for (const events of overdue) events.undo()
      this.#fail(group, error)
      return false
    }
    this.#journal.kept(entry)
    for (const events of overdue) {
      this.#journal.settle(events, entry)
      // They had nothing new, so that there is nothing to show either.
      events.committed(this.#chunks, [])
    }
    this.#forgetStaged(group)
    for (const turn of group.turns) {
      this.#journal.settle(turn.events, entry)
      turn.committedBy(this.#chunks)
    }
    for (const { committed } of group.changes) committed?.()
    group.resolve()
    for (const turn of group.turns) turn.tellWriters()
    return true
  }

  /** What was written to files that are gone by then is not acknowledged. */
  async #write(writes: readonly Write[]): Promise<void> {
    try {
      await this.#env.commit(writes)
    } finally {
      this.#files.check()
    }
  }

  /** Everything that a group stores. */
  #put(group: Group, overdue: Set<TurnEvents>, entry: JournalEntry): Write[] {
    const writes: Write[] = []
    for (const [table, records] of this.#staged) {
      for (const [key, staged] of records) {
        if (staged.group === group) writes.push(writeOf(table, key, staged.value))
      }
    }
    const { tables } = this.#env
    for (const turn of group.turns) {
      const storeAll = overdue.size > 0 && overdue.delete(turn.events)
      turn.write(writes, tables, entry, storeAll)
    }
    // These have nothing new, but the journal is to be rid of them.
    for (const events of overdue) events.write(writes, tables, entry, true)
    for (const { write } of group.changes) write?.(writes)
    this.#journal.write(writes, entry)
    return writes
  }

  /** What came later was decided on the ground of what failed: all of it is undone, the latest first. */
  #fail(group: Group, error: unknown): void {
    const later = this.#group
    this.#group = new Group()
    this.#staged.clear()
    for (const { undo } of [...group.changes, ...later.changes].toReversed()) undo?.()
    for (const turn of [...group.turns, ...later.turns]) turn.undo(sameError(error))
    for (const { reject } of [group, later]) reject(sameError(error))
  }

  #forgetStaged(group: Group): void {
    for (const records of this.#staged.values()) {
      for (const [key, staged] of records) if (staged.group === group) records.delete(key)
    }
  }
}

function writeOf(table: Table, key: string, value: string | undefined): Write {
  return value === undefined ? { table, key } : { table, key, value }
}
