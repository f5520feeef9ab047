import { ClientError } from './errors.ts'

/** Of a stream, from the first request to its end. */
export type Phase = 'idle' | 'connecting' | 'live' | 'waiting' | 'ended' | 'failed'

/** Everything that decides what a stream does next. Times are on the clock of `transition`. */
export interface Connection {
  readonly phase: Phase
  /** Of the current request. A new number replaces the request that is open. */
  readonly serial: number
  /** Connections lost in a row. One that lived for 5 s starts over. */
  readonly failures: number
  /** When the phase began. */
  readonly since: number
  /** When the last byte arrived, or the request was sent. */
  readonly heardAt: number
  /** Announced by the server: it sends something at least this often. */
  readonly pingMs: number
  /** When to connect again. */
  readonly retryAt: number
  /** Since when there is no connection, after there was one. */
  readonly lostAt: number | undefined
  /** Without a connection for so long that a user should know. */
  readonly isOverdue: boolean
  readonly hasOpened: boolean
  readonly cause: ClientError | undefined
}

export type Happening =
  /** Somebody wants the stream. */
  | { readonly type: 'open' }
  /** Nobody does any more. */
  | { readonly type: 'close' }
  /** The server sends the stream. */
  | { readonly type: 'opened' }
  /** Bytes arrived. */
  | { readonly type: 'heard'; readonly pingMs?: number }
  /** The connection broke, or the server asks to try later. */
  | { readonly type: 'lost'; readonly cause: ClientError }
  /** The server refused, and would again. */
  | { readonly type: 'refused'; readonly cause: ClientError }
  /** What was streamed does not exist, or no longer. */
  | { readonly type: 'gone'; readonly cause: ClientError }
  /** Everything arrived. */
  | { readonly type: 'over' }
  /** The time of `nextTickAt` has come. */
  | { readonly type: 'tick' }
  /** The page is visible again, or the network is back. */
  | { readonly type: 'wake' }

export interface Moment {
  readonly now: number
  /** From 0 to 1, for jitter. */
  readonly random: number
}

const DEFAULT_PING_MS = 15_000
const BASE_DELAY_MS = 250
const MAX_DELAY_MS = 15_000
/** A connection that lived this long was good: the next one starts without delay. */
const GOOD_AFTER_MS = 5000
/** Most cuts heal sooner. */
const OVERDUE_AFTER_MS = 3000

export const IDLE: Connection = {
  phase: 'idle',
  serial: 0,
  failures: 0,
  since: 0,
  heardAt: 0,
  pingMs: DEFAULT_PING_MS,
  retryAt: 0,
  lostAt: undefined,
  isOverdue: false,
  hasOpened: false,
  cause: undefined,
}

/** Returns the state after a happening; the same object when it changes nothing. docs/client.md has the table. */
export function transition(at: Connection, happening: Happening, moment: Moment): Connection {
  switch (at.phase) {
    case 'idle':
      return happening.type === 'open' ? connect(at, moment) : at
    case 'connecting':
    case 'live':
      return whileActive(at, happening, moment)
    case 'waiting':
      return whileWaiting(at, happening, moment)
    case 'ended':
      // What was deleted may exist again.
      return happening.type === 'open' && at.cause
        ? connect({ ...close(at), hasOpened: false }, moment)
        : at
    case 'failed':
      return happening.type === 'open' ? connect({ ...at, failures: 0 }, moment) : at
  }
}

function whileActive(at: Connection, happening: Happening, moment: Moment): Connection {
  const { now } = moment
  switch (happening.type) {
    case 'open':
      return at
    case 'close':
      return close(at)
    case 'opened':
      return at.phase === 'live' ? at : opened(at, now)
    case 'heard':
      return { ...at, heardAt: now, pingMs: happening.pingMs ?? at.pingMs }
    case 'lost':
      return lose(at, happening.cause, moment)
    case 'refused':
      return { ...at, phase: 'failed', since: now, cause: happening.cause }
    case 'gone':
      return { ...at, phase: at.hasOpened ? 'ended' : 'failed', since: now, cause: happening.cause }
    case 'over':
      return { ...at, phase: 'ended', since: now, cause: undefined }
    case 'tick':
      return silence(at, now) >= 2 * at.pingMs ? lose(at, silent(), moment) : noteOverdue(at, now)
    case 'wake':
      return silence(at, now) > at.pingMs ? connect({ ...at, lostAt: lostAt(at, now) }, moment) : at
  }
}

