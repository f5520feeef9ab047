import type { Clock } from '../../async/clock.ts'
import { eventIdsOf } from '../../protocol/ids.ts'
import type { EpochStart } from '../offsets.ts'
import { keyOfOutput } from '../records.ts'
import type { NewRecord } from '../turn-log.ts'
import type { Receiver } from './batches.ts'
import { readEpochs, type WriterContext } from './events-writer.ts'
import type { TurnKeys } from './keys.ts'
import type { Batch, LaneWriter } from './lane.ts'
import { readEntries } from './processed-feed.ts'
import { APPEND_PROCESSED } from './scripts/append.ts'
import { READ_PROCESSED_STATE } from './scripts/events-state.ts'

/**
 * Writes log B. It remembers the entry of every key, so that the script need not look for what a new one
 * supersedes; where it did not write the log itself, it reads it once.
 */
export class ProcessedWriter implements LaneWriter {
  readonly #turnId: string
  readonly #keys: TurnKeys
  readonly #context: WriterContext
  readonly #clock: Clock
  /** The id of the entry that each key has. */
  readonly #entries = new Map<string, string>()
  /** The last record up to which the entries are known. */
  #known = 0
  #ids: { next: number; make: () => string } | undefined

  constructor(turnId: string, keys: TurnKeys, context: WriterContext & { readonly clock: Clock }) {
    this.#turnId = turnId
    this.#keys = keys
    this.#context = context
    this.#clock = context.clock
  }

  write(batch: Batch, receiver: Receiver): void {
    if (batch.before === this.#known) {
      this.#add(batch, receiver)
      return
    }
    this.#learn()
      .then(() => this.#add(batch, receiver))
      .catch((error: unknown) => receiver.failed(error))
  }

  async #learn(): Promise<void> {
    this.#entries.clear()
    for (const [key, id] of await readEntries(this.#keys, this.#context.calls)) {
      this.#entries.set(key, id)
    }
  }

  #add({ epoch, before, last, records, seal }: Batch, receiver: Receiver): void {
    const { state, processed, items, meta } = this.#keys
    const newest = [...newestOfEach(records)]
    const { batches, creation } = this.#context
    const heads = [`${newest.length}`, `${epoch}`, `${before}@${creation}`, `${last}@${creation}`]
    const args = [...heads, seal === undefined ? '' : '1', this.#turnId]
    const now = this.#clock.now()
    for (const { record, key, first } of newest) {
      const { seq, data, eventId = this.#eventId(seq), timestamp = now } = record
      const superseded = this.#entries.get(key) ?? ''
      const isUnsaid = record.key !== undefined && !saysKey(data, key)
      const item = isUnsaid || superseded === '' ? key : ''
      const unsaid = isUnsaid ? '1' : ''
      args.push(`${seq}`, eventId, `${timestamp}`, data, superseded, item, `${first}`, unsaid)
    }
    const keys = [state, processed, items, meta]
    batches.add(APPEND_PROCESSED, { keys, args, receiver })
  }

  /** As `outputEnvelope` makes it, without beginning anew for each record. */
  #eventId(seq: number): string {
    const ids =
      this.#ids?.next === seq
        ? this.#ids
        : { next: seq, make: eventIdsOf(`${this.#turnId}/processed`, seq - 1) }
    ids.next += 1
    this.#ids = ids
    return ids.make()
  }

  written({ epoch, last, records }: Batch): void {
    for (const { key, record } of newestOfEach(records))
      this.#entries.set(key, `${epoch}-${record.seq}`)
    this.#known = last
  }

  interrupted(): void {
    this.#known = -1
  }

  found(): Promise<unknown> {
    const { state, meta } = this.#keys
    const { calls, creation } = this.#context
    return calls.run(READ_PROCESSED_STATE, [state, meta], [creation])
  }

  epochs(): Promise<EpochStart[]> {
    return readEpochs(this.#context.calls, this.#keys.meta)
  }

  sealed(): Promise<void> {
    return this.#context.sealed()
  }
}

interface Newest {
  readonly record: NewRecord
  readonly key: string
  /** With which record of the batch the key first appears. */
  readonly first: number
}

/** What another record of the same batch supersedes need not be written. */
function newestOfEach(records: readonly NewRecord[]): Iterable<Newest> {
  const [only] = records
  if (only !== undefined && records.length === 1) {
    return [{ record: only, key: only.key ?? keyOfOutput(only.data), first: only.seq }]
  }
  const newest = new Map<string, Newest>()
  for (const record of records) {
    const key = record.key ?? keyOfOutput(record.data)
    const first = newest.get(key)?.first ?? record.seq
    // Behind the others: entries are written in the order of their ids.
    newest.delete(key)
    newest.set(key, { record, key, first })
  }
  return newest.values()
}

function saysKey(data: string, key: string): boolean {
  try {
    return keyOfOutput(data) === key
  } catch {
    // A caller who gives the key may store what has none.
    return false
  }
}
