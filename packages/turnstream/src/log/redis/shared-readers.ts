import type { LogRecord, OutputRecord, TurnSnapshot } from '@turnstream/core/internal/log/turn-log'
import { type ErrorCode, hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { EventDecoder } from '@turnstream/core/internal/protocol/event-codec'
import { type EpochStart, offsetOf, resume, START } from '../offsets.ts'
import { ProcessedView, StoredEvent, StoredOutput } from '../records.ts'
import { corrupt, type HeadState, isRetryable, type LogState } from '../rules.ts'
import { type Block, type LogSource, Waiters } from '../tail.ts'
import type { ChangeNotifier } from './change-notifier.ts'
import type { RedisClient } from './client.ts'
import type { RunKeys, TurnKeys } from './keys.ts'
import {
  type Entry,
  list,
  parseEntries,
  parseEpochs,
  parseFields,
  parseState,
  text,
} from './replies.ts'
import { READ_EVENTS, READ_PROCESSED } from './scripts/log.ts'

interface ReaderStore {
  readonly client: RedisClient
  readonly notifier: ChangeNotifier
  readonly onError: (error: unknown) => void
}

/** Reply of the scripts that read a log. */
interface Reading {
  readonly creation: string
  readonly state: HeadState
  readonly epochs: readonly EpochStart[]
  /** Depends on the log: see the scripts. */
  readonly parts: readonly unknown[]
}

function parseReading(reply: unknown): Reading | 'gone' | 'expired' {
  const [state, epochs, ...parts] = list(reply)
  if (state === undefined) return 'gone'
  if (epochs === undefined) return 'expired'
  const creation = text(parts.at(-1))
  return { creation, state: parseState(text(state)), epochs: parseEpochs(epochs), parts }
}

/** One log of one turn, read once for all readers in this process. Readers never wait for each other. */
abstract class SharedReader<Rec extends LogRecord, Keys = unknown> {
  readonly turnId: string
  readers = 0
  opened: Promise<void> = Promise.resolve()
  unfollow: (() => void) | undefined
  protected readonly keys: Keys
  protected readonly store: ReaderStore
  protected view: LogState | undefined
  readonly #waiters = new Waiters()
  #creation: string | undefined
  #failure: { readonly code: ErrorCode; readonly cause?: unknown } | undefined
  #loading: Promise<void> | undefined
  #isDue = false

  constructor(turnId: string, keys: Keys, store: ReaderStore) {
    this.turnId = turnId
    this.keys = keys
    this.store = store
  }

  protected abstract load(): Promise<void>
  protected abstract read(after: number): Block<Rec> | Promise<Block<Rec>>

  /** Polls for new records. A call during a poll gets the next one. */
  advance(): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#refusal())
    this.#isDue = true
    this.#loading ??= this.#loadWhileDue()
    return this.#loading
  }

  async #loadWhileDue(): Promise<void> {
    try {
      while (this.#isDue) {
        this.#isDue = false
        const before = this.view
        await this.load()
        if (this.view !== before) this.#waiters.wake()
      }
    } finally {
      this.#loading = undefined
    }
  }

  /** Handles a notification. While the store is unavailable, readers wait. */
  readonly look = (): void => {
    this.advance().catch((error: unknown) => {
      // Readers get the reason when the log is gone; after a close none are left.
      if (this.#failure !== undefined || hasCode(error, 'STORE_CLOSED')) return
      if (!isRetryable(error)) {
        this.end(error instanceof TurnstreamError ? error.code : 'STORE_FAILED', error)
      }
      this.store.onError(error)
    })
  }

  end(code: ErrorCode, cause?: unknown): void {
    this.#failure ??= { code, cause }
    this.#waiters.wake()
  }

  get hasEnded(): boolean {
    return this.#failure !== undefined
  }

  get isLive(): boolean {
    return !this.hasEnded && this.view?.sealed === false
  }

  /** Checks that a reply is for this log: another turn may have the same id now. */
  protected seen(reply: unknown): Reading {
    const reading = parseReading(reply)
    if (reading === 'expired') this.end('TURN_EXPIRED')
    else if (reading === 'gone') this.end(this.view === undefined ? 'TURN_UNKNOWN' : 'TURN_DELETED')
    else if (reading.creation !== (this.#creation ??= reading.creation)) this.end('TURN_DELETED')
    else return reading
    throw this.#refusal()
  }

  /** Updates the view, if anything has changed. */
  protected update(view: LogState): void {
    const { head, sealed, epochs } = view
    const before = this.view
    if (head !== before?.head || sealed || epochs.length !== before.epochs.length) this.view = view
  }

  protected known(): LogState {
    if (this.#failure !== undefined || this.view === undefined) throw this.#refusal()
    return this.view
  }

  source(release: () => void): LogSource<Rec> {
    return {
      resume: (cursor) => resume(cursor, this.known()),
      read: (after) => this.read(after),
      changed: (seq, signal) => {
        const { view } = this
        if (this.#failure !== undefined || view === undefined || view.sealed) return undefined
        return view.head <= seq ? this.#waiters.wait(signal) : undefined
      },
      release,
    }
  }

  /** A new error for every reader: its stack shows who was refused. */
  #refusal(): TurnstreamError {
    const { code, cause } = this.#failure ?? { code: 'TURN_UNKNOWN' }
    return new TurnstreamError(code, `turn ${this.turnId}`, { cause })
  }
}

/** Cached records for readers that keep up; others read from the store. */
const WINDOW_RECORDS = 1024
const WINDOW_CHARS = 4 * 1024 * 1024

/** Chunks per read: a log of 100,000 records takes a dozen small steps. */
const CHUNKS_PER_READ = 32

const END = '999999999999999-0'

/** Log A. Caches the newest records, from the start of the live ones at the first read. */
class EventsReader extends SharedReader<StoredEvent, RunKeys> {
  // One decoder for all: chunks are self-contained, and lines decoded while live need not be decoded again in their
  // chunk.
  readonly #decoder = new EventDecoder()
  #records: StoredEvent[] = []
  #chars = 0

  protected override async load(): Promise<void> {
    const { view } = this
    const after = view === undefined ? END : offsetOf(view.epochs, view.head)
    const { state, epochs, entries, hasMore } = await this.#fetch(after, view === undefined)
    let head =
      view?.head ?? state.head - entries.reduce((sum, each) => sum + linesOf(each).length, 0)
    const records = this.#records
    const start = records.length
    for (const entry of entries) {
      decodeInto(records, this.#decoder, entry, { known: head, after: head })
      head = Math.max(head, entry.seq)
    }
    for (let at = start; at < records.length; at++) this.#chars += records[at]?.size ?? 0
    this.#trim()
    this.update({ head, sealed: state.sealed && !hasMore, epochs })
    if (hasMore) await this.load()
  }

  async #fetch(after: string, withAllLive: boolean) {
    const { state, events, chunks, meta } = this.keys
    const args = [after, CHUNKS_PER_READ, withAllLive ? 1 : '']
    const reply = await this.store.client.run(READ_EVENTS, [state, events, chunks, meta], args)
    const reading = this.seen(reply)
    const [full, live, more] = reading.parts
    const entries = [...parseEntries(full), ...parseEntries(live)]
    return { state: reading.state, epochs: reading.epochs, entries, hasMore: more === '1' }
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
    // A reader of the history may be ahead.
    const at = Math.max(after, head)
    const records = this.#records.slice(after - start)
    return { records, head: at, cursor: offsetOf(epochs, at), last: sealed && at === head }
  }

  /** Reads some chunks after a record from the store, for one reader. */
  async #history(after: number): Promise<Block<StoredEvent>> {
    const cursor = offsetOf(this.known().epochs, after)
    const { state, epochs, entries, hasMore } = await this.#fetch(cursor, true)
    const records: StoredEvent[] = []
    const decoder = new EventDecoder()
    for (const entry of entries) decodeInto(records, decoder, entry, { known: 0, after })
    const head = Math.max(after, entries.at(-1)?.seq ?? after)
    return { records, head, cursor: offsetOf(epochs, head), last: state.sealed && !hasMore }
  }
}

/** Adds the records after `after`. The decoder already knows the lines up to `known`. */
function decodeInto(
  records: StoredEvent[],
  decoder: EventDecoder,
  entry: Entry,
  { known, after }: { readonly known: number; readonly after: number },
): void {
  const lines = linesOf(entry)
  let seq = entry.seq - lines.length
  for (const line of lines) {
    seq += 1
    if (seq <= known) continue
    const event = decoder.decode(line)
    if (seq > after) records.push(new StoredEvent(entry.epoch, seq, event))
  }
}

function linesOf({ fields }: Entry): string[] {
  return (fields['lines'] ?? '').split('\n')
}

/** Log B: the newest record of every key. */
class ProcessedReader extends SharedReader<OutputRecord, TurnKeys> {
  readonly #processed = new ProcessedView()

  protected override async load(): Promise<void> {
    const { view } = this
    const after = view === undefined ? START : offsetOf(view.epochs, view.head)
    let reading = await this.#fetch(after, view === undefined)
    const isNew = ({ record }: NumberedRecord) => this.#processed.firstSeq(record.key) === undefined
    // Only the items tell where a new key first appeared, unless its record directly follows what is known.
    const isUnplaced = (each: NumberedRecord) => isNew(each) && each.seq !== (view?.head ?? 0) + 1
    if (reading.first === undefined && reading.records.some(isUnplaced)) {
      reading = await this.#fetch(after, true)
    }
    const { records, first, state, epochs } = reading
    const place = ({ seq, record }: NumberedRecord) => first?.get(record.key) ?? seq
    const added = records.filter(isNew).toSorted((a, b) => place(a) - place(b))
    // New keys get their positions first, then values are set in write order.
    for (const each of [...added, ...records]) {
      this.#processed.set(each.record.key, each.seq, each.record, place(each))
    }
    this.update({ head: state.head, sealed: state.sealed, epochs })
  }

  async #fetch(after: string, withItems: boolean) {
    const reply = await readProcessed(this.keys, this.store.client, after, withItems)
    const reading = this.seen(reply)
    return { state: reading.state, epochs: reading.epochs, ...parseRecords(reading) }
  }

  protected override read(after: number): Block<OutputRecord> {
    const { head, sealed, epochs } = this.known()
    const records = this.#processed.after(after)
    return { records, head, cursor: offsetOf(epochs, head), last: sealed }
  }

  async snapshot(): Promise<TurnSnapshot> {
    await this.advance()
    const { records, cursor, last } = this.read(0)
    return { records, offset: cursor, sealed: last }
  }
}

function readProcessed(keys: TurnKeys, client: RedisClient, after: string, withItems: boolean) {
  const { state, processed, items, meta } = keys
  const args = [after, withItems ? 1 : '']
  return client.run(READ_PROCESSED, [state, processed, items, meta], args)
}

/** Entry id of every key, for a writer that continues; empty for a sealed log. */
export async function readEntries(keys: TurnKeys, client: RedisClient) {
  const reading = parseReading(await readProcessed(keys, client, START, false))
  if (typeof reading === 'string') return new Map<string, string>()
  return new Map(parseRecords(reading).records.map(({ record }) => [record.key, record.offset]))
}

interface NumberedRecord {
  readonly seq: number
  readonly record: StoredOutput
}

/** The records, and each key's first appearance if items were read. */
function parseRecords({ parts }: Reading) {
  const items = Object.entries(parseFields(parts[1]))
  const first = new Map<string, number>()
  /** Keys that older versions stored next to the payload, by entry. */
  const keys = new Map<string, string>()
  for (const [key, value] of items) {
    const [seq, id] = value.split(' ')
    first.set(key, Number(seq))
    if (id !== undefined) keys.set(id, key)
  }
  const records = parseEntries(parts[0]).map(({ id, seq, fields }): NumberedRecord => {
    const { payload: data, eventId, timestamp } = fields
    if (data === undefined || eventId === undefined || timestamp === undefined) {
      throw corrupt(`entry ${id} of processed is incomplete`)
    }
    const key = keys.get(id)
    const keyed = key === undefined ? {} : { key }
    const stored = { data, eventId, timestamp: Number(timestamp), ...keyed }
    return { seq, record: StoredOutput.read(id, stored) }
  })
  return { records, first: items.length === 0 ? undefined : first }
}

/** Logs being read in this process: each once, while it has readers. */
export class SharedReaders {
  readonly #store: ReaderStore
  /** By the stream they read, which is also their notification channel. */
  readonly #readers = new Map<string, SharedReader<LogRecord>>()

  constructor(store: ReaderStore) {
    this.#store = store
  }

  openEvents(turnId: string, keys: RunKeys): Promise<LogSource<StoredEvent>> {
    return this.#open(keys.events, () => new EventsReader(turnId, keys, this.#store))
  }

  openProcessed(turnId: string, keys: TurnKeys): Promise<LogSource<OutputRecord>> {
    return this.#open(keys.processed, () => new ProcessedReader(turnId, keys, this.#store))
  }

  async snapshot(turnId: string, keys: TurnKeys): Promise<TurnSnapshot> {
    const shared = this.#readers.get(keys.processed)
    if (shared instanceof ProcessedReader && !shared.hasEnded) {
      try {
        return await shared.snapshot()
      } catch (error) {
        // There may be another turn with the same id.
        if (!hasCode(error, 'TURN_DELETED')) throw error
      }
    }
    return new ProcessedReader(turnId, keys, this.#store).snapshot()
  }

  close(): void {
    for (const reader of this.#readers.values()) reader.end('STORE_CLOSED')
  }

  async #open<Rec extends LogRecord>(
    channel: string,
    create: () => SharedReader<Rec>,
  ): Promise<LogSource<Rec>> {
    const known = this.#readers.get(channel) as SharedReader<Rec> | undefined
    const isKnown = known !== undefined && !known.hasEnded
    const reader = isKnown ? known : this.#add(channel, create())
    reader.readers += 1
    try {
      await reader.opened
      // A reader may know more than this process: a longer log, or a new turn with the same id. Concurrent readers
      // share the poll.
      if (isKnown) await reader.advance()
    } catch (error) {
      this.#leave(channel, reader)
      if (isKnown && reader.hasEnded && !hasCode(error, 'STORE_CLOSED')) {
        return this.#open(channel, create)
      }
      throw error
    }
    return reader.source(() => this.#leave(channel, reader))
  }

  #add<Rec extends LogRecord>(channel: string, reader: SharedReader<Rec>): SharedReader<Rec> {
    this.#readers.set(channel, reader)
    reader.opened = this.#follow(channel, reader)
    // Every reader gets the error itself.
    reader.opened.catch(() => {})
    return reader
  }

  /** A sealed log only changes by deletion, which the next read detects. */
  async #follow(channel: string, reader: SharedReader<LogRecord>): Promise<void> {
    await reader.advance()
    if (!reader.isLive) return
    const unfollow = await this.#store.notifier.follow(channel, reader.look)
    if (this.#readers.get(channel) !== reader) return unfollow()
    reader.unfollow = unfollow
    // Reads what was written before the subscription.
    await reader.advance()
  }

  #leave(channel: string, reader: SharedReader<LogRecord>): void {
    reader.readers -= 1
    if (reader.readers > 0) return
    if (this.#readers.get(channel) === reader) this.#readers.delete(channel)
    reader.unfollow?.()
  }
}
