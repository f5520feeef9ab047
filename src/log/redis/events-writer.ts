import { EventLineEncoder } from '../event-lines.ts'
import { type EpochStart, formatOffset } from '../offsets.ts'
import { MAX_APPEND_RECORDS, outcomeOf } from '../records.ts'
import type { NewRecord } from '../turn-log.ts'
import type { Batches, Receiver } from './batches.ts'
import type { Calls } from './calls.ts'
import type { RunKeys } from './keys.ts'
import type { Batch, LaneWriter } from './lane.ts'
import { LiveLines } from './live-lines.ts'
import { parseEpochs } from './replies.ts'
import { APPEND_EVENTS, FINISH_CHUNK } from './scripts/append.ts'
import { READ_EVENTS_STATE } from './scripts/events-state.ts'

export interface WriterContext {
  /** Of the turn: nothing is written to another of the same id. */
  readonly creation: string
  readonly calls: Calls
  readonly batches: Batches
  /** Both logs may be sealed now. */
  readonly sealed: () => Promise<void>
}

/** A chunk is full with each record whose `seq` is a multiple of this. */
const CHUNK_RECORDS = MAX_APPEND_RECORDS

/** Writes log A: lines, and chunks of them. */
export class EventsWriter implements LaneWriter {
  readonly #keys: RunKeys
  readonly #stream: readonly [events: string]
  readonly #context: WriterContext
  readonly #encoder = new EventLineEncoder()
  /**
   * The newest record of an open log, if this writer added it: only then may the next one be added by its id
   * alone. Another path compares the creation of the turn, which tells it from a later turn with the same id.
   */
  #written: number | undefined
  readonly #live = new LiveLines()
  /** What is live of a batch once it is written. */
  #added = ''

  constructor(keys: RunKeys, context: WriterContext) {
    this.#keys = keys
    this.#stream = [keys.events]
    this.#context = context
  }

  write(batch: Batch, receiver: Receiver): void {
    const { epoch, before, last, records, seal } = batch
    // Another writer's lines may have come in between, with templates of their own.
    const isNext = before === this.#written
    if (!isNext) this.#forget()
    const full = fullAt(batch)
    const lines = this.#lines(records, full ?? last)
    if (isNext && records.length === 1 && full === undefined && seal === undefined) {
      this.#added = lines
      const args = [formatOffset(epoch, last), lines]
      this.#context.batches.add(APPEND_EVENTS, { keys: this.#stream, args, receiver })
    } else {
      const outcome = seal === undefined ? '' : JSON.stringify(outcomeOf(seal.data))
      this.#finish(batch, lines, outcome).then(
        (reply) => (reply === 1 ? receiver.added() : receiver.refused(reply)),
        (error: unknown) => receiver.failed(error),
      )
    }
  }

  #finish(batch: Batch, lines: string, outcome: string): Promise<unknown> {
    const { epoch, before, last, records, seal } = batch
    const { state, events, chunks, meta, response } = this.#keys
    const full = fullAt(batch)
    const rest = full === undefined ? '' : this.#lines(records.slice(full - before), last)
    this.#added = full === undefined ? lines : rest
    if (before % CHUNK_RECORDS === 0) this.#live.clear()
    const isMerge = full !== undefined || outcome !== ''
    const merged = isMerge ? this.#live.followedBy(lines) : undefined
    const { calls, creation } = this.#context
    const ends = [full ?? '', rest, outcome, merged === undefined ? '' : 1]
    const args = [epoch, before, last, merged ?? lines, ...ends, creation]
    if (seal?.response !== undefined) args.push(seal.response)
    return calls.run(FINISH_CHUNK, [state, events, chunks, meta, response], args)
  }

  /** The lines up to a record. A chunk stands on its own, so the templates of the one before end with it. */
  #lines(records: readonly NewRecord[], last: number): string {
    let lines = ''
    for (const { seq, data } of records) {
      if (seq > last) break
      if (seq % CHUNK_RECORDS === 1) this.#encoder.startChunk()
      const line = this.#encoder.encode(data)
      lines = lines === '' ? line : `${lines}\n${line}`
    }
    return lines
  }

  written(batch: Batch): void {
    this.#written = batch.seal === undefined ? batch.last : undefined
    // Nothing is live behind a record that fills a chunk, whoever wrote it.
    if (batch.before % CHUNK_RECORDS === 0 || fullAt(batch) !== undefined) this.#live.clear()
    this.#live.add(this.#added)
  }

  interrupted(): void {
    this.#written = undefined
    this.#forget()
  }

  #forget(): void {
    this.#encoder.startChunk()
    this.#live.forget()
  }

  found(): Promise<unknown> {
    const { state, events, meta } = this.#keys
    const { calls, creation } = this.#context
    return calls.run(READ_EVENTS_STATE, [state, events, meta], [creation])
  }

  epochs(): Promise<EpochStart[]> {
    return readEpochs(this.#context.calls, this.#keys.meta)
  }

  sealed(): Promise<void> {
    return this.#context.sealed()
  }
}

/** The last record of a batch that fills a chunk. */
function fullAt({ before, last }: Batch): number | undefined {
  const full = last - (last % CHUNK_RECORDS)
  return full > before ? full : undefined
}

export async function readEpochs(calls: Calls, meta: string): Promise<EpochStart[]> {
  return parseEpochs(await calls.command(meta, 'HGET', meta, 'epochs'))
}
