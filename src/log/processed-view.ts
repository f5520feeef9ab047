import type { OutputRecord } from './turn-log.ts'

interface Entry {
  seq: number
  record: OutputRecord
}

/**
 * The newest record of every key, in the order in which the keys appeared. Readers take from it what
 * changed after the place they are at, so that nothing is queued for a slow one: what was superseded in
 * the meantime is no longer here.
 */
export class ProcessedView {
  // A Map keeps the place of a key that is set again.
  readonly #entries = new Map<string, Entry>()
  #newest: Entry | undefined

  /** Returns the record that was superseded. */
  set(key: string, seq: number, record: OutputRecord): OutputRecord | undefined {
    const superseded = this.#entries.get(key)?.record
    const entry = { seq, record }
    this.#entries.set(key, entry)
    this.#newest = entry
    return superseded
  }

  /** The records after `seq`. */
  after(seq: number): OutputRecord[] {
    const newest = this.#newest
    if (newest === undefined || newest.seq <= seq) return []
    // A reader that keeps up, which most do, need not search all items of the turn.
    if (newest.seq === seq + 1) return [newest.record]
    const records: OutputRecord[] = []
    for (const entry of this.#entries.values()) if (entry.seq > seq) records.push(entry.record)
    return records
  }
}
