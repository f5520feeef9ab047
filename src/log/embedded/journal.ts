import { TurnstreamError } from '../../protocol/errors.ts'
import type { Table, Write } from './environment.ts'
import type { TurnEvents } from './turn-events.ts'

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