function whileWaiting(at: Connection, happening: Happening, moment: Moment): Connection {
  const { now } = moment
  switch (happening.type) {
    case 'close':
      return close(at)
    case 'tick':
      return now >= at.retryAt ? connect(at, moment) : noteOverdue(at, now)
    case 'open':
    case 'wake':
      return now >= at.since + (at.cause?.retryAfterMs ?? 0) ? connect(at, moment) : at
    // Of a request that was given up.
    default:
      return at
  }
}

function close({ serial, pingMs, hasOpened }: Connection): Connection {
  return { ...IDLE, serial, pingMs, hasOpened }
}

function connect(at: Connection, { now }: Moment): Connection {
  return noteOverdue(
    { ...at, phase: 'connecting', serial: at.serial + 1, since: now, heardAt: now },
    now,
  )
}

function opened(at: Connection, now: number): Connection {
  const none = { lostAt: undefined, isOverdue: false, cause: undefined }
  return { ...at, phase: 'live', since: now, heardAt: now, hasOpened: true, ...none }
}

function lose(at: Connection, cause: ClientError, { now, random }: Moment): Connection {
  const wasGood = at.phase === 'live' && now - at.since >= GOOD_AFTER_MS
  const failures = wasGood ? 0 : at.failures
  const delay = random * Math.min(MAX_DELAY_MS, BASE_DELAY_MS * 2 ** failures)
  const lost: Connection = {
    ...at,
    phase: 'waiting',
    since: now,
    cause,
    failures: failures + 1,
    retryAt: now + Math.max(delay, cause.retryAfterMs),
    lostAt: lostAt(at, now),
  }
  return noteOverdue(lost, now)
}

function lostAt(at: Connection, now: number): number | undefined {
  return at.lostAt ?? (at.hasOpened ? now : undefined)
}

function noteOverdue(at: Connection, now: number): Connection {
  const isOverdue = at.lostAt !== undefined && now - at.lostAt >= OVERDUE_AFTER_MS
  return isOverdue === at.isOverdue ? at : { ...at, isOverdue }
}

function silent(): ClientError {
  return new ClientError('The server is silent')
}

function silence({ heardAt }: Connection, now: number): number {
  return now - heardAt
}

/** Whether a request is, or should be, open. */
export function isActive({ phase }: Connection): boolean {
  return phase === 'connecting' || phase === 'live'
}

/**
 * When `tick` is due. A hidden page is not watched for silence: its timers are late, and would end healthy streams. It
 * is judged when it is visible again.
 */
export function nextTickAt(at: Connection, isHidden: boolean): number | undefined {
  const times: number[] = []
  if (at.phase === 'waiting') times.push(at.retryAt)
  if (isActive(at) && !isHidden) times.push(at.heardAt + 2 * at.pingMs)
  const isLost = at.phase === 'waiting' || at.phase === 'connecting'
  if (isLost && at.lostAt !== undefined && !at.isOverdue) times.push(at.lostAt + OVERDUE_AFTER_MS)
  return times.length === 0 ? undefined : Math.min(...times)
}

/** What to show of a connection. */
export interface ConnectionState {
  /**
   * `reconnecting` after 3 s without a connection; shorter cuts are not worth showing. `ended` when everything arrived
   * or it was deleted, `failed` when the server refused.
   */
  readonly status: 'idle' | 'connecting' | 'live' | 'reconnecting' | 'ended' | 'failed'
  /** Why there is no connection. */
  readonly cause?: ClientError
}

export function describeConnection(at: Connection): ConnectionState {
  const cause = at.cause && { cause: at.cause }
  if (at.phase !== 'connecting' && at.phase !== 'waiting') return { status: at.phase, ...cause }
  if (at.isOverdue) return { status: 'reconnecting', ...cause }
  return at.hasOpened ? { status: 'live' } : { status: 'connecting', ...cause }
}
