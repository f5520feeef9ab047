import type * as log from '@turnstream/core/internal/log/turn-log'
import { hasCode } from '@turnstream/core/internal/protocol/errors'
import { EventEncoder } from '@turnstream/core/internal/protocol/event-codec'
import { OutputEncoder } from '@turnstream/core/internal/protocol/output-codec'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { formatOffset } from '../offsets.ts'
import { CHUNK_RECORDS, checkLength, type NewestOutput, newestOutputs } from '../records.ts'
import { corrupt, countKnown, turnGone } from '../rules.ts'
import { StoreWriter, type Taken } from '../writer.ts'
import type { RedisClient, Script } from './client.ts'
import type { RedisKeys } from './keys.ts'
import type { RedisStore } from './open.ts'
import { list, pairs, parseState } from './replies.ts'
import { APPEND_EVENTS, APPEND_PROCESSED, FINISH_CHUNK, READ_EVENTS_STATE } from './scripts/log.ts'
import { readEntries } from './shared-readers.ts'

/** Maximum size of one call: a running script blocks the server. */
const MAX_APPENDS = 64
const MAX_CHARS = 256 * 1024

/** Callbacks for the result of an append; exactly one is called, once. */
interface Appender {
  added(): void
  /** With the state found, as text, or undefined. */
  refused(state: unknown): void
  rejected(error: unknown): void
}

interface Append {
  readonly appender: Appender
  readonly keys: readonly string[]
  readonly args: readonly string[]
}

/** Appends for one call of the same script. */
interface AppendBatch {
  readonly appends: Append[]
  chars: number
}

/**
 * Sends the appends of different turns in the same event loop iteration as one call: calling a script costs more than
 * running it. Each is answered separately. A Cluster takes one per call, because their slots differ.
 */
export class AppendQueue {
  readonly #client: RedisClient
  readonly #maxAppends: number
  readonly #batches = new Map<Script, AppendBatch>()

  constructor(client: RedisClient, { spansSlots }: { readonly spansSlots: boolean }) {
    this.#client = client
    this.#maxAppends = spansSlots ? MAX_APPENDS : 1
  }

  /** For a script that returns the appends it refused: the position of each, from 1, and the state it found. */
  add(script: Script, appender: Appender, keys: readonly string[], args: readonly string[]): void {
    const batch = this.#batches.get(script) ?? this.#begin(script)
    batch.appends.push({ appender, keys, args })
    for (const arg of args) batch.chars += arg.length
    if (batch.appends.length < this.#maxAppends && batch.chars < MAX_CHARS) return
    this.#end(script, batch)
  }

  #begin(script: Script): AppendBatch {
    const batch: AppendBatch = { appends: [], chars: 0 }
    this.#batches.set(script, batch)
    setImmediate(() => {
      if (this.#batches.get(script) === batch) this.#end(script, batch)
    })
    return batch
  }

  #end(script: Script, batch: AppendBatch): void {
    this.#batches.delete(script)
    void this.#send(script, batch.appends)
  }

  async #send(script: Script, appends: readonly Append[]): Promise<void> {
    const keys: string[] = []
    const args: string[] = []
    for (const append of appends) {
      keys.push(...append.keys)
      args.push(...append.args)
    }
    const reject = (error: unknown) => {
      for (const { appender } of appends) appender.rejected(error)
    }
    let reply: unknown
    try {
      reply = await this.#client.run(script, keys, args)
    } catch (error) {
      const isDamage = hasCode(error, 'STORE_FAILED') || hasCode(error, 'STORE_CORRUPT')
      if (!isDamage || appends.length === 1) return reject(error)
      // A turn with damaged keys must not fail the others; records already added are not added again.
      for (const append of appends) void this.#send(script, [append])
      return
    }
    let refusals: ReadonlyMap<number, unknown>
    try {
      refusals = parseRefusals(reply)
    } catch (error) {
      return reject(error)
    }
    for (const [index, { appender }] of appends.entries()) {
      if (refusals.has(index + 1)) appender.refused(refusals.get(index + 1))
      else appender.added()
    }
  }
}

const NONE: ReadonlyMap<number, unknown> = new Map()

/** Nearly always empty. */
function parseRefusals(reply: unknown): ReadonlyMap<number, unknown> {
  if (list(reply).length === 0) return NONE
  return new Map(
    pairs(reply).map(([place, state]) => {
      if (typeof place !== 'number') throw corrupt('a refusal has no position')
      return [place, state]
    }),
  )
}

export interface WriterStore
  extends Pick<RedisStore, 'client' | 'appends' | 'clock' | 'onError' | 'checkOpen' | 'writers'> {
  readonly keys: RedisKeys
  /** Called after a log of this turn was sealed. */
  readonly settle: (turnId: string) => Promise<void>
}

