import type { Clock } from '../async/clock.ts'
import {
  type ConnectionState,
  describeConnection,
  type Fact,
  type Happening,
  IDLE,
  IDLE_STATE,
  nextTickAt,
  transition,
} from './connection.ts'
import { ClientError } from './errors.ts'
import type { Page } from './page.ts'
import { elapsedTime } from './time.ts'

export interface LinkDeps {
  readonly clock: Clock
  readonly page: Page
  readonly random?: () => number
}

export type Report = (happening: Happening, fact?: Fact) => void

/** One request. Reports what happens meanwhile, and resolves when everything arrived. */
export type Attempt = (signal: AbortSignal, report: Report) => Promise<void>

/**
 * Makes requests, timers and listeners match the state of a connection. Decides nothing: `transition` does. `onChange` gets
 * what to show when it is not the same any more. Returns how to dispatch happenings.
 */
export function createLink(
  { clock, page, random = Math.random }: LinkDeps,
  attempt: Attempt,
  onChange: (state: ConnectionState) => void,
): Report {
  const elapsed = elapsedTime(clock)
  let at = IDLE
  let state = IDLE_STATE
  let request: object | undefined
  let abort: AbortController | undefined
  let cancelTimer: (() => void) | undefined
  let stopListening: (() => void) | undefined

  const dispatch: Report = (happening, fact) => {
    const now = elapsed()
    const moment = { now, random: random(), isHidden: page.isHidden() }
    at = transition(at, happening, moment, fact)

    if (at.request !== request) {
      abort?.abort()
      request = at.request
      if (request) start(request)
    }

    if (at.dueAt < Infinity) stopListening ??= page.onWake(() => dispatch('wake'))
    else {
      stopListening?.()
      stopListening = undefined
    }

    // Bytes only postpone a tick, which looks at the time itself.
    if (happening !== 'heard') {
      cancelTimer?.()
      const wait = nextTickAt(at, moment) - now
      cancelTimer = wait < Infinity ? clock.after(wait, () => dispatch('tick')) : undefined
    }

    const next = describeConnection(at, now)
    if (next.status !== state.status || next.cause !== state.cause) onChange((state = next))
  }

  function start(own: object): void {
    const report: Report = (happening, fact) => {
      if (request === own) dispatch(happening, fact)
    }
    abort = new AbortController()
    attempt(abort.signal, report).then(
      () => report('over'),
      (error: unknown) => {
        // Browsers name the loss of a connection in many ways: whatever we did not cause is one.
        const cause =
          error instanceof ClientError
            ? error
            : new ClientError((error as Error | undefined)?.message, { cause: error })
        report(meaningOf(cause.status), { cause })
      },
    )
  }

  return dispatch
}

/** What the HTTP status of an error means for a connection. */
function meaningOf(status: number): Happening {
  if (status >= 500 || [0, 408, 429].includes(status)) return 'lost'
  return [404, 410].includes(status) ? 'gone' : 'refused'
}
