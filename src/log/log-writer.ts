import { type Clock, monotonicNow, systemClock } from '../async/clock.ts'
import { calculateRetryDelay } from '../async/retry.ts'
import { ERROR_CODES, TurnstreamError } from '../protocol/errors.ts'
import { formatOffset } from './offsets.ts'
import { MAX_APPEND_RECORDS } from './records.ts'
import type { AppendOptions, Lease, LogName, NewRecord, TurnLog } from './turn-log.ts'

export interface LogWriterOptions {
  /** How many writes may be unsettled: 1,000 unless given. */
  readonly maxWaiting?: number
  /** How long an append is repeated that failed because of the store: 10 s unless given. */
  readonly retryForMs?: number
  readonly clock?: Clock
}

/** `seal`: this is the last record of the log. */
export interface WriteOptions extends Omit<NewRecord, 'seq' | 'data'>, AppendOptions {}

/** Told what became of a record. */
interface Settle {
  readonly resolve: (offset: string) => void
  readonly reject: (error: unknown) => void
}

/** What goes out as one append. */
interface Batch {
  readonly records: NewRecord[]
  readonly settles: Settle[]
  readonly whenSettled: (() => void)[]
  /** Given with the last record of the log. */
  seal: AppendOptions | undefined
}

/** The append that is under way. */
interface Flight {
  readonly batch: Batch
  attempt: number
  giveUpAt: number
}

const MAX_WAITING = 1000
const RETRY_FOR_MS = 10_000
const FIRST_RETRY_MS = 20
const MAX_RETRY_MS = 1000

/**
 * Writes one log of a turn, record by record. The first write goes out at once; what comes while an append
 * is under way goes out together as the next one, so that appends are as large as the store is slow. No
 * timer is involved, and nobody waits for a batch to fill.
 *
 * An append that the store could not carry out is repeated as it was, which changes nothing if it was
 * carried out after all. Any other failure is the end of the writer: what waits and what comes later is
 * rejected with the same error, for after a record that is missing nothing may follow.
 */
export class LogWriter {
  readonly #log: Pick<TurnLog, 'append'>
  readonly #lease: Lease
  readonly #name: LogName
  readonly #maxWaiting: number
  readonly #retryForMs: number
  readonly #clock: Clock
  readonly #batches: Batch[] = []
  #next: number
  #unsettled = 0
  #flight: Flight | undefined
  #sealed = false
  #failure: { readonly error: unknown } | undefined

  constructor(
    log: Pick<TurnLog, 'append'>,
    lease: Lease,
    name: LogName,
    options: LogWriterOptions = {},
  ) {
    this.#log = log
    this.#lease = lease
    this.#name = name
    this.#maxWaiting = options.maxWaiting ?? MAX_WAITING
    this.#retryForMs = options.retryForMs ?? RETRY_FOR_MS
    this.#clock = options.clock ?? systemClock
    this.#next = lease.next[name]
  }

  /**
   * Resolves with the offset when the record is durable. BACKPRESSURE when too many wait already, and
   * LOG_SEALED after a write with `seal`: the record is not written then, and others may follow.
   */
  write(data: string, options?: WriteOptions): Promise<string> {
    return new Promise<string>((resolve, reject) =>
      this.writeWith({ resolve, reject }, data, options),
    )
  }

  /** The same without a promise, for whoever has one `settle` for all of its records. */
  writeWith(settle: Settle, data: string, options?: WriteOptions): void {
    const refusal = this.#refusal()
    if (refusal !== undefined) {
      settle.reject(refusal.error)
      return
    }
    const batch = this.#batchWithRoom()
    batch.records.push(newRecord(this.#next, data, options))
    batch.settles.push(settle)
    this.#next += 1
    this.#unsettled += 1
    if (options?.seal === true) {
      const { response } = options
      batch.seal = { seal: true, ...(response !== undefined && { response }) }
      this.#sealed = true
    }
    if (this.#flight === undefined) this.#sendNext()
  }

  /** Resolves when everything that was written so far is durable or rejected. */
  idle(): Promise<void> {
    if (this.#unsettled === 0) return Promise.resolve()
    const last = this.#batches.at(-1) ?? this.#flight?.batch
    return new Promise((resolve) => {
      const go = () => resolve()
      last?.whenSettled.push(go)
    })
  }

  #refusal(): { readonly error: unknown } | undefined {
    if (this.#failure !== undefined) return this.#failure
    const { turnId } = this.#lease
    if (this.#sealed) {
      return { error: new TurnstreamError('LOG_SEALED', `${this.#name} of turn ${turnId}`) }
    }
    if (this.#unsettled < this.#maxWaiting) return undefined
    const detail = `${this.#unsettled} records wait for ${this.#name} of turn ${turnId}`
    return { error: new TurnstreamError('BACKPRESSURE', detail) }
  }

  #batchWithRoom(): Batch {
    const last = this.#batches.at(-1)
    if (last !== undefined && last.records.length < MAX_APPEND_RECORDS) return last
    const batch: Batch = { records: [], settles: [], whenSettled: [], seal: undefined }
    this.#batches.push(batch)
    return batch
  }

  #sendNext(): void {
    const batch = this.#batches.shift()
    this.#flight = batch && { batch, attempt: 0, giveUpAt: Infinity }
    if (batch !== undefined) this.#append(batch)
  }

  #append({ records, seal }: Batch): void {
    try {
      // Callbacks that are made once: with an `async` function an append costs several promises more.
      this.#log.append(this.#lease, this.#name, records, seal).then(this.#kept, this.#notKept)
    } catch (error) {
      this.#notKept(error) // a log that is not ours may throw
    }
  }

  readonly #kept = (): void => {
    const batch = this.#flight?.batch
    if (batch === undefined) return
    const { records, settles, whenSettled } = batch
    this.#unsettled -= settles.length
    // First what waits: a callback may write more, which is later than that.
    this.#sendNext()
    for (let index = 0; index < settles.length; index++) {
      settles[index]?.resolve(formatOffset(this.#lease.epoch, records[index]?.seq ?? 0))
    }
    for (const go of whenSettled) go()
  }

  readonly #notKept = (error: unknown): void => {
    const flight = this.#flight
    if (flight === undefined) return
    const now = monotonicNow(this.#clock)
    if (flight.attempt === 0) flight.giveUpAt = now + this.#retryForMs
    const delay = calculateRetryDelay(flight.attempt, FIRST_RETRY_MS, MAX_RETRY_MS)
    if (!isRetryable(error) || now + delay > flight.giveUpAt) {
      this.#fail(flight.batch, error)
      return
    }
    flight.attempt += 1
    this.#clock.after(delay, () => this.#append(flight.batch))
  }

  /** `#flight` stays: nothing goes out any more. */
  #fail(batch: Batch, error: unknown): void {
    this.#failure = { error }
    const failed = [batch, ...this.#batches.splice(0)]
    this.#unsettled = 0
    for (const { settles, whenSettled } of failed) {
      for (const { reject } of settles) reject(error)
      for (const go of whenSettled) go()
    }
  }
}

function isRetryable(error: unknown): boolean {
  return error instanceof TurnstreamError && ERROR_CODES[error.code].retryable
}

function newRecord(seq: number, data: string, options: WriteOptions | undefined): NewRecord {
  if (options === undefined) return { seq, data }
  const { key, eventId, timestamp } = options
  return {
    seq,
    data,
    ...(key !== undefined && { key }),
    ...(eventId !== undefined && { eventId }),
    ...(timestamp !== undefined && { timestamp }),
  }
}
