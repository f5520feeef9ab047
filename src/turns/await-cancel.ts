import type { Clock } from '../async/clock.ts'
import { pause } from '../async/pause.ts'
import type { Lease, TurnLog } from '../log/turn-log.ts'
import { hasCode } from '../protocol/errors.ts'
import type { StopReason } from './turn-stop.ts'

export interface AwaitCancelOptions {
  readonly log: TurnLog
  readonly lease: Lease
  readonly clock: Clock
  /** Aborts when the turn is over. */
  readonly signal: AbortSignal
}

// A cancel is to be noticed within a second, also by an owner whose store stumbled.
const ASK_AGAIN_MS = 250

/** Waits until the turn is cancelled or the lease is seen to be lost; undefined when it is over before. */
export async function awaitCancel(options: AwaitCancelOptions): Promise<StopReason | undefined> {
  const { log, lease, clock, signal } = options
  while (!signal.aborted) {
    try {
      return { kind: 'cancelled', reason: await log.cancelled(lease, signal) }
    } catch (error) {
      if (hasCode(error, 'LEASE_LOST')) return { kind: 'lost', error }
    }
    // A store that stays away is for whoever renews the lease to judge.
    await pause(ASK_AGAIN_MS, clock, signal)
  }
  return undefined
}
