import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { nextSlice } from '@turnstream/core/internal/async/time-slice'
import { decodeChunk, EventEncoder } from '@turnstream/core/internal/protocol/event-codec'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { type EpochStart, epochOf } from '../offsets.ts'
import { CHUNK_RECORDS, checkLength, StoredEvent } from '../records.ts'
import { corrupt } from '../rules.ts'
import type { ByteTable, Write } from './environment.ts'
import type { JournalEntry, JournalLines } from './group-commit.ts'

/** A line of this length, such as a request with images, ends its chunk: the chunk is written again when it grows. */
const LONG_LINE_CHARS = 4 * 1024 * 1024

/** Up to 256 lines of one epoch; the first `stored` are stored as a chunk. */
interface Chunk {
  readonly epoch: number
  readonly first: number
  readonly lines: string[]
  stored: number
}

function isComplete({ lines }: Chunk): boolean {
  return lines.length === CHUNK_RECORDS || endsWithLongLine(lines)
}

function endsWithLongLine(lines: readonly string[]): boolean {
  return (lines.at(-1)?.length ?? 0) >= LONG_LINE_CHARS
}

/** A position in the log: the newest chunk, its lines, and how many were stored. */
interface Extent {
  readonly chunk: Chunk
  readonly lines: number
  readonly stored: number
}

/**
 * The log `events` of a turn. New lines go to the shared journal until their chunk is complete: with its 256th line, a
 * long line, the last line of an epoch, or the seal.
 */
export class TurnEvents {
  /** The oldest journal entry with a line that no chunk holds yet; set by the journal. */
  oldestEntry: number | undefined
  readonly #number: number
  readonly #chunks: Chunks
  readonly #encoder = new EventEncoder()
  /** The newest chunk, including uncommitted lines. */
  #chunk: Chunk = { epoch: 0, first: 1, lines: [], stored: 0 }
  #complete: Chunk[] = []
  #staged: StoredEvent[] = []
  /** Positions after the last successful commit, and after the one in flight. */
  #committed: Extent = { chunk: this.#chunk, lines: 0, stored: 0 }
  #writing: Extent | undefined
  /** Visible records of the newest chunk, while there are readers: all turns' would dominate garbage collection. */
  #live: { first: number; epoch: number; records: StoredEvent[] } | undefined
  #readers = 0

  constructor(number: number, chunks: Chunks) {
    this.#number = number
    this.#chunks = chunks
  }

  /** Encodes events from `from` to before `end` for the commit. Changes nothing if it throws. */
  stage(epoch: number, events: readonly StreamEvent[], from: number, end: number): void {
    const chunk = this.#chunk
    const { length } = chunk.lines
    const complete = this.#complete.length
    const first = this.#end
    try {
      for (let at = from; at < end; at++) {
        if (!this.#hasRoom(epoch)) this.#encoder.startChunk()
        const line = this.#encoder.encode(events[at] as StreamEvent)
        checkLength(line.length)
        this.#addLine(epoch, line)
      }
    } catch (error) {
      chunk.lines.length = length
      this.#chunk = chunk
      this.#complete.length = complete
      // The encoder remembers lines that will not be stored.
      this.#encoder.startChunk()
      throw error
    }
    if (this.#live === undefined) return
    for (let at = from; at < end; at++) {
      this.#staged.push(new StoredEvent(epoch, first + at - from, events[at] as StreamEvent))
    }
  }

  #hasRoom(epoch: number): boolean {
    return epoch === this.#chunk.epoch && !isComplete(this.#chunk)
  }

  #addLine(epoch: number, line: string, hasRoom = this.#hasRoom(epoch)): void {
    if (hasRoom) {
      this.#chunk.lines.push(line)
    } else {
      this.#complete.push(this.#chunk)
      this.#chunk = { epoch, first: this.#end, lines: [line], stored: 0 }
    }
  }

