import type { ErrorObject } from '../protocol/stream-event.ts'
import { boundError, boundReason } from './stored-size.ts'

/**
 * Why a turn does not go on. `cancelled`: somebody asked for it. `failed`: a cap was reached, or the
 * server shuts down. `lost`: the turn is not ours to write any more.
 */
export type StopReason =
  | { readonly kind: 'cancelled'; readonly reason: string }
  | { readonly kind: 'failed'; readonly error: ErrorObject }
  | { readonly kind: 'lost'; readonly error: unknown }

/** Why a turn that is ours ends early. */
export type EndReason = Exclude<StopReason, { kind: 'lost' }>

/**
 * Stops a turn: whoever works for it sees the signal, and the first reason decides how it ends. Only a
 * turn that is lost has no other end, whatever was to become of it.
 */
export class TurnStop {
  readonly #controller = new AbortController()
  #reason: StopReason | undefined

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get reason(): StopReason | undefined {
    return this.#reason
  }

  stop(reason: StopReason): void {
    if (this.#reason === undefined || isLostNow(this.#reason, reason)) this.#reason = bound(reason)
    this.#controller.abort()
  }

  /** The turn is over, and with it everything that was done for it. */
  release(): void {
    this.#controller.abort()
  }
}

function isLostNow(before: StopReason, now: StopReason): boolean {
  return now.kind === 'lost' && before.kind !== 'lost'
}

/** What is stored with every item of the turn is short. */
function bound(reason: StopReason): StopReason {
  if (reason.kind === 'cancelled') {
    const short = boundReason(reason.reason)
    return short === reason.reason ? reason : { kind: 'cancelled', reason: short }
  }
  if (reason.kind === 'lost') return reason
  const error = boundError(reason.error)
  return error === reason.error ? reason : { kind: 'failed', error }
}
