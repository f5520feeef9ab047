import type { Clock } from '../async/clock.ts'
import {
  type Connection,
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

/** One request. Reports what happens meanwhile, and returns what ended it. Never rejects. */
export type Attempt = (
  signal: AbortSignal,
  report: (happening: Happening) => void,
) => Promise<Happening>

/** Makes requests, timers and listeners match the state of a connection. Decides nothing: `transition` does. */
export class Link {
  readonly #deps: LinkDeps
  readonly #attempt: Attempt
  readonly #onChange: () => void
  readonly #now: () => number
  #connection: Connection = IDLE
  #state = describeConnection(IDLE)
  #request: { readonly serial: number; readonly abort: AbortController } | undefined
  #cancelTimer: (() => void) | undefined
  #stopListening: (() => void) | undefined

  /** `onChange` is called when `state` is another. */
  constructor(deps: LinkDeps, attempt: Attempt, onChange: () => void) {
    this.#deps = deps
    this.#attempt = attempt
    this.#onChange = onChange
    this.#now = elapsedTime(deps.clock)
  }

  get state(): ConnectionState {
    return this.#state
  }

  /** Whether nothing more will happen by itself. */
  get isSettled(): boolean {
    return this.#state.status === 'ended' || this.#state.status === 'failed'
  }

  dispatch(happening: Happening): void {
    const moment = { now: this.#now(), random: this.#deps.random() }
    this.#connection = transition(this.#connection, happening, moment)
    this.#request = this.#matchRequest()
    this.#matchListeners()
    // Bytes only postpone a tick, which looks at the time itself.
    if (happening.type !== 'heard' || happening.pingMs !== undefined) this.#arm()
    const state = describeConnection(this.#connection)
    if (state.status === this.#state.status && state.cause === this.#state.cause) return
    this.#state = state
    this.#onChange()
  }

  #matchRequest() {
    const { serial } = this.#connection
    const wanted = isActive(this.#connection) ? serial : undefined
    if (this.#request?.serial === wanted) return this.#request
    this.#request?.abort.abort()
    return wanted === undefined ? undefined : this.#start(wanted)
  }

  #start(serial: number) {
    const abort = new AbortController()
    // Of a request that was replaced nothing counts.
    const report = (happening: Happening) => {
      if (this.#request?.serial === serial) this.dispatch(happening)
    }
    // As a microtask: the attempt may end before `#request` is set.
    void Promise.resolve()
      .then(() => this.#attempt(abort.signal, report))
      .then(report)
    return { serial, abort }
  }

  #matchListeners(): void {
    const isWanted = isActive(this.#connection) || this.#connection.phase === 'waiting'
    if (isWanted)
      this.#stopListening ??= this.#deps.page.onWake(() => this.dispatch({ type: 'wake' }))
    else {
      this.#stopListening?.()
      this.#stopListening = undefined
    }
  }

  #arm(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    const at = nextTickAt(this.#connection, this.#deps.page.isHidden())
    if (at === undefined) return
    this.#cancelTimer = this.#deps.clock.after(Math.max(0, at - this.#now()), () => {
      this.#cancelTimer = undefined
      // The page may be hidden now, and then silence means nothing.
      const due = nextTickAt(this.#connection, this.#deps.page.isHidden())
      if (due !== undefined && due <= this.#now()) this.dispatch({ type: 'tick' })
      else this.#arm()
    })
  }
}

/** What an error means for a connection. */
export function happeningOf(error: unknown): Happening {
  // Browsers name the loss of a connection in many ways: whatever we did not cause is one.
  const cause =
    error instanceof ClientError
      ? error
      : new ClientError(error instanceof Error ? error.message : String(error), { cause: error })
  if (cause.isRetryable) return { type: 'lost', cause }
  return { type: cause.status === 404 || cause.status === 410 ? 'gone' : 'refused', cause }
}