/** Sends the records of a log in order, a batch at a time. It may be sent again: the store has it or not. */
abstract class RedisWriter<Name extends log.LogName> extends StoreWriter<Name> implements Appender {
  protected readonly store: WriterStore
  #batch: Taken<Name> | undefined
  #isSending = false
  readonly #sendNext = () => {
    const batch = this.drain(CHUNK_RECORDS)
    this.#isSending = batch.count > 0
    if (this.#isSending) this.#append(batch)
  }

  constructor(
    lease: log.Lease,
    log: Name,
    store: WriterStore,
    options: log.WriterOptions<log.NewRecord<Name>> | undefined,
  ) {
    super(lease, log, store.clock, options)
    this.store = store
    store.writers.add(this)
  }

  /** Appends a batch; exactly one method of `Appender` is called, once. */
  protected abstract append(batch: Taken<Name>): void
  /** The batch was added, and this writer knows the end of the log. */
  protected abstract appended(batch: Taken<Name>): void
  /** Earlier records were not written by this writer, or that is unknown. */
  abstract interrupted(): void

  protected override wake(): void {
    if (this.#isSending) return
    try {
      this.store.checkOpen()
    } catch (error) {
      return this.failed(error)
    }
    this.#isSending = true
    // Records written in the same tick are sent with the first.
    queueMicrotask(this.#sendNext)
  }

  protected override ended(): void {
    this.store.writers.delete(this)
  }

  #append(batch: Taken<Name>): void {
    this.#batch = batch
    try {
      this.append(batch)
    } catch (error) {
      this.rejected(error)
    }
  }

  added(): void {
    const batch = this.#batch as Taken<Name>
    this.appended(batch)
    if (batch.seal === undefined) this.#finish()
    else void this.#settle()
  }

  /** Failures are corrected by the next caller: see `Turns.isOrphan`, `Threads.openTurn`. */
  async #settle(): Promise<void> {
    await this.store.settle(this.lease.turnId).catch(this.store.onError)
    this.#finish()
  }

  #finish(count?: number): void {
    this.stored(count)
    this.#sendNext()
  }

  rejected(error: unknown): void {
    this.interrupted()
    this.#isSending = false
    this.failed(error)
  }

  /** The log is not in the expected state. By the rules of `rules.ts`, it may already have part of the batch. */
  refused(state: unknown): void {
    const { lease, log } = this
    const batch = this.#batch as Taken<Name>
    const { first, count, seal } = batch
    this.interrupted()
    try {
      if (typeof state !== 'string' || state === '') throw turnGone(lease.turnId)
      const found = parseState(state)
      const known = countKnown(found, lease, log, batch)
      // The last record may be stored, but the log not yet sealed.
      const isUnsealed = seal !== undefined && !found.sealed && known === count
      if (isUnsealed) this.#append({ entries: [], first: first + count, count: 0, seal })
      else this.#finish(known)
    } catch (error) {
      this.rejected(error)
    }
  }
}

/** Writes log A: lines, and chunks of them. */
class EventsWriter extends RedisWriter<'events'> {
  readonly #keys = this.store.keys.run(this.lease.runId)
  readonly #encoder = new EventEncoder()
  /** The newest record, if this writer added it: only then may the next one be added by its id alone. */
  #written: number | undefined
  readonly #live = new LiveLines()
  /** Live lines of a batch after it is written. */
  #added = ''

