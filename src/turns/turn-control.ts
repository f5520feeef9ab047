import { type Clock, monotonicNow } from '../async/clock.ts'
import { pause } from '../async/pause.ts'
import type { Lease, TurnLog } from '../log/turn-log.ts'
import { hasCode, TurnstreamError } from '../protocol/errors.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'
import { boundError, boundReason, failed } from './turn-ending.ts'

/**
 * Why a turn does not go on. `cancelled`: somebody asked for it. `failed`: a cap was reached, or the server shuts
 * down. `lost`: the turn is not ours to write any more.
 */
export type StopReason =
  | { readonly kind: 'cancelled'; readonly reason: string }
  | { readonly kind: 'failed'; readonly error: ErrorObject }
  | { readonly kind: 'lost'; readonly error: unknown }

/** Why a turn that is ours ends early. */
export type EndReason = Exclude<StopReason, { kind: 'lost' }>

export interface TurnControlOptions {
  readonly log: TurnLog
  readonly lease: Lease
  readonly leaseMs: number
  /** When the lease was asked for, in monotonic time. */
  readonly since: number
  readonly maxDurationMs: number
  readonly clock: Clock
  /** For how long the store has left a write unanswered. */
  readonly stalledMs: () => number
  /** Called when somebody cancelled the turn. */
  readonly onCancelled: () => void
  /** Called once, when the turn is lost. */
  readonly onLost: (error: unknown) => void
}

/** A lease is renewed when a third of it has passed; what failed is tried again sooner. */
const RENEWALS_PER_LEASE = 3
const RETRIES_PER_LEASE = 12

// A cancel is to be noticed within a second, also by an owner whose store stumbled.
const ASK_AGAIN_MS = 250

/**
 * Decides how long a turn goes on. The first reason to stop stays, except that a turn may be lost at any time:
 *
 *     | state    | stop(reason) | lose(error) | release() |
 *     |----------|--------------|-------------|-----------|
 *     | running  | stopping     | lost        | over      |
 *     | stopping | –            | lost        | over      |
 *     | lost     | –            | –           | over      |
 *     | over     | –            | –           | –         |
 *
 * What stops a turn: its time limit, a cancel, and whoever calls `stop`. What loses it: another owner, a store that
 * neither renews the lease nor answers a write for as long as the lease lasts, deletion, and a writer that failed.
 */
export class TurnControl {
  readonly #options: TurnControlOptions
  readonly #controller = new AbortController()
  #reason: StopReason | undefined
  #isOver = false
  /** When the store was asked that last said yes: by our clock the lease lasts from then at least. */
  #heldSince: number
  /** When the timer is due. */
  #ringsAt = 0
  #lastError: unknown
  #isRenewing = false
  #cancelTimer: () => void
  readonly #cancelLimit: () => void

  constructor(options: TurnControlOptions) {
    const { clock, maxDurationMs, since } = options
    this.#options = options
    this.#heldSince = since
    this.#cancelTimer = this.#setTimer(RENEWALS_PER_LEASE)
    this.#cancelLimit = clock.after(maxDurationMs, () => {
      this.stop(failed('TURN_TIME_LIMIT', `${maxDurationMs} ms are allowed`))
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
    this.#reason = bound(reason)
    this.#controller.abort()
  }

  lose(error: unknown): void {
    if (this.#isOver || this.isLost) return
    this.#reason = { kind: 'lost', error }
    this.#cancelTimer()
    this.#controller.abort()
    this.#options.onLost(error)
  }

  /** The provider is done: the time limit is kept. */
  endTimeLimit(): void {
    this.#cancelLimit()
  }

  /** The turn is over, and with it everything that was done for it. */
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
      // A store that stays away is for the renewal of the lease to judge.
      await pause(ASK_AGAIN_MS, clock, this.signal)
    }
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
    const { clock, leaseMs, lease, stalledMs } = this.#options
    const { turnId } = lease
    const now = monotonicNow(clock)
    // A process that did not run asked for nothing: only the store can say whether it lost the lease.
    const lateMs = now - this.#ringsAt
    const isLate = lateMs > leaseMs / RETRIES_PER_LEASE
    if (isLate) this.#heldSince += lateMs
    if (now >= this.#heldSince + leaseMs) {
      const detail = `turn ${turnId}: the store did not renew it for ${leaseMs} ms`
      return this.lose(new TurnstreamError('LEASE_LOST', detail, { cause: this.#lastError }))
    }
    if (!isLate && stalledMs() >= leaseMs) {
      const detail = `turn ${turnId}: no write was answered for ${leaseMs} ms`
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

/** What is stored with every item of the turn is short. */
function bound(reason: EndReason): EndReason {
  return reason.kind === 'cancelled'
    ? { kind: 'cancelled', reason: boundReason(reason.reason) }
    : { kind: 'failed', error: boundError(reason.error) }
}
