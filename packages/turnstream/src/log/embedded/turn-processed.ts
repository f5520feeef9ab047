import type { NewOutput, OutputRecord } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import { type EpochStart, formatOffset, offsetOf } from '../offsets.ts'
import { newestOutputs, ProcessedView, StoredOutput } from '../records.ts'
import { corrupt, type LogState } from '../rules.ts'
import type { Table, Write } from './environment.ts'

interface Snapshot {
  readonly seq: number
  readonly record: StoredOutput
  /** The seq of the first snapshot with this key, as far as it is known here. */
  readonly firstSeq: number
}

/** The log `processed` of a turn: the newest snapshot of each key, at its position in order of first appearance. */
export class TurnProcessed {
  readonly #number: number
  readonly #table: Table
  readonly #view = new ProcessedView()
  readonly #places = new Map<string, number>()
  #head = 0
  #staged: Snapshot[] = []
  #writing: readonly Snapshot[] = []

  constructor(number: number, table: Table) {
    this.#number = number
    this.#table = table
  }

  /** Stages the newest outputs from `from` to before `end`; `first` is the seq of the first. All or none. */
  stage(epoch: number, outputs: readonly NewOutput[], first: number, from: number, end: number) {
    const { length } = this.#staged
    try {
      for (const { entry, seq, firstSeq } of newestOutputs(outputs, first, from, end)) {
        const record = StoredOutput.of(formatOffset(epoch, seq), entry, this.#view.encoder)
        this.#staged.push({ seq, record, firstSeq })
      }
    } catch (error) {
      this.#staged.length = length
      throw error
    }
  }

  write(writes: Write[]): void {
    this.#writing = this.#staged
    if (this.#writing.length === 0) return
    this.#staged = []
    // More than one writer may have staged a key.
    const newest = new Map<string, Snapshot>()
    for (const snapshot of this.#writing) {
      const { key } = snapshot.record
      const before = newest.get(key)?.firstSeq ?? this.#view.firstSeq(key)
      newest.set(key, { ...snapshot, firstSeq: before ?? snapshot.firstSeq })
    }
    let size = this.#places.size
    for (const [key, snapshot] of newest) {
      const place = this.#places.get(key) ?? size++
      writes.push({ table: this.#table, key: [this.#number, place], value: format(snapshot) })
    }
  }

  committed(): void {
    for (const snapshot of this.#writing) this.#keep(snapshot)
    this.#writing = []
  }

  #keep({ seq, record, firstSeq }: Snapshot): void {
    const { key } = record
    if (!this.#places.has(key)) this.#places.set(key, this.#places.size)
    this.#view.set(key, seq, record, firstSeq)
    this.#head = Math.max(this.#head, seq)
  }

  undo(): void {
    this.#writing = []
    this.#staged = []
  }

  after(seq: number): OutputRecord[] {
    return this.#view.after(seq)
  }

  /** The newest record is never superseded, so its seq is the head of the log. */
  get head(): number {
    return this.#head
  }

  /** Reads the stored snapshots. STORE_CORRUPT if any are missing; the head of an open log is unknown. */
  restore({ epochs, sealed, head }: LogState): void {
    const range = { start: [this.#number], end: [this.#number + 1] }
    for (const { key, value } of this.#table.getRange(range)) {
      if (!Array.isArray(key) || key[1] !== this.#places.size) throw missing()
      this.#keep(parse(value, epochs))
    }
    if (sealed && this.#head !== head) throw missing()
  }
}

function missing(): TurnstreamError {
  return corrupt('a stored snapshot is missing')
}

type Envelope = [number, string, string, number, 0 | 1, number | undefined]

/** One line of JSON with the envelope, then the snapshot's JSON. */
function format({ seq, record, firstSeq }: Snapshot): string {
  const { key, data, eventId, timestamp } = record
  return `${JSON.stringify([seq, key, eventId, timestamp, 0, firstSeq])}\n${data}`
}

/** Older versions stored no first seq; some marked a JSON string of JSON with a 1 in the envelope. */
function parse(text: string, epochs: readonly EpochStart[]): Snapshot {
  const end = text.indexOf('\n')
  const head = parseJsonSafe(text.slice(0, end))
  if (!Array.isArray(head) || typeof head[0] !== 'number' || typeof head[1] !== 'string') {
    throw corrupt('a stored snapshot is malformed')
  }
  const [seq, key, eventId, timestamp, isQuoted, firstSeq = 1] = head as Envelope
  const body = text.slice(end + 1)
  const data = isQuoted === 1 ? String(parseJsonSafe(body)) : body
  const record = StoredOutput.read(offsetOf(epochs, seq), { data, key, eventId, timestamp })
  return { seq, record, firstSeq }
}
