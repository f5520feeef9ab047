import { type Clock, monotonicNow, pause } from '@turnstream/core/internal/async/clock'
import type { Settlement } from '@turnstream/core/internal/items/unsettled-items'
import type { Lease, TurnLog } from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { boundEndReason, failed } from './turn-ending.ts'

/** Why a turn ends early: on request, or because a cap was exceeded or the server shuts down. */
export type EndReason = Exclude<Settlement, { kind: 'done' }>

/** Why a turn stops. `lost`: this process may no longer write it. */
export type StopReason = EndReason | { readonly kind: 'lost'; readonly error: unknown }

export interface TurnControlOptions {
  readonly log: TurnLog
  readonly lease: Lease
  readonly leaseMs: number
  /** When the lease was requested, in monotonic time. */
  readonly since: number
  readonly maxTurnTimeMs: number
  readonly clock: Clock
  /** Returns how long the store has left a write unanswered. */
  readonly stalledMs: () => number
  readonly onCancelled: () => void
  readonly onLost: (error: unknown) => void
}

/** A lease is renewed after a third of its duration. Failed renewals are retried sooner. */
const RENEWALS_PER_LEASE = 3
const RETRIES_PER_LEASE = 12

// The owner must notice a cancel within a second, even after a store failure.
const ASK_AGAIN_MS = 250

/**
 * Decides how long a turn runs. The first reason to stop wins, but a turn may be lost at any time:
 *
 *     | state    | stop(reason) | lose(error) | release() |
 *     |----------|--------------|-------------|-----------|
 *     | running  | stopping     | lost        | over      |
 *     | stopping | –            | lost        | over      |
 *     | lost     | –            | –           | over      |
 *     | over     | –            | –           | –         |
 *
 * A turn is stopped by its time limit, a cancel, or `stop`. It is lost to another owner, to deletion, to a
 * failed writer, or to a store that neither renews the lease nor answers a write for the duration of the
 * lease.
 */
export class TurnControl {
  readonly #options: TurnControlOptions
  readonly #controller = new AbortController()
  #reason: StopReason | undefined
  #isOver = false
  /** When the last successful renewal was requested. By our clock the lease lasts at least from then. */
  #heldSince: number
  #ringsAt = 0
  #lastError: unknown
  #isRenewing = false
  #cancelTimer: () => void
  readonly #cancelLimit: () => void

  constructor(options: TurnControlOptions) {
    const { clock, maxTurnTimeMs, since } = options
    this.#options = options
    this.#heldSince = since
    this.#cancelTimer = this.#setTimer(RENEWALS_PER_LEASE)
    this.#cancelLimit = clock.after(maxTurnTimeMs, () => {
      this.stop(failed('TURN_TIME_LIMIT', `the limit is ${maxTurnTimeMs} ms`))
    })
    void this.#followCancel()
  }

  /** Aborts when the turn is stopped, lost or over. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get reason(): StopReason | undefined {
    return this.#reason
  }

  get isLost(): boolean {
    return this.#reason?.kind === 'lost'
  }

  stop(reason: EndReason): void {
    if (this.#isOver || this.#reason !== undefined) return
    this.#reason = boundEndReason(reason)
    this.#controller.abort()
  }

  lose(error: unknown): void {
    if (this.#isOver || this.isLost) return
    this.#reason = { kind: 'lost', error }
    this.#cancelTimer()
    this.#controller.abort()
    this.#options.onLost(error)
  }

  /** Cancels the time limit: the provider is done. */
  endTimeLimit(): void {
    this.#cancelLimit()
  }

  /** Ends the turn and releases everything that belongs to it. */
  release(): void {
    this.#isOver = true
    this.#cancelTimer()
    this.#cancelLimit()
    this.#controller.abort()
  }

  async #followCancel(): Promise<void> {
    const { log, lease, clock } = this.#options
    while (!this.signal.aborted) {
      try {
        const reason = await log.cancelled(lease, this.signal)
        this.#options.onCancelled()
        return this.stop({ kind: 'cancelled', reason })
      } catch (error) {
        if (hasCode(error, 'LEASE_LOST')) return this.lose(error)
      }
      // Whether the store is away for too long is decided by the renewal of the lease.
      await pause(ASK_AGAIN_MS, clock, this.signal)
    }
  }

  /** Fires when the lease must be renewed and when it has expired. */
  #setTimer(rings: number): () => void {
    const { clock, leaseMs } = this.#options
    const now = monotonicNow(clock)
    const waitMs = Math.max(0, Math.min(leaseMs / rings, this.#heldSince + leaseMs - now))
    this.#ringsAt = now + waitMs
    return clock.after(waitMs, () => this.#ring())
  }

  #ring(): void {
    const { clock, leaseMs, lease, stalledMs } = this.#options
    const { turnId } = lease
    const now = monotonicNow(clock)
    // A paused process renewed nothing. Only the store knows whether the lease is lost.
    const lateMs = now - this.#ringsAt
    const isLate = lateMs > leaseMs / RETRIES_PER_LEASE
    if (isLate) this.#heldSince += lateMs
    if (now >= this.#heldSince + leaseMs) {
      const detail = `turn ${turnId}: the store did not renew the lease for ${leaseMs} ms`
      return this.lose(new TurnstreamError('LEASE_LOST', detail, { cause: this.#lastError }))
    }
    if (!isLate && stalledMs() >= leaseMs) {
      const detail = `turn ${turnId}: the store did not answer a write for ${leaseMs} ms`
      return this.lose(new TurnstreamError('STORE_UNAVAILABLE', detail))
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
      if (hasCode(error, 'LEASE_LOST')) this.lose(error)
      else if (!this.#isOver && !this.isLost) {
        this.#lastError = error
        this.#cancelTimer()
        this.#cancelTimer = this.#setTimer(RETRIES_PER_LEASE)
      }
    }
    this.#isRenewing = false
  }
}
