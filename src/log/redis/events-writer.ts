import { EventLineEncoder } from '../event-lines.ts'
import { type EpochStart, formatOffset } from '../offsets.ts'
import { MAX_APPEND_RECORDS, outcomeOf } from '../records.ts'
import type { NewRecord } from '../turn-log.ts'
import type { Batches } from './batches.ts'
import type { Calls } from './calls.ts'
import type { RunKeys } from './keys.ts'
import type { Batch, LaneWriter } from './lane.ts'
import { parseEpochs } from './replies.ts'
import { APPEND_EVENTS, FINISH_CHUNK } from './scripts/append.ts'
import { READ_EVENTS_STATE } from './scripts/events-state.ts'

export interface WriterContext {
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
  readonly #context: WriterContext
  readonly #encoder = new EventLineEncoder()
  /** The last record of which it is certain that this writer wrote it. */
  #written = 0

  constructor(keys: RunKeys, context: WriterContext) {
    this.#keys = keys
    this.#context = context
  }

  write({ epoch, before, last, records, seal }: Batch): Promise<unknown> {
    // Another writer's lines may have come in between, with templates of their own.
    const isNext = before === this.#written
    if (!isNext) this.#encoder.startChunk()
    const { calls, batches } = this.#context
    const { state, events, chunks, meta } = this.#keys
    const full = last - (last % CHUNK_RECORDS)
    const isFull = full > before
    const lines = this.#lines(records, isFull ? full : last)
    if (isNext && records.length === 1 && !isFull && seal === undefined) {
      return batches.run(APPEND_EVENTS, [state, events], [formatOffset(epoch, last), lines])
    }
    const rest = isFull ? this.#lines(records.slice(full - before), last) : ''
    const outcome = seal === undefined ? '' : JSON.stringify(outcomeOf(seal.data))
    const ends = [isFull ? full : '', rest, outcome]
    const args = [epoch, before, last, lines, ...ends]
    return calls.run(FINISH_CHUNK, [state, events, chunks, meta], args)
  }

  /** The lines up to a record. A chunk stands on its own, so the templates of the one before end with it. */
  #lines(records: readonly NewRecord[], last: number): string {
    const lines: string[] = []
    for (const { seq, data } of records) {
      if (seq > last) break
      if (seq % CHUNK_RECORDS === 1) this.#encoder.startChunk()
      lines.push(this.#encoder.encode(data))
    }
    return lines.join('\n')
  }

  written({ last }: Batch): void {
    this.#written = last
  }

  interrupted(): void {
    this.#written = 0
    this.#encoder.startChunk()
  }

  found(): Promise<unknown> {
    const { state, events } = this.#keys
    return this.#context.calls.run(READ_EVENTS_STATE, [state, events], [])
  }

  epochs(): Promise<EpochStart[]> {
    return readEpochs(this.#context.calls, this.#keys.meta)
  }

  sealed(): Promise<void> {
    return this.#context.sealed()
  }
}

export async function readEpochs(calls: Calls, meta: string): Promise<EpochStart[]> {
  return parseEpochs(await calls.command(meta, 'HGET', meta, 'epochs'))
}
