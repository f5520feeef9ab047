import type { Clock } from '../../async/clock.ts'
import { EventEncoder } from '../../protocol/event-codec.ts'
import type { StreamEvent } from '../../protocol/stream-event.ts'
import { formatOffset } from '../offsets.ts'
import { CHUNK_RECORDS, checkLength, keyOf } from '../records.ts'
import { countKnown, turnGone } from '../rules.ts'
import type { Entries, Lease, LogName, NewOutput, WriterOptions } from '../turn-log.ts'
import { StoreWriter, type Taken } from '../writer.ts'
import type { Batches, Receiver } from './batches.ts'
import type { Calls } from './calls.ts'
import type { RedisKeys } from './keys.ts'
import { readEntries } from './processed-feed.ts'
import { parseState } from './replies.ts'
import { APPEND_EVENTS, APPEND_PROCESSED, FINISH_CHUNK } from './scripts/append.ts'
import { READ_EVENTS_STATE, READ_PROCESSED_STATE } from './scripts/events-state.ts'

export interface WriterStore {
  readonly keys: RedisKeys
  readonly calls: Calls
  readonly batches: Batches
  readonly clock: Clock
  readonly onError: (error: unknown) => void
  /** A log of this turn was sealed. */
  readonly settle: (turnId: string) => Promise<void>
  readonly checkOpen: () => void
  /** The writers that may still write. */
  readonly writers: Set<{ interrupted(): void; flush(): Promise<void> }>
}

/**
 * Sends what one log of a turn is to store, one batch at a time and in order: what comes while one is under way goes
 * out together as the next. So a connection that breaks can neither change the order nor leave a gap: the batch is
 * sent again, and the store has it already or has not.
 */
abstract class RedisWriter<Name extends LogName> extends StoreWriter<Name> {
  protected readonly store: WriterStore
  #batch: Taken<Name> | undefined
  #isSending = false
  readonly #receiver: Receiver = {
    added: () => void this.#added(),
    refused: (state) => void this.#refused(state),
    failed: (error) => this.#failed(error),
  }

  constructor(
    lease: Lease,
    log: Name,
    store: WriterStore,
    options: WriterOptions<Entries[Name]> | undefined,
  ) {
    super(lease, log, store.clock, options)
    this.store = store
    store.writers.add(this)
  }

  /** Adds a batch; one method of the receiver is called, once. */
  protected abstract append(batch: Taken<Name>, receiver: Receiver): void
  /** The batch was added, and this writer knows how the log ends. */
  protected abstract appended(batch: Taken<Name>): void
  /** The state of the log, as text if there is one. */
  protected abstract readState(): Promise<unknown>
  /** What came before the next batch was not written by this writer, or nobody knows. */
  abstract interrupted(): void

  protected override wake(): void {
    if (this.#isSending) return
    try {
      this.store.checkOpen()
    } catch (error) {
      return this.failed(error)
    }
    this.#isSending = true
    // What is written in the same tick goes along with the first.
    queueMicrotask(() => this.#send())
  }

  protected override ended(): void {
    this.store.writers.delete(this)
  }

  #send(): void {
    const batch = this.take(CHUNK_RECORDS)
    this.#isSending = batch.count > 0
    if (this.#isSending) this.#append(batch)
  }

  #append(batch: Taken<Name>): void {
    this.#batch = batch
    try {
      this.append(batch, this.#receiver)
    } catch (error) {
      this.#failed(error)
    }
  }

  async #added(): Promise<void> {
    const batch = this.#batch as Taken<Name>
    this.appended(batch)
    if (batch.seal !== undefined) await this.#settle()
    this.stored()
    this.#send()
  }

  /** What is not put in order now is found by who looks next: see `Turns.isOrphan`, `Threads.openTurn`. */
  async #settle(): Promise<void> {
    await this.store.settle(this.lease.turnId).catch(this.store.onError)
  }

  #failed(error: unknown): void {
    this.interrupted()
    this.#isSending = false
    this.failed(error)
  }

  /** The log is not as the batch needs it. By the rules of `rules.ts`, it may have some of it already. */
  async #refused(answer: unknown): Promise<void> {
    const batch = this.#batch as Taken<Name>
    const { lease, log } = this
    const { first, count, seal } = batch
    this.interrupted()
    try {
      const state = typeof answer === 'string' ? answer : await this.readState()
      if (typeof state !== 'string' || state === '') throw turnGone(lease.turnId)
      const found = parseState(state)
      const isSeal = seal !== undefined
      const known = countKnown(found, { lease, log, first, count, isSeal })
      if (isSeal && !found.sealed && known === count) {
        // The last record is there, and the log is not sealed yet.
        return this.#append({ entries: [], first: first + count, count: 0, seal })
      }
      this.stored(known)
    } catch (error) {
      return this.#failed(error)
    }
    this.#send()
  }
}

