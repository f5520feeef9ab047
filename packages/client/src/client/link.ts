import type { Clock } from '@turnstream/core/internal/async/clock'
import {
  type ConnectionState,
  describeConnection,
  type EventData,
  IDLE,
  IDLE_STATE,
  type LinkEvent,
  nextTickAt,
  transition,
} from './connection.ts'
import { toClientError } from './errors.ts'
import type { PageLifecycle } from './page.ts'

export interface LinkDeps {
  readonly clock: Clock
  readonly page: PageLifecycle
  readonly random?: () => number
}

export type Report = (event: LinkEvent, data?: EventData) => void

/** One request. Reports what happens meanwhile, and resolves when everything arrived. */
export type Attempt = (signal: AbortSignal, report: Report) => Promise<void>

/**
 * Makes requests, timers and listeners match the state of a connection. Decides nothing: `transition` does. `onChange` is
 * called when there is something else to show. Returns a function that dispatches events.
 */
export const createLink = (
  { clock, page, random = Math.random }: LinkDeps,
  attempt: Attempt,
  onChange: (state: ConnectionState) => void,
): Report => {
  let at = IDLE
  let now = 0
  let timeOfDay = 0
  let state = IDLE_STATE
  let cancelTimer: (() => void) | undefined
  let stopListening: (() => void) | undefined

  const dispatch: Report = (event, data) => {
    // Monotonic clocks of browsers leave out the time in which the machine slept. A time of day that is set back does not
    // matter; one that is set forward counts as sleep, which costs one reconnect.
    const before = timeOfDay
    timeOfDay = clock.now()
    now += Math.max(0, timeOfDay - before)
    const context = { ...data, now, random: random(), isHidden: page.isHidden() }
    const { request } = at
    at = transition(at, event, context)
    // Bytes only postpone a tick, which looks at the time itself.
    if (event === 'heard') return

    if (at.request !== request) {
      request?.abort()
      if (at.request) start(at.request.signal)
    }

    stopListening?.()
    stopListening =
      at.request || at.phase === 'waiting' ? page.onWake(() => dispatch('wake')) : undefined
    cancelTimer?.()
    const wait = nextTickAt(at, context) - now
    cancelTimer = wait < Infinity ? clock.after(wait, () => dispatch('tick')) : undefined

    const next = describeConnection(at, now)
    const isSame =
      next.status === state.status && next.cause === state.cause && next.retryAt === state.retryAt
    if (!isSame) onChange((state = next))
  }

  const start = (signal: AbortSignal): void => {
    const report: Report = (event, data) => {
      if (!signal.aborted) dispatch(event, data)
    }
    attempt(signal, report).then(
      () => report('over'),
      (error: unknown) => {
        const cause = toClientError(error)
        report(meaningOf(cause.status), { cause })
      },
    )
  }

  return dispatch
}

/** What the HTTP status of an error means for a connection. */
export const meaningOf = (status: number): LinkEvent => {
  if (status >= 500 || [0, 408, 429].includes(status)) return 'lost'
  return [404, 410].includes(status) ? 'gone' : 'refused'
}
