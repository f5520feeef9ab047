import { EventDecoder } from '../../protocol/event-codec.ts'
import { type EpochStart, offsetOf } from '../offsets.ts'
import { StoredEvent } from '../records.ts'
import type { HeadState } from '../rules.ts'
import type { Block } from '../tail.ts'
import type { Calls } from './calls.ts'
import { Feed, type LogView, type Looked } from './feed.ts'
import type { RunKeys } from './keys.ts'
import { type Entry, list, parseEntries, parseEpochs, parseState, text } from './replies.ts'
import { READ_EVENTS } from './scripts/read.ts'

/** How much of a log is held for readers who keep up; the others read it from the store. */
const WINDOW_RECORDS = 1024
const WINDOW_CHARS = 4 * 1024 * 1024

/** So many chunks at once: a log of 100,000 records is read in a dozen steps, none of them large. */
const CHUNKS_PER_READ = 32

/** After every record there can be. */
const END = '999999999999999-0'

interface Reading {
  readonly creation: string
  readonly state: HeadState
  readonly epochs: readonly EpochStart[]
  readonly chunks: readonly Entry[]
  readonly live: readonly Entry[]
  readonly hasMore: boolean
}

/** Log A. It holds the newest records, from the beginning of what was live when it was first read. */
export class EventsFeed extends Feed<StoredEvent> {
  readonly #calls: Calls
  readonly #keys: RunKeys
  // One for all: a chunk defines what it needs, and the lines of a chunk that were read when they were
  // live need not be read again.
  readonly #decoder = new EventDecoder()
  #records: StoredEvent[] = []
  #chars = 0
  protected override view: LogView | undefined

  constructor(turnId: string, keys: RunKeys, calls: Calls, onError: (error: unknown) => void) {
    super(turnId, keys.events, onError)
    this.#calls = calls
    this.#keys = keys
  }

  protected override async load(): Promise<void> {
    const view = this.view
    const after = view === undefined ? END : offsetOf(view.epochs, view.head)
    const { state, epochs, chunks, live, hasMore } = await this.#fetch(after, view === undefined)
    const entries = [...chunks, ...live]
    let head =
      view?.head ?? state.head - entries.reduce((sum, each) => sum + linesOf(each).length, 0)
    for (const entry of entries) head = this.#add(entry, head)
    this.#trim()
    if (head !== view?.head || state.sealed || epochs.length !== view.epochs.length) {
      this.view = { head, sealed: state.sealed && !hasMore, epochs }
    }
    if (hasMore) await this.load()
  }

  async #fetch(after: string, withAllLive: boolean): Promise<Reading> {
    const { state, events, chunks, meta } = this.#keys
    const args = [after, CHUNKS_PER_READ, withAllLive ? 1 : '']
    const reply = list(await this.#calls.run(READ_EVENTS, [state, events, chunks, meta], args))
    return this.seen(parseReading(reply))
  }

  /** Reads the lines after `head`. */
  #add(entry: Entry, head: number): number {
    const lines = linesOf(entry)
    let seq = entry.seq - lines.length
    for (const line of lines) {
      seq += 1
      if (seq <= head) continue
      const record = new StoredEvent(entry.epoch, seq, this.#decoder.decode(line))
      this.#records.push(record)
      this.#chars += record.size
    }
    return Math.max(head, entry.seq)
  }

  /** Not for every record, because the rest is copied. */
  #trim(): void {
    const records = this.#records
    if (records.length <= 2 * WINDOW_RECORDS && this.#chars <= 2 * WINDOW_CHARS) return
    let from = records.length
    let chars = 0
    while (from > 0 && records.length - from < WINDOW_RECORDS && chars < WINDOW_CHARS) {
      from -= 1
      chars += records[from]?.size ?? 0
    }
    this.#records = records.slice(from)
    this.#chars = chars
  }

  protected override read(after: number): Block<StoredEvent> | Promise<Block<StoredEvent>> {
    const { head, sealed, epochs } = this.known()
    const start = head - this.#records.length
    if (after < start) return this.#history(after)
    // A reader that came by way of history may be ahead.
    const at = Math.max(after, head)
    const records = this.#records.slice(after - start)
    return { records, head: at, cursor: offsetOf(epochs, at), last: sealed && at === head }
  }

  /** Reads from the store, for one reader, some chunks after a record. */
  async #history(after: number): Promise<Block<StoredEvent>> {
    const cursor = offsetOf(this.known().epochs, after)
    const { state, epochs, chunks, live, hasMore } = await this.#fetch(cursor, true)
    const records: StoredEvent[] = []
    for (const chunk of chunks) decodeInto(records, [chunk], after)
    decodeInto(records, live, after)
    const head = Math.max(after, live.at(-1)?.seq ?? chunks.at(-1)?.seq ?? after)
    return { records, head, cursor: offsetOf(epochs, head), last: state.sealed && !hasMore }
  }
}

function parseReading(reply: readonly unknown[]): Looked<Reading> {
  if (reply.length === 0) return 'gone'
  if (reply.length === 1) return 'expired'
  const [state, epochs, chunks, live, more, creation] = reply
  return {
    creation: text(creation),
    state: parseState(text(state)),
    epochs: parseEpochs(epochs),
    chunks: parseEntries(chunks),
    live: parseEntries(live),
    hasMore: more === '1',
  }
}

/** Decodes entries that together are a chunk or the beginning of one, and keeps what comes after a record. */
function decodeInto(records: StoredEvent[], entries: readonly Entry[], after: number): void {
  const decoder = new EventDecoder()
  for (const entry of entries) {
    const lines = linesOf(entry)
    let seq = entry.seq - lines.length
    for (const line of lines) {
      seq += 1
      const event = decoder.decode(line)
      if (seq > after) records.push(new StoredEvent(entry.epoch, seq, event))
    }
  }
}

function linesOf({ fields }: Entry): string[] {
  return (fields['lines'] ?? '').split('\n')
}
