import { ClientError } from './errors.ts'

/** The phase of a connection, from the first request to the end. */
export type Phase = 'idle' | 'connecting' | 'live' | 'waiting' | 'ended' | 'failed'

/** Everything that decides what a connection does next. Times are in ms, on the clock of `transition`. */
export interface Connection {
  readonly phase: Phase
  /** Aborts the request in flight. A new controller stands for a new request. */
  readonly request?: AbortController | undefined
  /** The longest delay after the next loss. A connection that lived for 5 s starts over. */
  readonly delayMs: number
  /** When it went live or, after a loss, until when the server asks to wait. */
  readonly since: number
  /** The server sends something at least this often: an assumption, until it announces its own interval. */
  readonly pingMs: number
  /** When to connect again or, with a request in flight, when silence counts as a loss. Infinity for never. */
  readonly dueAt: number
  /** When to show that there is no connection. Most cuts heal sooner. */
  readonly overdueAt: number
  readonly hasOpened: boolean
  readonly cause?: ClientError | undefined
}

export type LinkEvent =
  | 'open' // a listener subscribes
  | 'close' // the last listener unsubscribes
  | 'opened' // the stream begins
  | 'heard' // bytes arrive
  | 'lost' // the connection breaks, or the server asks to retry later
  | 'refused' // the server refuses, and would again
  | 'gone' // the turn or thread does not exist, or no longer
  | 'over' // everything has arrived
  | 'tick' // the timer of `nextTickAt` fires
  | 'hidden' // the page is hidden, and does not need the stream
  | 'wake' // the page is visible again, or the network is back

export interface EventData {
  /** With `lost`, `refused` and `gone`. */
  readonly cause?: ClientError | undefined
  /** With `opened` and `heard`, if another interval holds from now on. */
  readonly pingMs?: number | undefined
}

export interface EventContext extends EventData {
  readonly now: number
  /** From 0 to 1, for jitter. */
  readonly random: number
  readonly isHidden: boolean
}

/** The longest back-off, and the longest heartbeat interval to assume before the server announces its own. */
export const LONG_MS = 15_000

export const IDLE: Connection = {
  phase: 'idle',
  delayMs: 250,
  since: 0,
  pingMs: LONG_MS,
  dueAt: Infinity,
  overdueAt: Infinity,
  hasOpened: false,
}

const close = ({ hasOpened }: Connection) => ({ ...IDLE, hasOpened })

const expectNext = (at: Connection, { now, pingMs = at.pingMs }: EventContext) => ({
  ...at,
  pingMs,
  dueAt: now + 2 * pingMs,
})

/**
 * Waits 5 s for the first response, because a browser may reuse a socket that died unnoticed, and up to 30 s after
 * losses, because the server may be slow.
 */
const connect = (at: Connection, context: EventContext) => {
  const pingMs = Math.min(LONG_MS, 10 * at.delayMs)
  return expectNext({ ...at, phase: 'connecting', request: new AbortController(), pingMs }, context)
}

const overdueAfter = ({ overdueAt }: Connection, { now }: EventContext) =>
  Math.min(overdueAt, now + 3000)

const lose = (at: Connection, context: EventContext): Connection => {
  const { now, random, cause } = context
  // One that lived for 5 s was good: the next one starts without delay.
  const wasGood = at.phase === 'live' && now - at.since >= 5000
  const delayMs = wasGood ? IDLE.delayMs : at.delayMs
  const since = now + (cause?.retryAfterMs ?? 0)
  return {
    ...at,
    phase: 'waiting',
    request: undefined,
    since,
    cause,
    delayMs: Math.min(LONG_MS, 2 * delayMs),
    dueAt: Math.max(now + random * delayMs, since),
    overdueAt: overdueAfter(at, context),
  }
}

const timeOut = (at: Connection, context: EventContext) =>
  lose(at, { ...context, cause: new ClientError('Timed out') })

const settle =
  (phase?: Phase) =>
  (at: Connection, { cause }: EventContext): Connection => {
    return { ...IDLE, phase: phase ?? (at.hasOpened ? 'ended' : 'failed'), cause }
  }

/** Releases the stream until the page is shown. */
const release = (at: Connection): Connection => ({
  ...at,
  phase: 'waiting',
  request: undefined,
  dueAt: Infinity,
  overdueAt: Infinity,
})

/** Connects, unless the server asked to wait longer. */
const retry = (at: Connection, context: EventContext) =>
  context.now >= at.since ? connect({ ...at, overdueAt: overdueAfter(at, context) }, context) : at

type Step = (at: Connection, context: EventContext) => Connection
type Row = Partial<Record<LinkEvent, Step>>

const ACTIVE: Row = {
  close,
  heard: expectNext,
  lost: lose,
  refused: settle('failed'),
  gone: settle(),
  over: settle('ended'),
  hidden: release,
  // Timers of hidden pages are late, and would end healthy streams.
  tick: (at, context) => (!context.isHidden && context.now >= at.dueAt ? timeOut(at, context) : at),
  wake: (at, context) =>
    context.now > at.dueAt - at.pingMs ? connect(timeOut(at, context), context) : at,
}

/** What each event does in each phase: nothing, if it is not listed. docs/client.md has the same table. */
const TABLE: Record<Phase, Row> = {
  idle: { open: connect },
  connecting: {
    ...ACTIVE,
    opened: (at, context) => {
      const live: Connection = {
        ...at,
        phase: 'live',
        since: context.now,
        overdueAt: Infinity,
        hasOpened: true,
        cause: undefined,
      }
      return expectNext(live, context)
    },
  },
  live: ACTIVE,
  waiting: {
    close,
    refused: settle('failed'),
    open: retry,
    wake: retry,
    tick: (at, context) => (context.now >= at.dueAt ? connect(at, context) : at),
  },
  // What was deleted may exist again.
  ended: { open: (at, context) => (at.cause ? connect(at, context) : at) },
  failed: { open: connect },
}

/** Returns the state after an event; the same object when it changes nothing. */
export const transition = (at: Connection, event: LinkEvent, context: EventContext) =>
  TABLE[at.phase][event]?.(at, context) ?? at

/** When `tick` is due; Infinity for never. */
export const nextTickAt = (
  { request, dueAt, overdueAt }: Connection,
  { now, isHidden }: EventContext,
): number =>
  Math.min(isHidden && request ? Infinity : dueAt, overdueAt > now ? overdueAt : Infinity)

/** What to show of a connection. */
export interface ConnectionState {
  /**
   * `reconnecting` after 3 s without a connection; shorter cuts are not worth showing. `ended` when everything arrived
   * or it was deleted, `failed` when the server refused.
   */
  readonly status: 'idle' | 'connecting' | 'live' | 'reconnecting' | 'ended' | 'failed'
  /** Why there is no connection. */
  readonly cause?: ClientError | undefined
  /** When to try again, in ms since the epoch. Undefined while it is tried. */
  readonly retryAt?: number | undefined
}

export const IDLE_STATE: ConnectionState = { status: 'idle' }

export const describeConnection = (at: Connection, now: number): ConnectionState => {
  const { phase, cause, hasOpened } = at
  const isTrying = phase === 'connecting' || phase === 'waiting'
  if (isTrying && hasOpened && now < at.overdueAt) return { status: 'live' }
  const status = !isTrying ? phase : hasOpened ? 'reconnecting' : 'connecting'
  return { status, cause, retryAt: phase === 'waiting' ? at.dueAt : undefined }
}
