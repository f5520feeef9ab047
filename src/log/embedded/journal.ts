import { TurnstreamError } from '../../protocol/errors.ts'
import type { Table, Write } from './environment.ts'
import type { JournalLines, TurnEvents } from './turn-events.ts'

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

/**
 * The lines that no chunk holds yet. A commit costs the same whatever is in it, and a key for every line
 * would cost several times as much: so the lines of all turns that a commit brings are one entry. Entries
 * go in their order, once no turn needs them. A turn that is slow to fill its chunk would hold back all
 * that follow: when they have become too many, such a chunk is stored as far as it goes.
 */
export class Journal {
  readonly #table: Table
  readonly #entries = new Map<number, Entry>()
  readonly #held = new Map<TurnEvents, number>()
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

  /** Adds the entry of a commit and takes out what nobody needs; `kept` is called once it has happened. */
  write(
    writes: Write[],
    sections: readonly JournalLines[],
  ): { kept: (turns: Iterable<TurnEvents>) => void } {
    const removed: number[] = []
    for (const [key, { holders }] of this.#entries) {
      if (holders.size > 0 || removed.length === MAX_REMOVED) break
      removed.push(key)
      writes.push({ table: this.#table, key })
    }
    const key = this.#next
    const text = formatEntry(sections)
    if (text !== '') writes.push({ table: this.#table, key, value: text })
    return {
      kept: (turns) => {
        for (const old of removed) this.#remove(old)
        if (text !== '') this.#add(key, text.length)
        for (const turn of turns) this.#settle(turn, key)
      },
    }
  }

  #add(key: number, chars: number): void {
    this.#entries.set(key, { chars, holders: new Set() })
    this.#chars += chars
    this.#next = key + 1
  }

  #remove(key: number): void {
    this.#chars -= this.#entries.get(key)?.chars ?? 0
    this.#entries.delete(key)
  }

  /** After a commit: which entry has the oldest line of the turn that is in no chunk? */
  #settle(turn: TurnEvents, newest: number): void {
    if (turn.storesJournal) this.release(turn)
    if (!turn.needsJournal || this.#held.has(turn)) return
    this.#held.set(turn, newest)
    this.#entries.get(newest)?.holders.add(turn)
  }

  /** The turn needs nothing of the journal any more. */
  release(turn: TurnEvents): void {
    const key = this.#held.get(turn)
    if (key === undefined) return
    this.#held.delete(turn)
    this.#entries.get(key)?.holders.delete(turn)
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

function formatEntry(sections: readonly JournalLines[]): string {
  let text = ''
  for (const { number, first, lines } of sections) {
    text += `${text === '' ? '' : '\n'}${number},${first},${lines.length}`
    for (const line of lines) text += `\n${line}`
  }
  return text
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