/** Writes log A: lines, and chunks of them. */
class EventsWriter extends RedisWriter<'events'> {
  readonly #encoder = new EventEncoder()
  /**
   * The newest record of an open log, if this writer added it: only then may the next one be added by its id
   * alone. Another path compares the creation of the turn, which tells it from a later turn with the same id.
   */
  #written: number | undefined
  readonly #live = new LiveLines()
  /** What is live of a batch once it is written. */
  #added = ''

  protected override append(batch: Taken<'events'>, receiver: Receiver): void {
    const { entries, first, count, seal } = batch
    const before = first - 1
    const last = before + count
    // Another writer's lines may have come in between, with templates of their own.
    const isNext = before === this.#written
    if (!isNext) this.#forget()
    const full = fullAt(batch)
    const lines = this.#lines(entries, first, full ?? last)
    const { keys, batches } = this.store
    const { runId, epoch } = this.lease
    if (isNext && count === 1 && full === undefined && seal === undefined) {
      this.#added = lines
      const args = [formatOffset(epoch, last), lines]
      batches.add(APPEND_EVENTS, { keys: [keys.run(runId).events], args, receiver })
      return
    }
    this.#finish(batch, lines).then(
      (reply) => (reply === 1 ? receiver.added() : receiver.refused(reply)),
      (error: unknown) => receiver.failed(error),
    )
  }

  #finish(batch: Taken<'events'>, lines: string): Promise<unknown> {
    const { entries, first, count, seal } = batch
    const { runId, epoch, creation } = this.lease
    const { keys, calls } = this.store
    const before = first - 1
    const last = before + count
    const { state, events, chunks, meta, response } = keys.run(runId)
    const full = fullAt(batch)
    const rest = full === undefined ? '' : this.#lines(entries.slice(full - before), full + 1, last)
    this.#added = full === undefined ? lines : rest
    if (before % CHUNK_RECORDS === 0) this.#live.clear()
    const outcome = seal === undefined ? '' : JSON.stringify(seal.outcome)
    const isMerge = full !== undefined || outcome !== ''
    const merged = isMerge ? this.#live.followedBy(lines) : undefined
    const ends = [full ?? '', rest, outcome, merged === undefined ? '' : 1]
    const args = [epoch, before, last, merged ?? lines, ...ends, creation]
    if (seal?.response !== undefined) args.push(seal.response)
    return calls.run(FINISH_CHUNK, [state, events, chunks, meta, response], args)
  }

  /** The lines up to a record. A chunk stands on its own, so the templates of the one before end with it. */
  #lines(events: readonly StreamEvent[], first: number, last: number): string {
    let lines = ''
    for (const [at, event] of events.entries()) {
      const seq = first + at
      if (seq > last) break
      if (seq % CHUNK_RECORDS === 1) this.#encoder.startChunk()
      const line = this.#encoder.encode(event)
      checkLength(line.length)
      lines = lines === '' ? line : `${lines}\n${line}`
    }
    return lines
  }

  protected override appended(batch: Taken<'events'>): void {
    const { first, count, seal } = batch
    this.#written = seal === undefined ? first + count - 1 : undefined
    // Nothing is live behind a record that fills a chunk, whoever wrote it.
    if ((first - 1) % CHUNK_RECORDS === 0 || fullAt(batch) !== undefined) this.#live.clear()
    this.#live.add(this.#added)
  }

  override interrupted(): void {
    this.#written = undefined
    this.#forget()
  }

  #forget(): void {
    this.#encoder.startChunk()
    this.#live.forget()
  }

  protected override readState(): Promise<unknown> {
    const { keys, calls } = this.store
    const { state, events, meta } = keys.run(this.lease.runId)
    return calls.run(READ_EVENTS_STATE, [state, events, meta], [this.lease.creation])
  }
}

/** The last record of a batch that fills a chunk. */
function fullAt({ first, count }: Taken<'events'>): number | undefined {
  const last = first + count - 1
  const full = last - (last % CHUNK_RECORDS)
  return full >= first ? full : undefined
}

/** What is held for a turn at most: events of which a chunk needs more are put together by the store. */
const MAX_LIVE_CHARS = 16 * 1024

/** So many texts are joined to one. Before that each may keep the whole event alive that it was cut from. */
const MAX_LIVE_PARTS = 32

/**
 * The lines of log A that are in no chunk yet, as long as one writer knows them all. With them a chunk can be
 * written; without them a script has to read each, which costs the server about half of what adding it did.
 */
