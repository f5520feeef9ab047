import type { Clock } from '../async/clock.ts'
import type { Lease, LogName, NewRecord, TurnLog } from '../log/turn-log.ts'
import { TurnstreamError } from '../protocol/errors.ts'

/**
 * A log for its writers, until they have to let go of the turn: then nothing gets through any more.
 * Remembers when each was written last, because a store may also fail by never answering.
 */
export class FencedLog implements Pick<TurnLog, 'append'> {
  readonly #log: Pick<TurnLog, 'append'>
  readonly #clock: Clock
  readonly #writtenAt: Record<LogName, number> = { events: Infinity, processed: Infinity }
  #isClosed = false

  constructor(log: Pick<TurnLog, 'append'>, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** How long ago this log was written last, or was tried to be. */
  sinceWrite(log: LogName): number {
    return this.#clock.now() - this.#writtenAt[log]
  }

  close(): void {
    this.#isClosed = true
  }

  append(
    lease: Lease,
    log: LogName,
    records: readonly NewRecord[],
    options?: { readonly seal?: boolean },
  ): Promise<string> {
    if (this.#isClosed) {
      return Promise.reject(new TurnstreamError('LEASE_LOST', `turn ${lease.turnId} was let go`))
    }
    this.#writtenAt[log] = this.#clock.now()
    return this.#log.append(lease, log, records, options)
  }
}
