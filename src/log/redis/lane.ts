import { hasCode } from '../../protocol/errors.ts'
import { turnGone } from '../errors.ts'
import { type EpochStart, formatOffset, offsetOf } from '../offsets.ts'
import { MAX_APPEND_RECORDS } from '../records.ts'
import { freshAfter, type HeadState } from '../rules.ts'
import type { Lease, LogName, NewRecord } from '../turn-log.ts'
import type { Receiver } from './batches.ts'
import { parseState } from './replies.ts'

interface Append {
  readonly records: readonly NewRecord[]
  readonly seal: boolean
  readonly response: string | undefined
  resolve(offset: string): void
  reject(error: unknown): void
}

/** The end of a log. */
interface Seal {
  /** The last record, which the log may have already. */
  readonly data: string
  readonly response: string | undefined
}

/** Records that are next to each other and go to the store in one script. */
export interface Batch {
  readonly epoch: number
  readonly before: number
  readonly last: number
  readonly records: readonly NewRecord[]
  readonly seal: Seal | undefined
}

/** What writes the records of one log; a lane decides which, and when. */
export interface LaneWriter {
  /** Throws RECORD_INVALID, before anything is sent, for a record that cannot be kept. */
  write(batch: Batch, receiver: Receiver): void
  /** The batch was added, and this writer knows how the log ends. */
  written(batch: Batch): void
  /** The state of the log. */
  found(): Promise<unknown>
  /** What came before the next batch was not written by this writer, or nobody knows. */
  interrupted(): void
  epochs(): Promise<EpochStart[]>
  /** The log was sealed just now. */
  sealed(): Promise<void>
}

/** What is on its way: appends, and the records of all of them. */
interface Flight {
  readonly group: readonly Append[]
  readonly batch: Batch
}

const NOW = Promise.resolve()

/**
 * The appends of one lease to one log, one at a time and in order. What comes while one is under way goes
 * out together as the next one. So a connection that breaks can neither change the order nor leave a gap:
 * the batch is written again, and the store has it already or has not.
 *
 * An append that goes as expected makes one promise, that of its caller: with one for each step the steps
 * would cost more than the work.
 */
