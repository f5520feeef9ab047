import { type Clock, monotonicNow } from '../async/clock.ts'
import type { Lease, TurnLog } from '../log/turn-log.ts'
import { hasCode, TurnstreamError } from '../protocol/errors.ts'

export interface LeaseKeeperOptions {
  readonly log: TurnLog
  readonly lease: Lease
  readonly leaseMs: number
  /** When the lease was asked for, in monotonic time. */
  readonly since: number
  readonly clock: Clock
  /** Whether the turn cannot be written any more: whoever keeps it from others should be able to. */
  readonly isStuck: () => boolean
  /** Told once, when the lease is lost, or the store was away for as long as it lasts. */
  readonly onLost: (error: unknown) => void
}

/** A lease is renewed when a third of it has passed; what failed is tried again sooner. */
const RENEWALS_PER_LEASE = 3
const RETRIES_PER_LEASE = 12

/** Renews a lease until it is let go. */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions
  /** When the store was asked that last said yes: by our clock the lease lasts from then at least. */
  #heldSince: number
  /** When the timer is due. */
  #ringsAt = 0
  #lastError: unknown
  #isRenewing = false
  #isOver = false
  #cancelTimer: () => void

  constructor(options: LeaseKeeperOptions) {
    this.#options = options
    this.#heldSince = options.since
    this.#cancelTimer = this.#setTimer(RENEWALS_PER_LEASE)
  }

  release(): void {
    this.#isOver = true
    this.#cancelTimer()
  }

  /** Rings when it is time to renew the lease, and when it has run out. */
  #setTimer(rings: number): () => void {
    const { clock, leaseMs } = this.#options
    const now = monotonicNow(clock)
    const waitMs = Math.max(0, Math.min(leaseMs / rings, this.#heldSince + leaseMs - now))
    this.#ringsAt = now + waitMs
    return clock.after(waitMs, () => this.#ring())
  }

  #ring(): void {
    const { clock, leaseMs, lease, isStuck } = this.#options
    const { turnId } = lease
    const now = monotonicNow(clock)
    // A process that did not run asked for nothing: only the store can say whether it lost the lease.
    const lateMs = now - this.#ringsAt
    if (lateMs > leaseMs / RETRIES_PER_LEASE) this.#heldSince += lateMs
    if (now >= this.#heldSince + leaseMs) {
      const detail = `turn ${turnId}: the store did not renew it for ${leaseMs} ms`
      this.#lose(new TurnstreamError('LEASE_LOST', detail, { cause: this.#lastError }))
      return
    }
    if (lateMs <= leaseMs / RETRIES_PER_LEASE && isStuck()) {
      const detail = `turn ${turnId}: no append was answered for ${leaseMs} ms`
      this.#lose(new TurnstreamError('STORE_UNAVAILABLE', detail))
      return
    }
    this.#cancelTimer = this.#setTimer(RENEWALS_PER_LEASE)
    if (!this.#isRenewing) void this.#renew(now)
  }

  async #renew(askedAt: number): Promise<void> {
    const { log, lease, leaseMs } = this.#options
    this.#isRenewing = true
    try {
      await log.renew(lease, leaseMs)
      this.#heldSince = askedAt
    } catch (error) {
      this.#fail(error)
    }
    this.#isRenewing = false
  }

  #fail(error: unknown): void {
    if (hasCode(error, 'LEASE_LOST')) {
      this.#lose(error)
    } else if (!this.#isOver) {
      this.#lastError = error
      this.#cancelTimer()
      this.#cancelTimer = this.#setTimer(RETRIES_PER_LEASE)
    }
  }

  #lose(error: unknown): void {
    if (this.#isOver) return
    this.release()
    this.#options.onLost(error)
  }
}
