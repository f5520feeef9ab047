import type { Clock } from '../async/clock.ts'
import {
  type ConnectionState,
  describeConnection,
  type Happening,
  IDLE,
  isActive,
  nextTickAt,
  transition,
} from './connection.ts'
import { ClientError } from './errors.ts'
import type { Page } from './page.ts'
import { elapsedTime } from './time.ts'

export interface LinkDeps {
  readonly clock: Clock
  readonly page: Page
  readonly random: () => number
}

export type Report = (happening: Happening) => void

/** One request. Reports what happens meanwhile, and resolves when everything arrived. */
export type Attempt = (signal: AbortSignal, report: Report) => Promise<void>

export interface Link {
  readonly dispatch: Report
  readonly state: () => ConnectionState
}

/**
 * Makes requests, timers and listeners match the state of a connection. Decides nothing: `transition` does. `onChange` is
 * called when `state` is another.
 */
export function createLink(deps: LinkDeps, attempt: Attempt, onChange: () => void): Link {
  const { clock, page, random } = deps
  const elapsed = elapsedTime(clock)
  let at = IDLE
  let state = describeConnection(at, 0)
  /** Of the request that is open; 0 without one. */
  let serial = 0
  let abort: AbortController | undefined
  let cancelTimer: (() => void) | undefined
  let stopListening: (() => void) | undefined

  const dispatch: Report = (happening) => {
    const now = elapsed()
    const moment = { now, random: random(), isHidden: page.isHidden() }
    at = transition(at, happening, moment)

    const wanted = isActive(at) ? at.serial : 0
    if (wanted !== serial) {
      abort?.abort()
      serial = wanted
      if (wanted) start(wanted)
    }

    if (wanted || at.phase === 'waiting') {
      stopListening ??= page.onWake(() => dispatch({ type: 'wake' }))
    } else {
      stopListening?.()
      stopListening = undefined
    }

    // Bytes only postpone a tick, which looks at the time itself.
    if (happening.type !== 'heard') {
      cancelTimer?.()
      const wait = nextTickAt(at, moment) - now
      cancelTimer =
        wait < Infinity
          ? clock.after(Math.max(0, wait), () => dispatch({ type: 'tick' }))
          : undefined
    }

    const next = describeConnection(at, now)
    if (next.status === state.status && next.cause === state.cause) return
    state = next
    onChange()
  }

  function start(own: number): void {
    const report: Report = (happening) => {
      if (serial === own) dispatch(happening)
    }
    abort = new AbortController()
    void attempt(abort.signal, report)
      .then((): Happening => ({ type: 'over' }), toHappening)
      .then(report)
  }

  return { dispatch, state: () => state }
}

/** What an error means for a connection. */
function toHappening(error: unknown): Happening {
  // Browsers name the loss of a connection in many ways: whatever we did not cause is one.
  const cause =
    error instanceof ClientError
      ? error
      : new ClientError((error as Error | undefined)?.message ?? '', { cause: error })
  const { status } = cause
  if (!status || status >= 500 || status === 408 || status === 429) return { type: 'lost', cause }
  return { type: status === 404 || status === 410 ? 'gone' : 'refused', cause }
}
