import { type Clock, monotonicNow } from '../async/clock.ts'
import type { AppendOptions, Lease, LogName, NewRecord, TurnLog } from '../log/turn-log.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { TIMED_EVERY, type TurnObserver } from './turn-observer.ts'

/**
 * A log for its writers, until they have to let go of the turn: then nothing gets through any more.
 * Remembers when each was written last, because a store may also fail by never answering.
 */
export class FencedLog implements Pick<TurnLog, 'append'> {
  readonly #log: Pick<TurnLog, 'append'>
  readonly #clock: Clock
  readonly #observer: TurnObserver | undefined
  readonly #writtenAt: Record<LogName, number> = { events: Infinity, processed: Infinity }
  #appends = 0
  #isClosed = false

  constructor(log: Pick<TurnLog, 'append'>, clock: Clock, observer?: TurnObserver) {
    this.#log = log
    this.#clock = clock
    this.#observer = observer
  }

  /** How long ago this log was written last, or was tried to be. */
  sinceWrite(log: LogName): number {
    return monotonicNow(this.#clock) - this.#writtenAt[log]
  }

  close(): void {
    this.#isClosed = true
  }

  append(
    lease: Lease,
    log: LogName,
    records: readonly NewRecord[],
    options?: AppendOptions,
  ): Promise<string> {
    if (this.#isClosed) {
      return Promise.reject(new TurnstreamError('LEASE_LOST', `turn ${lease.turnId} was let go`))
    }
    const now = monotonicNow(this.#clock)
    this.#writtenAt[log] = now
    const appended = this.#log.append(lease, log, records, options)
    // The first of a turn, and then one of so many.
    if ((this.#appends++ & (TIMED_EVERY - 1)) === 0) this.#time(appended, now)
    return appended
  }

  #time(appended: Promise<string>, since: number): void {
    appended.then(
      () => this.#observer?.appended(monotonicNow(this.#clock) - since),
      () => {}, // whoever writes is told
    )
  }
}