  protected override append(batch: Taken<'events'>): void {
    const { first, count, seal } = batch
    const before = first - 1
    const last = before + count
    // Another writer's lines may have come in between, with their own templates.
    const isNext = before === this.#written
    if (!isNext) this.#forget()
    const full = fullAt(batch)
    const lines = this.#encode(batch, first, full ?? last)
    if (isNext && count === 1 && full === undefined && seal === undefined) {
      this.#added = lines
      const id = formatOffset(this.lease.epoch, last)
      this.store.appends.add(APPEND_EVENTS, this, [this.#keys.events], [id, lines])
      return
    }
    const rest = full === undefined ? '' : this.#encode(batch, full + 1, last)
    this.#added = full === undefined ? lines : rest
    if (before % CHUNK_RECORDS === 0) this.#live.clear()
    const outcome = seal === undefined ? '' : JSON.stringify(seal.outcome)
    const isMerge = full !== undefined || outcome !== ''
    const merged = isMerge ? this.#live.followedBy(lines) : undefined
    const { epoch, creation, contentMs = '' } = this.lease
    const ends = [full ?? '', rest, outcome, merged === undefined ? '' : 1]
    const args = [epoch, before, last, merged ?? lines, ...ends, creation, contentMs]
    if (seal?.response !== undefined) args.push(seal.response)
    const { state, events, chunks, meta, response } = this.#keys
    this.store.client.run(FINISH_CHUNK, [state, events, chunks, meta, response], args).then(
      (reply) => (reply === 1 ? this.added() : this.refused(reply)),
      (error: unknown) => this.rejected(error),
    )
  }

  /** The lines of a range of records. Chunks are self-contained, so templates end with their chunk. */
  #encode({ entries, first }: Taken<'events'>, from: number, to: number): string {
    let lines = ''
    for (let seq = from; seq <= to; seq++) {
      if (seq % CHUNK_RECORDS === 1) this.#encoder.startChunk()
      const line = this.#encoder.encode(entries[seq - first] as StreamEvent)
      checkLength(line.length)
      lines = lines === '' ? line : `${lines}\n${line}`
    }
    return lines
  }

  protected override appended(batch: Taken<'events'>): void {
    const { first, count, seal } = batch
    this.#written = seal === undefined ? first + count - 1 : undefined
    // No live lines are left after a record that fills a chunk.
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

  /** An append by id alone is refused without a state. */
  override refused(found: unknown): void {
    if (typeof found === 'string') return super.refused(found)
    const { state, events, meta } = this.#keys
    const { creation } = this.lease
    this.store.client.run(READ_EVENTS_STATE, [state, events, meta], [creation]).then(
      (stored) => super.refused(stored),
      (error: unknown) => this.rejected(error),
    )
  }
}

function fullAt({ first, count }: Taken<'events'>): number | undefined {
  const last = first + count - 1
  const full = last - (last % CHUNK_RECORDS)
  return full >= first ? full : undefined
}

/** Maximum text held per turn. Larger chunks are assembled by the store. */
const MAX_LIVE_CHARS = 16 * 1024

/** Texts joined at a time. Until then each may retain the event it was sliced from. */
const MAX_LIVE_PARTS = 32

/** Live lines, while one writer knows them all: a chunk can then be written without reading each by a script. */
export class LiveLines {
  #parts: string[] | undefined
  #chars = 0

  /** Empty: live lines are in a chunk now. */
  clear(): void {
    this.#parts = []
    this.#chars = 0
  }

  /** Other lines may exist. */
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

/** Writes log B. Remembers the entry of every key, so that the script need not search for superseded ones. */
class ProcessedWriter extends RedisWriter<'processed'> {
  readonly #keys = this.store.keys.turn(this.lease.turnId)
  readonly #encoder = new OutputEncoder()
  #entries = new Map<string, string>()
  /** The last record up to which the entries are known. */
  #known = 0
  #newest: readonly NewestOutput[] = []

  protected override append(batch: Taken<'processed'>): void {
    if (batch.first - 1 === this.#known) {
      this.#add(batch)
      return
    }
    readEntries(this.#keys, this.store.client)
      .then((entries) => {
        this.#entries = entries
        this.#add(batch)
      })
      .catch((error: unknown) => this.rejected(error))
  }

  #add(batch: Taken<'processed'>): void {
    const { turnId, epoch, creation, contentMs = 'keep' } = this.lease
    const { state, processed, items } = this.#keys
    const before = batch.first - 1
    const last = before + batch.count
    const seal = batch.seal === undefined ? '' : String(contentMs)
    // Entries are written in id order.
    const newest = newestOutputs(batch.entries, batch.first, 0, batch.count)
    this.#newest = newest.toSorted((one, other) => one.seq - other.seq)
    const args = [`${this.#newest.length}`, `${epoch}`, `${before}@${creation}`]
    args.push(`${last}@${creation}`, seal, turnId)
    for (const { entry, key, seq, firstSeq } of this.#newest) {
      const superseded = this.#entries.get(key) ?? ''
      const newKey = superseded === '' ? key : ''
      const data = this.#encoder.encode(entry.output)
      checkLength(data.length)
      args.push(`${seq}`, entry.eventId, `${entry.timestamp}`, data)
      args.push(superseded, newKey, `${firstSeq}`)
    }
    this.store.appends.add(APPEND_PROCESSED, this, [state, processed, items], args)
  }

  protected override appended({ first, count }: Taken<'processed'>): void {
    for (const { key, seq } of this.#newest) {
      this.#entries.set(key, formatOffset(this.lease.epoch, seq))
    }
    this.#known = first + count - 1
  }

  override interrupted(): void {
    this.#known = -1
  }
}

export function openWriter<Name extends log.LogName>(
  lease: log.Lease,
  log: Name,
  store: WriterStore,
  options?: log.WriterOptions<log.NewRecord<Name>>,
): RedisWriter<Name> {
  const writer: RedisWriter<'events'> | RedisWriter<'processed'> =
    log === 'events'
      ? new EventsWriter(lease, log, store, options as log.WriterOptions<StreamEvent>)
      : new ProcessedWriter(lease, log, store, options as log.WriterOptions<log.NewOutput>)
  return writer as unknown as RedisWriter<Name>
}
