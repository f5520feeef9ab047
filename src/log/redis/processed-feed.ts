import { type EpochStart, offsetOf, START } from '../offsets.ts'
import { ProcessedView, StoredOutput } from '../records.ts'
import type { HeadState } from '../rules.ts'
import type { Block } from '../tail.ts'
import type { OutputRecord, TurnSnapshot } from '../turn-log.ts'
import type { Calls } from './calls.ts'
import { Feed, type LogView, type Looked } from './feed.ts'
import type { TurnKeys } from './keys.ts'
import {
  corrupt,
  type Entry,
  list,
  parseEntries,
  parseEpochs,
  parseFields,
  parseState,
  text,
} from './replies.ts'
import { READ_PROCESSED } from './scripts/read.ts'

interface Reading {
  readonly creation: string
  readonly state: HeadState
  readonly epochs: readonly EpochStart[]
  readonly entries: readonly Entry[]
  readonly items: Items | undefined
}

/** Log B: the newest record of every key. */
export class ProcessedFeed extends Feed<OutputRecord> {
  readonly #calls: Calls
  readonly #keys: TurnKeys
  readonly #processed = new ProcessedView()
  readonly #known = new Set<string>()
  protected override view: LogView | undefined

  constructor(turnId: string, keys: TurnKeys, calls: Calls, onError: (error: unknown) => void) {
    super(turnId, keys.processed, onError)
    this.#calls = calls
    this.#keys = keys
  }

  protected override async load(): Promise<void> {
    const view = this.view
    const after = view === undefined ? START : offsetOf(view.epochs, view.head)
    let reading = await this.#fetch(after, view === undefined)
    let records = recordsOf(reading)
    const fresh = records.filter(({ key }) => !this.#known.has(key))
    // Only the items tell in which order several keys appeared that are new here.
    if (fresh.length > 1 && reading.items === undefined) {
      reading = await this.#fetch(after, true)
      records = recordsOf(reading)
    }
    this.#take(records, reading.items)
    const { state, epochs } = reading
    if (state.head !== view?.head || state.sealed || epochs.length !== view.epochs.length) {
      this.view = { head: state.head, sealed: state.sealed, epochs }
    }
  }

  async #fetch(after: string, withItems: boolean): Promise<Reading> {
    const { state, processed, items, meta } = this.#keys
    const args = [after, withItems ? 1 : '']
    const reply = list(await this.#calls.run(READ_PROCESSED, [state, processed, items, meta], args))
    return this.seen(parseReading(reply))
  }

  #take(records: readonly KeyedRecord[], items: Items | undefined): void {
    const fresh = records.filter(({ key }) => !this.#known.has(key))
    if (items !== undefined) fresh.sort((a, b) => items.first(a.key) - items.first(b.key))
    // New keys get their places first, then everything is set in the order in which it was written.
    for (const each of [...fresh, ...records]) {
      this.#known.add(each.key)
      this.#processed.set(each.key, each.seq, each.record)
    }
  }

  protected override read(after: number): Block<OutputRecord> {
    const { head, sealed, epochs } = this.known()
    const records = this.#processed.after(after)
    return { records, head, cursor: offsetOf(epochs, head), last: sealed }
  }

  /** The state as the store has it now. */
  async snapshot(): Promise<TurnSnapshot> {
    await this.advance()
    const { head, sealed, epochs } = this.known()
    return { records: this.#processed.after(0), offset: offsetOf(epochs, head), sealed }
  }
}

interface KeyedRecord {
  readonly key: string
  readonly seq: number
  readonly record: OutputRecord
}

/** The id of the entry of every key, for who goes on writing; none of a log that takes nothing more. */
export async function readEntries(keys: TurnKeys, calls: Calls): Promise<Map<string, string>> {
  const { state, processed, items, meta } = keys
  const reply = list(await calls.run(READ_PROCESSED, [state, processed, items, meta], [START, '']))
  const reading = parseReading(reply)
  if (typeof reading === 'string') return new Map()
  return new Map(recordsOf(reading).map(({ key, record }) => [key, record.offset]))
}

/** The first appearance of each key, and its entry if the payload does not tell the key. */
class Items {
  readonly #first = new Map<string, number>()
  readonly #keys = new Map<string, string>()

  constructor(fields: Readonly<Record<string, string>>) {
    for (const [key, value] of Object.entries(fields)) {
      const [first = '', id = ''] = value.split(' ')
      this.#first.set(key, Number(first))
      if (id !== '') this.#keys.set(id, key)
    }
  }

  first(key: string): number {
    return this.#first.get(key) ?? 0
  }

  keyOf(id: string): string | undefined {
    return this.#keys.get(id)
  }
}

function parseReading(reply: readonly unknown[]): Looked<Reading> {
  if (reply.length === 0) return 'gone'
  if (reply.length === 1) return 'expired'
  const [state, epochs, entries, items, , creation] = reply
  const flat = list(items)
  return {
    creation: text(creation),
    state: parseState(text(state)),
    epochs: parseEpochs(epochs),
    entries: parseEntries(entries),
    items: flat.length === 0 ? undefined : new Items(parseFields(flat)),
  }
}

function recordsOf({ entries, items }: Reading): KeyedRecord[] {
  return entries.map(({ id, seq, fields }) => {
    const { payload: data, eventId, timestamp } = fields
    if (data === undefined || eventId === undefined || timestamp === undefined) {
      throw corrupt(`entry ${id} of processed is not complete`)
    }
    const given = items?.keyOf(id)
    const envelope = { data, eventId, timestamp: Number(timestamp) }
    const record = StoredOutput.read(
      id,
      given === undefined ? envelope : { ...envelope, key: given },
    )
    return { key: record.key, seq, record }
  })
}
