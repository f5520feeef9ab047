import { hasCode, TurnstreamError } from '../../protocol/errors.ts'
import { type EpochStart, formatOffset, offsetOf } from '../offsets.ts'
import { MAX_APPEND_RECORDS } from '../records.ts'
import { freshAfter, type HeadState } from '../rules.ts'
import type { Lease, LogName, NewRecord } from '../turn-log.ts'
import { parseState } from './replies.ts'

interface Append {
  readonly records: readonly NewRecord[]
  readonly seal: boolean
  resolve(offset: string): void
  reject(error: unknown): void
}

/** Records that are next to each other and go to the store in one script. */
export interface Batch {
  readonly epoch: number
  readonly before: number
  readonly last: number
  readonly records: readonly NewRecord[]
  /** The record that ends the log, if this batch does; the log may have it already. */
  readonly seal: NewRecord | undefined
}

/** What writes the records of one log; a lane decides which, and when. */
export interface LaneWriter {
  /**
   * Resolves with 1 when the batch was added, otherwise with the state that was found. RECORD_INVALID,
   * before anything is sent, for a record that cannot be kept.
   */
  write(batch: Batch): Promise<unknown>
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

/**
 * The appends of one lease to one log, one at a time and in order. What comes while one is under way goes
 * out together as the next one. So a connection that breaks can neither change the order nor leave a gap:
 * the batch is written again, and the store has it already or has not.
 */
export class Lane {
  readonly #lease: Lease
  readonly #log: LogName
  readonly #writer: LaneWriter
  readonly #waiting: Append[] = []
  #running = false
  #idle: Promise<void> = Promise.resolve()

  constructor(lease: Lease, log: LogName, writer: LaneWriter) {
    this.#lease = lease
    this.#log = log
    this.#writer = writer
  }

  append(records: readonly NewRecord[], seal: boolean): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ records, seal, resolve, reject })
      if (!this.#running) this.#idle = this.#run()
    })
  }

  get isIdle(): boolean {
    return !this.#running
  }

  idle(): Promise<void> {
    return this.#idle
  }

  async #run(): Promise<void> {
    this.#running = true
    // What is called in the same tick goes along with the first.
    await Promise.resolve()
    for (let group = this.#take(); group.length > 0; group = this.#take()) await this.#write(group)
    this.#running = false
  }

  /** The appends that go out together: each begins where the one before it ends, and a seal is the last. */
  #take(): Append[] {
    const group: Append[] = []
    let count = 0
    let next: number | undefined
    for (const append of this.#waiting) {
      const first = append.records[0]?.seq
      const follows = next === undefined || (first !== undefined && first === next)
      const fits = count + append.records.length <= MAX_APPEND_RECORDS
      if (group.length > 0 && !(follows && fits)) break
      group.push(append)
      count += append.records.length
      next = (append.records.at(-1)?.seq ?? 0) + 1
      if (append.seal || first === undefined) break
    }
    this.#waiting.splice(0, group.length)
    return group
  }

  /** Together if they can be; otherwise what holds for one of them need not hold for the others. */
  async #write(group: readonly Append[]): Promise<void> {
    const [only] = group
    if (only !== undefined && group.length === 1) return this.#writeOne(only)
    const records = group.flatMap((append) => append.records)
    const last = group.at(-1)
    try {
      const found = await this.#send(records, last && sealOf(last))
      if (found !== undefined) return await this.#writeEach(group)
      for (const append of group) append.resolve(this.#offset(append.records.at(-1)?.seq ?? 0))
    } catch (error) {
      this.#writer.interrupted()
      // The one whose record it is will meet it again, and be rejected with it.
      if (hasCode(error, 'RECORD_INVALID')) return this.#writeEach(group)
      for (const append of group) append.reject(error)
    }
  }

  async #writeEach(group: readonly Append[]): Promise<void> {
    for (const append of group) await this.#writeOne(append)
  }

  async #writeOne(append: Append): Promise<void> {
    try {
      const found = await this.#send(append.records, sealOf(append))
      const last = append.records.at(-1)?.seq ?? 0
      append.resolve(found === undefined ? this.#offset(last) : await this.#rest(append, found))
    } catch (error) {
      this.#writer.interrupted()
      if (hasCode(error, 'RECORD_INVALID')) await this.#refuse(append, error)
      else append.reject(error)
    }
  }

  /** A log that takes nothing is the better reason than a record that cannot be kept. */
  async #refuse(append: Append, reason: unknown): Promise<void> {
    try {
      const found = await this.#writer.found()
      if (typeof found === 'string') this.#fresh(parseState(found), append)
      append.reject(reason)
    } catch (error) {
      append.reject(error)
    }
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
    seal: NewRecord | undefined,
    head = -1,
  ): Promise<HeadState | undefined> {
    const before = (records[0]?.seq ?? head + 1) - 1
    const last = records.at(-1)?.seq ?? before
    const batch = { epoch: this.#lease.epoch, before, last, records, seal }
    const reply = await this.#writer.write(batch)
    if (reply === 1) {
      this.#writer.written(batch)
      if (seal !== undefined) await this.#writer.sealed()
      return undefined
    }
    this.#writer.interrupted()
    if (reply === '') throw new TurnstreamError('LEASE_LOST', `turn ${this.#lease.turnId} is gone`)
    return parseState(String(reply))
  }

  #offset(seq: number): string {
    return formatOffset(this.#lease.epoch, seq)
  }
}

/** The record that ends the log, if this append does. */
function sealOf({ records, seal }: Append): NewRecord | undefined {
  return seal ? records.at(-1) : undefined
}
