import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { corrupt } from '../rules.ts'
import { sameError } from './data-file.ts'
import type { StoreFiles } from './directory.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment, Table, Write } from './environment.ts'
import type { TurnEvents } from './turn-events.ts'

/** What a commit stores besides the decisions of its turns. */
export interface Change {
  /** Adds more writes. Called while no commit is in flight, so that it sees all stored data. */
  readonly write?: (writes: Write[]) => void
  readonly committed?: () => void
  readonly undo?: () => void
}

/** Changes stored together, with one promise for all callers. */
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
    // Possibly only writers wait for it; they are notified by their turn.
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

interface Staged {
  readonly value: string | undefined
  readonly group: Group
}

/** Changes per second at which commits reach their maximum interval. */
const BUSY_RATE = 6000

/** Weight of the newest group in the rate: single groups vary. */
const NEWEST = 0.3

/**
 * Stores decisions by group commit: what arrives while a commit is in flight goes into the next. Under load commits are
 * up to `intervalMs` apart, in real time; an idle store commits at once.
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
  #rate = 0

  constructor(env: Environment, files: StoreFiles, intervalMs: number) {
    this.journal = new Journal(env.tables.journal)
    this.#env = env
    this.#files = files
    this.#intervalMs = intervalMs
  }

  /** Resolves when the turn's decisions and the change are stored; rejects when neither is. */
  store(turn: EmbeddedTurn | undefined, change?: Change): Promise<void> {
    this.add(turn, change)
    return this.#group.stored
  }

  /** The same for writers, which are notified by their turn. */
  add(turn: EmbeddedTurn | undefined, change?: Change): void {
    this.#group.add(turn, change)
    this.#running ??= this.#run()
  }

  /** The decided value of a small record. */
  get(table: Table, key: string): string | undefined {
    const staged = this.#staged.get(table)?.get(key)
    return staged === undefined ? table.get(key) : staged.value
  }

  /** Whether a decision about a small record is not stored yet. */
  isStaged(table: Table, key: string): boolean {
    return this.#staged.get(table)?.has(key) === true
  }

  /** Decides a small record. Stored with the next change. */
  stage(table: Table, key: string, value: string | undefined): void {
    const records = this.#staged.get(table) ?? new Map<string, Staged>()
    this.#staged.set(table, records.set(key, { value, group: this.#group }))
  }

  async idle(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    let isTidy = false
    while (this.#group.size > 0 || !isTidy) {
      await this.#pause()
      // The commit itself cannot yield to the event loop.
      for (const turn of this.#group.turns) if (turn.hasLarge) await turn.encodeLarge()
      const isStored = await this.#commit(this.#takeGroup())
      // A journal that cannot be cleaned up now is left to the next commit.
      isTidy = !isStored || !this.journal.hasUnneeded
    }
    this.#running = undefined
  }

  /** Even an idle store collects what else arrives in this event loop iteration. */
  #pause(): Promise<void> {
    const apart = this.#intervalMs * Math.min(1, (this.#rate * 1000) / BUSY_RATE)
    const rest = this.#startedAt + apart - performance.now()
    return new Promise((resolve) => {
      // Timers have a minimum of one millisecond.
      if (rest >= 1) setTimeout(resolve, rest)
      else setImmediate(resolve)
    })
  }

  /** Starts a new group, so that the current one can be stored. */
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
      // Writes to files that have since been removed are not acknowledged.
      if (writes.length > 0) await this.#env.commit(writes).finally(() => this.#files.check())
    } catch (error) {
      for (const events of overdue) events.undo()
      this.#fail(group, error)
      return false
    }
    this.journal.committed(entry)
    for (const events of overdue) {
      this.journal.settle(events, entry)
      // They had nothing new, so there is nothing to publish.
      events.committed()
    }
    for (const records of this.#staged.values()) {
      for (const [key, staged] of records) if (staged.group === group) records.delete(key)
    }
    for (const turn of group.turns) {
      this.journal.settle(turn.events, entry)
      turn.confirm()
    }
    for (const { committed } of group.changes) committed?.()
    group.resolve()
    for (const turn of group.turns) turn.notifyWriters()
    return true
  }

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
    // These have nothing new, but block the journal.
    for (const events of overdue) events.write(writes, entry, true)
    for (const { write } of group.changes) write?.(writes)
    this.journal.write(writes, entry)
    return writes
  }

  /** Later decisions were based on the failed ones: reverts all, latest first. */
  #fail(group: Group, error: unknown): void {
    const later = this.#group
    this.#group = new Group()
    this.#staged.clear()
    for (const { undo } of [...group.changes, ...later.changes].toReversed()) undo?.()
    for (const turn of [...group.turns, ...later.turns]) turn.undo(sameError(error))
    for (const { reject } of [group, later]) reject(sameError(error))
  }
}

