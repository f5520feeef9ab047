import { TurnstreamError } from '../../protocol/errors.ts'
import { sameError } from './data-file.ts'
import type { StoreFiles } from './directory.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment, Table, Write } from './environment.ts'
import type { TurnEvents } from './turn-events.ts'

/** What a commit stores besides what its turns have decided. */
export interface Change {
  /** Adds more writes. Called when no commit is in flight, so that it reads all there is. */
  readonly write?: (writes: Write[]) => void
  readonly committed?: () => void
  readonly undo?: () => void
}

/** Changes that are stored together, with one promise for all callers. */
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
    // Perhaps only writers wait for it: they are notified by their turn.
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

/** Changes per second from which on commits are as far apart as they may be. */
const BUSY_RATE = 6000

/** How much of the rate is that of the newest group: single ones come by chance. */
const NEWEST = 0.3

/**
 * Stores what was decided. A commit costs the same however much is in it, so everything that arrives while one is in
 * flight goes into the next. The more arrives, the further apart commits begin, up to `intervalMs`; an idle store
 * commits at once. Times are real and not a `Clock`'s: they only balance the cost of commits.
 */
export class GroupCommit {
  readonly journal: Journal
  readonly #env: Environment
  readonly #files: StoreFiles
  readonly #intervalMs: number
  readonly #staged = new Map<Table, Map<string, Staged>>()
  #group = new Group()
  #running: Promise<void> | undefined
  #startedAt = 0
  /** Changes per millisecond. */
  #rate = 0

  constructor(env: Environment, files: StoreFiles, intervalMs: number) {
    this.journal = new Journal(env.tables.journal)
    this.#env = env
    this.#files = files
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

  /** The same for writers, which are notified by their turn. */
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
      isTidy = !isStored || !this.journal.hasUnneeded
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
    const overdue = new Set<TurnEvents>(this.journal.overdue())
    const entry = new JournalEntry()
    try {
      const writes = this.#put(group, overdue, entry)
      // What was written to files that are gone by then is not acknowledged.
      if (writes.length > 0) await this.#env.commit(writes).finally(() => this.#files.check())
    } catch (error) {
      for (const events of overdue) events.undo()
      this.#fail(group, error)
      return false
    }
    this.journal.kept(entry)
    for (const events of overdue) {
      this.journal.settle(events, entry)
      // They had nothing new, so that there is nothing to show either.
      events.committed()
    }
    this.#forgetStaged(group)
    for (const turn of group.turns) {
      this.journal.settle(turn.events, entry)
      turn.confirm()
    }
    for (const { committed } of group.changes) committed?.()
    group.resolve()
    for (const turn of group.turns) turn.tellWriters()
    return true
  }

  /** Everything that a group stores. */
  #put(group: Group, overdue: Set<TurnEvents>, entry: JournalEntry): Write[] {
    const writes: Write[] = []
    for (const [table, records] of this.#staged) {
      for (const [key, staged] of records) {
        if (staged.group === group) writes.push({ table, key, value: staged.value })
      }
    }
    for (const turn of group.turns) {
      const storeAll = overdue.size > 0 && overdue.delete(turn.events)
      turn.write(writes, entry, storeAll)
    }
    // These have nothing new, but hold back the journal.
    for (const events of overdue) events.write(writes, entry, true)
    for (const { write } of group.changes) write?.(writes)
    this.journal.write(writes, entry)
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

/** Whoever reopens the store reads this much at most: some tens of milliseconds. */
const MAX_ENTRIES = 4096
const MAX_CHARS = 4 * 1024 * 1024

/** So many old entries are removed in one commit at most, to keep it short. */
const MAX_REMOVED = 512

interface Entry {
  readonly chars: number
  /** The turns whose oldest line without a chunk is in this entry. */
  readonly holders: Set<TurnEvents>
}

/** Successive lines of a turn as the journal keeps them. */
export interface JournalLines {
  readonly number: number
  readonly first: number
  readonly lines: readonly string[]
}

/** What one commit adds to the journal, and what it takes out. */
export class JournalEntry {
  key = 0
  text = ''
  readonly removed: number[] = []