export class LiveLines {
  #parts: string[] | undefined
  #chars = 0

  /** There are none: what was live is a chunk now. */
  clear(): void {
    this.#parts = []
    this.#chars = 0
  }

  /** There may be others. */
  forget(): void {
    this.#parts = undefined
  }

  add(lines: string): void {
    if (this.#parts === undefined || lines === '') return
    this.#chars += lines.length
    if (this.#chars > MAX_LIVE_CHARS) {
      this.forget()
      return
    }
    this.#parts.push(lines)
    if (this.#parts.length === MAX_LIVE_PARTS) this.#parts = [this.#parts.join('\n')]
  }

  /** All of them and these; undefined if not all are known. */
  followedBy(lines: string): string | undefined {
    if (this.#parts === undefined) return undefined
    return lines === '' ? this.#parts.join('\n') : [...this.#parts, lines].join('\n')
  }
}

/**
 * Writes log B. It remembers the entry of every key, so that the script need not look for what a new one
 * supersedes; where it did not write the log itself, it reads it once.
 */
class ProcessedWriter extends RedisWriter<'processed'> {
  /** The id of the entry that each key has. */
  readonly #entries = new Map<string, string>()
  /** The last record up to which the entries are known. */
  #known = 0

  protected override append(batch: Taken<'processed'>, receiver: Receiver): void {
    if (batch.first - 1 === this.#known) {
      this.#add(batch, receiver)
      return
    }
    this.#learn()
      .then(() => this.#add(batch, receiver))
      .catch((error: unknown) => receiver.failed(error))
  }

  async #learn(): Promise<void> {
    const { keys, calls } = this.store
    this.#entries.clear()
    for (const [key, id] of await readEntries(keys.turn(this.lease.turnId), calls)) {
      this.#entries.set(key, id)
    }
  }

  #add(batch: Taken<'processed'>, receiver: Receiver): void {
    const { turnId, epoch, creation } = this.lease
    const { state, processed, items, meta } = this.store.keys.turn(turnId)
    const newest = newestOfEach(batch)
    const before = batch.first - 1
    const heads = [`${before}@${creation}`, `${before + batch.count}@${creation}`]
    const isSeal = batch.seal === undefined ? '' : '1'
    const args = [`${newest.length}`, `${epoch}`, ...heads, isSeal, turnId]
    for (const { entry, key, seq, firstSeq } of newest) {
      const superseded = this.#entries.get(key) ?? ''
      const newKey = superseded === '' ? key : ''
      const data = JSON.stringify(entry.output)
      checkLength(data.length)
      args.push(`${seq}`, entry.eventId, `${entry.timestamp}`, data)
      args.push(superseded, newKey, `${firstSeq}`, '')
    }
    const keys = [state, processed, items, meta]
    this.store.batches.add(APPEND_PROCESSED, { keys, args, receiver })
  }

  protected override appended(batch: Taken<'processed'>): void {
    for (const { key, seq } of newestOfEach(batch)) {
      this.#entries.set(key, formatOffset(this.lease.epoch, seq))
    }
    this.#known = batch.first + batch.count - 1
  }

  override interrupted(): void {
    this.#known = -1
  }

  protected override readState(): Promise<unknown> {
    const { keys, calls } = this.store
    const { state, meta } = keys.turn(this.lease.turnId)
    return calls.run(READ_PROCESSED_STATE, [state, meta], [this.lease.creation])
  }
}

interface Newest {
  readonly entry: NewOutput
  readonly key: string
  readonly seq: number
  /** With which record of the batch the key first appears. */
  readonly firstSeq: number
}

/** What another record of the same batch supersedes need not be written. */
function newestOfEach({ entries, first, count }: Taken<'processed'>): Newest[] {
  const newest = new Map<string, Newest>()
  for (let at = 0; at < count; at++) {
    const entry = entries[at] as NewOutput
    const key = keyOf(entry.output)
    const seq = first + at
    const firstSeq = newest.get(key)?.firstSeq ?? seq
    // Behind the others: entries are written in the order of their ids.
    newest.delete(key)
    newest.set(key, { entry, key, seq, firstSeq })
  }
  return [...newest.values()]
}

export function openWriter<Name extends LogName>(
  lease: Lease,
  log: Name,
  store: WriterStore,
  options?: WriterOptions<Entries[Name]>,
): RedisWriter<Name> {
  const writer: RedisWriter<'events'> | RedisWriter<'processed'> =
    log === 'events'
      ? new EventsWriter(lease, log, store, options as WriterOptions<StreamEvent>)
      : new ProcessedWriter(lease, log, store, options as WriterOptions<NewOutput>)
  return writer as unknown as RedisWriter<Name>
}