export class Lane {
  readonly #lease: Lease
  readonly #log: LogName
  readonly #writer: LaneWriter
  #waiting: Append[] = []
  #flight: Flight | undefined
  #running = false
  readonly #whenIdle: (() => void)[] = []
  readonly #next = () => this.#writeNext()
  readonly #receiver: Receiver = {
    added: () => this.#added(this.#landed()),
    refused: (state) => this.#goOn(this.#refused(this.#landed(), state)),
    failed: (error) => this.#goOn(this.#failed(this.#landed(), error)),
  }

  constructor(lease: Lease, log: LogName, writer: LaneWriter) {
    this.#lease = lease
    this.#log = log
    this.#writer = writer
  }

  append(records: readonly NewRecord[], seal: boolean, response?: string): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ records, seal, response, resolve, reject })
      if (this.#running) return
      this.#running = true
      // What is called in the same tick goes along with the first.
      void NOW.then(this.#next)
    })
  }

  get isIdle(): boolean {
    return !this.#running
  }

  interrupt(): void {
    this.#writer.interrupted()
  }

  async idle(): Promise<void> {
    if (!this.#running) return
    await new Promise<void>((resolve) => {
      this.#whenIdle.push(resolve)
    })
  }

  #writeNext(): void {
    const group = this.#take()
    const last = group.at(-1)
    if (last === undefined) {
      this.#running = false
      for (const resolve of this.#whenIdle.splice(0)) resolve()
      return
    }
    const records = group.length === 1 ? last.records : group.flatMap((append) => append.records)
    const batch = this.#batch(records, sealOf(last))
    this.#flight = { group, batch }
    try {
      this.#writer.write(batch, this.#receiver)
    } catch (error) {
      this.#receiver.failed(error)
    }
  }

  /** The appends that go out together: each begins where the one before it ends, and a seal is the last. */
  #take(): Append[] {
    const waiting = this.#waiting
    let taken = 0
    let count = 0
    let next: number | undefined
    for (const append of waiting) {
      const first = append.records[0]?.seq
      const follows = next === undefined || (first !== undefined && first === next)
      const fits = count + append.records.length <= MAX_APPEND_RECORDS
      if (taken > 0 && !(follows && fits)) break
      taken += 1
      count += append.records.length
      next = (append.records.at(-1)?.seq ?? 0) + 1
      if (append.seal || first === undefined) break
    }
    this.#waiting = waiting.slice(taken)
    return taken === waiting.length ? waiting : waiting.slice(0, taken)
  }

  #landed(): Flight {
    const flight = this.#flight
    if (flight === undefined) throw new Error('a write was answered twice')
    this.#flight = undefined
    return flight
  }

  #goOn(settled: Promise<void>): void {
    void settled.then(this.#next)
  }

  #added({ group, batch }: Flight): void {
    this.#writer.written(batch)
    if (batch.seal !== undefined) return this.#goOn(this.#sealed(group))
    this.#resolve(group)
    this.#writeNext()
  }

  async #sealed(group: readonly Append[]): Promise<void> {
    await this.#writer.sealed()
    this.#resolve(group)
  }

  #resolve(group: readonly Append[]): void {
    for (const append of group) append.resolve(this.#offset(append))
  }

  /** Together if they can be; otherwise what holds for one of them need not hold for the others. */
  async #refused({ group }: Flight, state: unknown): Promise<void> {
    this.#writer.interrupted()
    const [only] = group
    if (only === undefined || group.length > 1) return this.#writeEach(group)
    await this.#settle(only, async () => this.#rest(only, await this.#stateOf(state)))
  }

  async #failed({ group }: Flight, error: unknown): Promise<void> {
    this.#writer.interrupted()
    const [only] = group
    if (only !== undefined && group.length === 1) return this.#reject(only, error)
    // The one whose record it is will meet it again, and be rejected with it.
    if (hasCode(error, 'RECORD_INVALID')) return this.#writeEach(group)
    for (const append of group) append.reject(error)
  }

  async #writeEach(group: readonly Append[]): Promise<void> {
    for (const append of group) await this.#settle(append, () => this.#write(append))
  }

  async #settle(append: Append, work: () => Promise<string>): Promise<void> {
    try {
      append.resolve(await work())
    } catch (error) {
      this.#writer.interrupted()
      await this.#reject(append, error)
    }
  }

  /** A log that takes nothing is the better reason than a record that cannot be kept. */
  async #reject(append: Append, reason: unknown): Promise<void> {
    try {
      if (hasCode(reason, 'RECORD_INVALID')) {
        this.#fresh(await this.#stateOf(undefined), append)
      }
      append.reject(reason)
    } catch (error) {
      append.reject(error)
    }
  }

  async #write(append: Append): Promise<string> {
    const found = await this.#send(append.records, sealOf(append))
    return found === undefined ? this.#offset(append) : this.#rest(append, found)
  }

  /** Adds what the log does not have yet, by the rules of `rules.ts`. */
  async #rest(append: Append, first: HeadState): Promise<string> {
    const { records } = append
    let found: HeadState | undefined = first
    let head = first.head
    while (found !== undefined) {
      const fresh = this.#fresh(found, append)
      head = found.head
      if (fresh.length === 0 && (found.sealed || !append.seal)) break
      found = await this.#send(fresh, sealOf(append), head)
    }
    return offsetOf(await this.#writer.epochs(), records.at(-1)?.seq ?? head)
  }

  #fresh(found: HeadState, { records, seal }: Append): readonly NewRecord[] {
    return freshAfter(found, { lease: this.#lease, log: this.#log, records, seal })
  }

  /** Resolves with the state that was found if it is not what these records need. */
  async #send(
    records: readonly NewRecord[],
    seal: Seal | undefined,
    head = -1,
  ): Promise<HeadState | undefined> {
    const batch = this.#batch(records, seal, head)
    const refusal = await new Promise<{ state: unknown } | undefined>((resolve, reject) => {
      const added = () => resolve(undefined)
      const refused = (state: unknown) => resolve({ state })
      this.#writer.write(batch, { added, refused, failed: reject })
    })
    if (refusal === undefined) {
      this.#writer.written(batch)
      if (seal !== undefined) await this.#writer.sealed()
      return undefined
    }
    this.#writer.interrupted()
    return this.#stateOf(refusal.state)
  }

  #batch(records: readonly NewRecord[], seal: Seal | undefined, head = -1): Batch {
    const before = (records[0]?.seq ?? head + 1) - 1
    const last = records.at(-1)?.seq ?? before
    return { epoch: this.#lease.epoch, before, last, records, seal }
  }

  /** Of an append that was added as it is. */
  #offset({ records }: Append): string {
    return formatOffset(this.#lease.epoch, records.at(-1)?.seq ?? 0)
  }

  /** The state that made the store refuse a batch, which is looked up unless the refusal said it. */
  async #stateOf(refusal: unknown): Promise<HeadState> {
    const state = typeof refusal === 'string' ? refusal : await this.#writer.found()
    if (typeof state === 'string' && state !== '') return parseState(state)
    throw turnGone(this.#lease.turnId)
  }
}

function sealOf({ records, seal, response }: Append): Seal | undefined {
  return seal ? { data: records.at(-1)?.data ?? '', response } : undefined
}