  /** Adds the lines of a turn from one of them on; `first` is the seq of that one. */
  add(number: number, first: number, lines: readonly string[], from: number): void {
    if (from === lines.length) return
    this.text += `${this.text === '' ? '' : '\n'}${number},${first},${lines.length - from}`
    for (let at = from; at < lines.length; at++) this.text += `\n${lines[at]}`
  }
}

/**
 * The lines that no chunk holds yet. A commit costs the same whatever is in it, and a key for every line
 * would cost several times as much: so the lines of all turns that a commit brings are one entry. Entries
 * go in their order, once no turn needs them. A turn that is slow to fill its chunk would hold back all
 * that follow: when they have become too many, such a chunk is stored as far as it goes.
 */
export class Journal {
  readonly #table: Table
  readonly #entries = new Map<number, Entry>()
  #chars = 0
  #next = 1

  constructor(table: Table) {
    this.#table = table
  }

  /** The turns that hold back the oldest half of a journal that has become too long. */
  overdue(): TurnEvents[] {
    if (this.#entries.size < MAX_ENTRIES && this.#chars < MAX_CHARS) return []
    const overdue: TurnEvents[] = []
    let rest = this.#entries.size / 2
    for (const { holders } of this.#entries.values()) {
      if (rest <= 0) break
      rest -= 1
      overdue.push(...holders)
    }
    return overdue
  }

  /** Adds the entry of a commit and takes out what nobody needs. */
  write(writes: Write[], entry: JournalEntry): void {
    for (const [key, { holders }] of this.#entries) {
      if (holders.size > 0 || entry.removed.length === MAX_REMOVED) break
      entry.removed.push(key)
      writes.push({ table: this.#table, key })
    }
    entry.key = this.#next
    if (entry.text !== '') writes.push({ table: this.#table, key: entry.key, value: entry.text })
  }

  /** The commit has succeeded; each of its turns is settled next. */
  kept({ key, text, removed }: JournalEntry): void {
    for (const old of removed) {
      this.#chars -= this.#entries.get(old)?.chars ?? 0
      this.#entries.delete(old)
    }
    if (text === '') return
    this.#entries.set(key, { chars: text.length, holders: new Set() })
    this.#chars += text.length
    this.#next = key + 1
  }

  /** After a commit: which entry has the oldest line of the turn that is in no chunk? */
  settle(turn: TurnEvents, { key }: JournalEntry): void {
    if (turn.storesJournal) this.release(turn)
    if (turn.oldestEntry !== undefined || !turn.needsJournal) return
    turn.oldestEntry = key
    this.#entries.get(key)?.holders.add(turn)
  }

  /** The turn needs nothing of the journal any more. */
  release(turn: TurnEvents): void {
    if (turn.oldestEntry === undefined) return
    this.#entries.get(turn.oldestEntry)?.holders.delete(turn)
    turn.oldestEntry = undefined
  }

  /** Whether there are entries that nobody needs. */
  get hasUnneeded(): boolean {
    const [oldest] = this.#entries.values()
    return oldest?.holders.size === 0
  }

  /** As much as is still needed. */
  bytesNeeded(): number {
    let bytes = this.#chars
    for (const { chars, holders } of this.#entries.values()) {
      if (holders.size > 0) break
      bytes -= chars
    }
    return bytes
  }

  /** Everything in it, when the store is opened. */
  *read(): Generator<JournalLines> {
    for (const { value } of this.#table.getRange({})) yield* parseEntry(value)
  }

  /** Takes out everything. */
  clear(writes: Write[]): void {
    for (const key of this.#table.getKeys({})) writes.push({ table: this.#table, key })
  }
}

const SECTION = /^(\d+),(\d+),(\d+)$/

function* parseEntry(text: string): Generator<JournalLines> {
  const lines = text.split('\n')
  let at = 0
  while (at < lines.length) {
    const [, number, first, count] = SECTION.exec(lines[at] ?? '') ?? []
    const end = at + 1 + Number(count)
    if (count === undefined || end > lines.length) {
      throw new TurnstreamError('STORE_CORRUPT', 'an entry of the journal cannot be read')
    }
    yield { number: Number(number), first: Number(first), lines: lines.slice(at + 1, end) }
    at = end
  }
}