  /** Adds staged lines to a commit; those without a chunk go into its journal entry. */
  write(writes: Write[], entry: JournalEntry, storeAll: boolean): void {
    if (this.#complete.length > 0) {
      for (const chunk of this.#complete) this.#store(chunk, writes)
      this.#complete = []
    }
    const { first, lines } = this.#chunk
    if (storeAll || isComplete(this.#chunk)) this.#store(this.#chunk, writes)
    const { stored } = this.#chunk
    this.#writing = { chunk: this.#chunk, lines: lines.length, stored }
    const from = this.#chunk === this.#committed.chunk ? this.#committed.lines : 0
    if (stored < lines.length) entry.add(this.#number, first + from, lines, from)
  }

  #store(chunk: Chunk, writes: Write[]): void {
    const { first, lines, stored } = chunk
    if (stored === lines.length) return
    const { table } = this.#chunks
    const key = [this.#number, first]
    // A chunk with a long line is complete: nothing changes its lines.
    if (endsWithLongLine(lines)) writes.push({ table, key, createValue: () => wrap(lines) })
    else writes.push({ table, key, value: compress(lines.join('\n')) })
    chunk.stored = lines.length
  }

  /** Whether the commit in flight leaves lines only in the journal. */
  get needsJournal(): boolean {
    const { lines, stored } = this.#writing ?? this.#committed
    return stored < lines
  }

  /** Whether the commit in flight stores lines from the journal. */
  get storesJournal(): boolean {
    const { chunk, lines, stored } = this.#committed
    if (this.#writing === undefined || stored === lines) return false
    return this.#writing.chunk !== chunk || this.#writing.stored > stored
  }

  committed(): void {
    if (this.#writing === undefined) return
    const before = this.head
    this.#committed = this.#writing
    this.#writing = undefined
    if (this.#live === undefined) return
    const staged = this.#staged
    this.#staged = []
    // A reader may have arrived while the commit was in flight.
    if (staged.length !== this.head - before) this.#live = this.#decodeLive()
    else for (const record of staged) this.#show(record)
  }

  #show(record: StoredEvent): void {
    const live = this.#live
    const { epoch, seq } = record
    if (live?.epoch === epoch && live.records.length < CHUNK_RECORDS) {
      live.records.push(record)
      return
    }
    if (live !== undefined && live.records.length > 0) this.#chunks.keep(this.#number, live)
    this.#live = { first: seq, epoch, records: [record] }
  }

  undo(): void {
    const { chunk, lines, stored } = this.#committed
    chunk.lines.length = lines
    chunk.stored = stored
    this.#chunk = chunk
    this.#complete = []
    this.#staged = []
    this.#writing = undefined
    this.#encoder.startChunk()
  }

  /** Keeps the newest records while there are readers. */
  hold(): () => void {
    this.#readers += 1
    this.#live ??= this.#decodeLive()
    return () => {
      this.#readers -= 1
      if (this.#readers > 0) return
      this.#live = undefined
      this.#staged = []
    }
  }

  /** Records from `seq` on within one chunk; undefined if there are none. */
  read(seq: number, epochs: readonly EpochStart[]): RecordRun | undefined {
    const live = this.#live
    if (live !== undefined && live.records.length > 0 && seq >= live.first) return live
    return this.#chunks.read(this.#number, seq, epochs)
  }

  #decodeLive() {
    const { chunk, lines } = this.#committed
    const { epoch, first } = chunk
    return { first, epoch, records: decodeRecords(chunk.lines.slice(0, lines), first, epoch) }
  }

  restore(epochs: readonly EpochStart[]): void {
    const newest = { start: [this.#number + 1], end: [this.#number], reverse: true, limit: 1 }
    for (const { key, value } of this.#chunks.table.getRange(newest)) {
      const first = Array.isArray(key) ? Number(key[1]) : 0
      const lines = unpackLines(value)
      this.#chunk = { epoch: epochOf(epochs, first), first, lines, stored: lines.length }
      this.#settle()
    }
  }

  /** Adds journal lines, skipping known ones. STORE_CORRUPT if some are missing. */
  restoreLines({ first, lines }: JournalLines, epochs: readonly EpochStart[]): void {
    for (const [index, line] of lines.entries()) {
      const seq = first + index
      if (seq > this.#end) throw corrupt(`event ${this.#end} is missing`)
      if (seq < this.#end) continue
      const epoch = epochOf(epochs, seq)
      // In older versions, long lines did not end a chunk. What follows may use the templates before them.
      const chunk = this.#chunk
      this.#addLine(epoch, line, epoch === chunk.epoch && chunk.lines.length < CHUNK_RECORDS)
    }
    // A chunk with a successor was stored before the successor's first line.
    this.#complete = []
    this.#settle()
  }

  #settle(): void {
    const { lines, stored } = this.#chunk
    this.#committed = { chunk: this.#chunk, lines: lines.length, stored }
  }

  get head(): number {
    const { chunk, lines } = this.#committed
    return chunk.first + lines - 1
  }

  get #end(): number {
    return this.#chunk.first + this.#chunk.lines.length
  }
}

export interface RecordRun {
  readonly first: number
  readonly records: readonly StoredEvent[]
}

const CACHED_CHARS = 8 * 1024 * 1024

/** Decoded chunks of event logs, cached so that many readers joining at once share the same record objects. */
export class Chunks {
  readonly table: ByteTable
  // Least recently read first: a Map preserves insertion order.
  readonly #cache = new Map<string, RecordRun>()
  #chars = 0

  constructor(table: ByteTable) {
    this.table = table
  }

  read(number: number, seq: number, epochs: readonly EpochStart[]): RecordRun | undefined {
    const range = { start: [number, seq], end: [number], reverse: true, limit: 1 }
    const [key] = this.table.getKeys(range)
    if (!Array.isArray(key)) return undefined
    const first = Number(key[1])
    const run = this.#cached(number, first) ?? this.#load(number, first, epochs)
    return seq < first + run.records.length ? run : undefined
  }

  keep(number: number, run: RecordRun): void {
    const key = cacheKey(number, run.first)
    this.#chars += charsOf(run) - charsOf(this.#cache.get(key))
    this.#cache.set(key, run)
    for (const [key, oldest] of this.#cache) {
      if (this.#chars <= CACHED_CHARS) return
      this.#cache.delete(key)
      this.#chars -= charsOf(oldest)
    }
  }

  #cached(number: number, first: number): RecordRun | undefined {
    const key = cacheKey(number, first)
    const run = this.#cache.get(key)
    if (run !== undefined) {
      this.#cache.delete(key)
      this.#cache.set(key, run)
    }
    return run
  }

  #load(number: number, first: number, epochs: readonly EpochStart[]): RecordRun {
    const bytes = this.table.get([number, first])
    if (bytes === undefined) throw corrupt('a chunk is missing')
    const records = decodeRecords(unpackLines(bytes), first, epochOf(epochs, first))
    const run = { first, records }
    this.keep(number, run)
    return run
  }
}

/** Compresses lines to about half their size, so that more fit into an LMDB page. */
function compress(text: string): Uint8Array {
  // A chunk has about 3 kB: the window and memory level for large texts would double the time.
  return deflateRawSync(text, { level: 3, windowBits: 12, memLevel: 5 })
}

/** The same without compression, which takes 10 ms per megabyte. Each step has an event loop iteration for itself. */
async function wrap(lines: readonly string[]): Promise<Uint8Array> {
  await nextSlice()
  const text = lines.join('\n')
  await nextSlice()
  const bytes = Buffer.from(text)
  await nextSlice()
  // The output in one piece: zlib would collect and then copy many.
  const chunkSize = bytes.length + (bytes.length >> 8) + 1024
  const wrapped = deflateRawSync(bytes, { level: 0, chunkSize })
  await nextSlice()
  return wrapped
}

export function unpackLines(bytes: Uint8Array): string[] {
  try {
    return inflateRawSync(bytes).toString().split('\n')
  } catch (error) {
    throw corrupt('a chunk cannot be decompressed', { cause: error })
  }
}

/** A chunk never spans epochs. */
function decodeRecords(lines: readonly string[], first: number, epoch: number): StoredEvent[] {
  return decodeChunk(lines.join('\n')).map((event, at) => new StoredEvent(epoch, first + at, event))
}

function cacheKey(number: number, first: number): string {
  return `${number}:${first}`
}

function charsOf(run: RecordRun | undefined): number {
  let chars = 0
  for (const { size } of run?.records ?? []) chars += size
  return chars
}
