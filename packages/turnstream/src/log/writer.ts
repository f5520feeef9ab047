import { type Clock, monotonicNow } from '@turnstream/core/internal/async/clock'
import { calculateRetryDelay } from '@turnstream/core/internal/async/retry'
import type * as log from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { checkEntry, checkResponse, type Outcome, outcomeOf } from './records.ts'
import { isRetryable } from './rules.ts'

/** A writer with this many waiting records is full, until half of them are stored. */
const MAX_WAITING = 500
const ROOM_AGAIN = MAX_WAITING / 2

const RETRY_FOR_MS = 10_000
export const WRITE_RETRY = { retryAttempts: Infinity, retryBaseMs: 20, retryMaxMs: 1000 } as const

/** The end of a log, written with its last record. */
export interface Seal {
  readonly response: string | undefined
  /** How the turn ended, from the last record of `events`. */
  readonly outcome: Outcome | undefined
}

/**
 * The queue that the writers of all stores share. A store calls `take` when it is ready to store records, and then
 * reports the result with `stored` or `failed`.
 *
 *     open ──seal()──▶ sealed          queued records are still stored
 *      ╰───failed(), close()──▶ over   nothing more is stored
 */
export abstract class StoreWriter<Name extends log.LogName>
  implements log.LogWriter<log.NewRecord<Name>>
{
  readonly lease: log.Lease
  readonly log: Name
  readonly #clock: Clock
  readonly #options: log.WriterOptions<log.NewRecord<Name>>
  /** Written but not yet stored, oldest first. The first `#taken` are in flight. */
  #entries: log.NewRecord<Name>[] = []
  #taken = 0
  #first: number
  #seal: Seal | undefined
  #failure: { readonly error: unknown } | undefined
  #isClosed = false
  /** When the store last got records or answered. */
  #movedAt = 0
  #attempts = 0
  #isPausing = false
  #deadline = Infinity
  #waiters: { readonly isReached: () => boolean; readonly go: () => void }[] = []

  constructor(
    lease: log.Lease,
    log: Name,
    clock: Clock,
    options: log.WriterOptions<log.NewRecord<Name>> = {},
  ) {
    this.lease = lease
    this.log = log
    this.#clock = clock
    this.#options = options
    this.#first = options.next ?? lease.next[log]
    if (Number.isSafeInteger(this.#first) && this.#first > 0) return
    throw new TurnstreamError('OPTION_INVALID', `next is ${this.#first}`)
  }

  /** Called when records wait: the store must call `take` soon. */
  protected abstract wake(): void

  /** Called when nothing more will be stored: the log is sealed, or the writer failed or was closed. */
  protected ended(): void {}

  get waiting(): number {
    return this.#entries.length
  }

  get stalledMs(): number {
    return this.#entries.length === 0 ? 0 : monotonicNow(this.#clock) - this.#movedAt
  }

  write(entry: log.NewRecord<Name>): boolean {
    if (this.#seal !== undefined) {
      throw new TurnstreamError('LOG_SEALED', `${this.log} of turn ${this.lease.turnId}`)
    }
    checkEntry(this.log, entry)
    if (this.isOver) return true
    if (this.#entries.push(entry) === 1) this.#movedAt = monotonicNow(this.#clock)
    if (!this.#isPausing) this.wake()
    return this.#entries.length < MAX_WAITING
  }

  async room(): Promise<void> {
    await this.#until(() => this.#entries.length <= ROOM_AGAIN)
  }

  async flush(): Promise<void> {
    const end = this.isOver ? Infinity : this.#first + this.#entries.length
    await this.#until(() => this.#first >= end)
    if (this.#first < end) throw this.#failure?.error
  }

  seal(entry: log.NewRecord<Name>, response?: string): Promise<void> {
    checkResponse(this.log, response)
    const isBrief = this.lease.contentMs !== undefined
    const outcome = this.log === 'events' ? outcomeOf(entry as StreamEvent, isBrief) : undefined
    this.write(entry)
    this.#seal = { response, outcome }
    return this.flush()
  }

  close(): void {
    this.#isClosed = true
    const detail = `turn ${this.lease.turnId} was closed by its writer`
    this.#end({ error: new TurnstreamError('LEASE_LOST', detail) })
  }

  get isOver(): boolean {
    return this.#failure !== undefined
  }

  /** Returns up to `max` waiting records to store now; none while some are in flight. */
  drain(max = Infinity): Taken<Name> {
    const isBusy = this.#taken > 0
    const count = isBusy || this.isOver ? 0 : Math.min(max, this.#entries.length)
    const entries = count === this.#entries.length ? this.#entries : this.#entries.slice(0, count)
    if (!isBusy) this.#taken = count
    const isLast = count > 0 && count === this.#entries.length
    return { entries, first: this.#first, count, seal: isLast ? this.#seal : undefined }
  }

  /** Marks `count` of the taken records as durable and visible. The rest wait again. */
  stored(count = this.#taken): void {
    const all = this.#entries
    const done = count === all.length ? all : all.splice(0, count)
    if (done === all) this.#entries = []
    this.#taken = 0
    this.#first += count
    this.#attempts = 0
    this.#movedAt = monotonicNow(this.#clock)
    const isSealed = this.#seal !== undefined && this.#entries.length === 0
    if (!this.#isClosed && count > 0) this.#notify(done)
    if (this.isOver) this.#entries = []
    if (this.#waiters.length > 0) this.#wakeWaiters()
    if (isSealed) this.ended()
  }

  /** An exception in a callback must not affect other turns. */
  #notify(done: readonly log.NewRecord<Name>[]): void {
    try {
      this.#options.onStored?.(done)
    } catch (error) {
      this.#end({ error })
    }
  }

  /** The taken records could not be stored. They are retried if that may help. */
  failed(error: unknown): void {
    this.#taken = 0
    if (this.isOver) {
      this.#entries = []
      return
    }
    const now = monotonicNow(this.#clock)
    if (this.#attempts === 0) {
      this.#deadline = now + (this.#options.retryForMs ?? RETRY_FOR_MS)
    }
    const { retryAttempts, retryBaseMs, retryMaxMs } = { ...WRITE_RETRY, ...this.#options }
    const delay = calculateRetryDelay(this.#attempts, retryBaseMs, retryMaxMs)
    const isOver = this.#attempts >= retryAttempts || now + delay > this.#deadline
    if (isOver || !isRetryable(error)) {
      this.#end({ error })
      return
    }
    this.#attempts += 1
    this.#movedAt = now
    this.#isPausing = true
    this.#clock.after(delay, () => {
      this.#isPausing = false
      if (!this.isOver) this.wake()
    })
  }

  #end(failure: { readonly error: unknown }): void {
    if (this.#failure !== undefined) return
    this.#failure = failure
    if (this.#taken === 0) this.#entries = []
    this.#wakeWaiters()
    this.ended()
    // Deferred: a store that serves many turns must not be interrupted by an exception here.
    queueMicrotask(() => {
      if (!this.#isClosed) this.#options.onFailed?.(failure.error)
    })
  }

  /** Resolves when the condition holds, or never will. */
  #until(isReached: () => boolean): Promise<void> {
    if (this.isOver || isReached()) return Promise.resolve()
    return new Promise((go) => {
      this.#waiters.push({ isReached, go })
    })
  }

  #wakeWaiters(): void {
    const waiters = this.#waiters
    this.#waiters = []
    for (const waiter of waiters) {
      if (this.isOver || waiter.isReached()) waiter.go()
      else this.#waiters.push(waiter)
    }
  }
}

export interface Taken<Name extends log.LogName> {
  /** May have more than `count` entries; the rest wait. */
  readonly entries: readonly log.NewRecord<Name>[]
  readonly first: number
  readonly count: number
  /** Set when the last record of the batch is the last of the log. */
  readonly seal: Seal | undefined
}