/** Maximum to read when the store is reopened: some tens of milliseconds. */
const MAX_ENTRIES = 4096
const MAX_CHARS = 4 * 1024 * 1024

/** Maximum old entries removed in one commit, to keep it short. */
const MAX_REMOVED = 512

interface Entry {
  readonly chars: number
  /** Turns whose oldest line without a chunk is in this entry. */
  readonly holders: Set<TurnEvents>
}

export interface JournalLines {
  readonly number: number
  readonly first: number
  readonly lines: readonly string[]
}

/** What one commit adds to and removes from the journal. */
export class JournalEntry {
  key = 0
  text = ''
  readonly removed: number[] = []

  /** Adds the lines of a turn from one of them on; `first` is its seq. */
  add(number: number, first: number, lines: readonly string[], from: number): void {
    if (from === lines.length) return
    this.text += `${this.text === '' ? '' : '\n'}${number},${first},${lines.length - from}`
    for (let at = from; at < lines.length; at++) this.text += `\n${lines[at]}`
  }
}

/**
 * Lines that no chunk holds yet, in one entry per commit: a key per line would cost several times as much. Entries are
 * removed in order, once no turn needs them. In a long journal, the chunks of slow turns are stored early.
 */
export class Journal {
  readonly #table: Table
  readonly #entries = new Map<number, Entry>()
  #chars = 0
  #next = 1

  constructor(table: Table) {
    this.#table = table
  }

  /** The turns that block the oldest half of a journal that is too long. */
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

  write(writes: Write[], entry: JournalEntry): void {
    for (const [key, { holders }] of this.#entries) {
      if (holders.size > 0 || entry.removed.length === MAX_REMOVED) break
      entry.removed.push(key)
      writes.push({ table: this.#table, key })
    }
    entry.key = this.#next
    if (entry.text !== '') writes.push({ table: this.#table, key: entry.key, value: entry.text })
  }

  /** The commit succeeded; each of its turns is settled next. */
  committed({ key, text, removed }: JournalEntry): void {
    for (const old of removed) {
      this.#chars -= this.#entries.get(old)?.chars ?? 0
      this.#entries.delete(old)
    }
    if (text === '') return
    this.#entries.set(key, { chars: text.length, holders: new Set() })
    this.#chars += text.length
    this.#next = key + 1
  }

  /** After a commit: finds the entry with the turn's oldest line without a chunk. */
  settle(turn: TurnEvents, { key }: JournalEntry): void {
    if (turn.storesJournal) this.release(turn)
    if (turn.oldestEntry !== undefined || !turn.needsJournal) return
    turn.oldestEntry = key
    this.#entries.get(key)?.holders.add(turn)
  }

  release(turn: TurnEvents): void {
    if (turn.oldestEntry === undefined) return
    this.#entries.get(turn.oldestEntry)?.holders.delete(turn)
    turn.oldestEntry = undefined
  }

  get hasUnneeded(): boolean {
    const [oldest] = this.#entries.values()
    return oldest?.holders.size === 0
  }

  bytesNeeded(): number {
    let bytes = this.#chars
    for (const { chars, holders } of this.#entries.values()) {
      if (holders.size > 0) break
      bytes -= chars
    }
    return bytes
  }

  *read(): Generator<JournalLines> {
    for (const { value } of this.#table.getRange({})) yield* parseEntry(value)
  }

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
      throw corrupt('a journal entry is malformed')
    }
    yield { number: Number(number), first: Number(first), lines: lines.slice(at + 1, end) }
    at = end
  }
}
