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
  /** Since when there is no connection. */
  readonly lostAt?: number | undefined
  readonly hasOpened: boolean
  readonly cause?: ClientError | undefined
}

/** What comes with a happening. */
interface Fact {
  /** Of `lost`, `refused` and `gone`. */
  readonly cause?: ClientError | undefined
  /** Of `opened`, if the server announced it. */
  readonly pingMs?: number | undefined
}

export interface Happening extends Fact {
  readonly type:
    | 'open' // somebody wants the stream
    | 'close' // nobody does any more
    | 'opened' // the server sends the stream
    | 'heard' // bytes arrived
    | 'lost' // the connection broke, or the server asks to try later
    | 'refused' // the server refused, and would again
    | 'gone' // what was streamed does not exist, or no longer
    | 'over' // everything arrived
    | 'tick' // the time of `nextTickAt` has come
    | 'wake' // the page is visible again, or the network is back
}

export interface Moment {
  readonly now: number
  /** From 0 to 1, for jitter. */
  readonly random: number
  readonly isHidden: boolean
}

const BASE_DELAY_MS = 250
/** Of back-off, and of heartbeats until the server announces its own. */
export const LONG_MS = 15_000
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
  pingMs: LONG_MS,
  retryAt: 0,
  hasOpened: false,
}

const startOver = ({ serial, pingMs }: Connection) => ({ ...IDLE, serial, pingMs })

const close = (at: Connection) => ({ ...startOver(at), hasOpened: at.hasOpened })

const connect = (at: Connection, { now }: Moment): Connection => {
  return { ...at, phase: 'connecting', serial: at.serial + 1, since: now, heardAt: now }
}

const reopen = (at: Connection, moment: Moment) => connect(startOver(at), moment)

const lose = (at: Connection, { now, random }: Moment, { cause }: Fact): Connection => {
  const wasGood = at.phase === 'live' && now - at.since >= GOOD_AFTER_MS
  const failures = wasGood ? 0 : at.failures
  const delay = random * Math.min(LONG_MS, BASE_DELAY_MS * 2 ** failures)
  return {
    ...at,
    phase: 'waiting',
    since: now,
    cause,
    failures: failures + 1,
    retryAt: now + Math.max(delay, cause?.retryAfterMs ?? 0),
    lostAt: at.lostAt ?? now,
  }
}

const settle =
  (phase?: Phase) =>
  (at: Connection, _moment: Moment, { cause }: Fact): Connection => {
    return { ...at, phase: phase ?? (at.hasOpened ? 'ended' : 'failed'), cause }
  }

/** As long as the server asks to wait, nothing helps. */
const retry = (at: Connection, moment: Moment) =>
  moment.now >= at.since + (at.cause?.retryAfterMs ?? 0) ? connect(at, moment) : at

type Step = (at: Connection, moment: Moment, fact: Fact) => Connection
type Row = Partial<Record<Happening['type'], Step>>

const ACTIVE: Row = {
  close,
  heard: (at, { now }) => ({ ...at, heardAt: now }),
  lost: lose,
  refused: settle('failed'),
  gone: settle(),
  over: settle('ended'),
  // Timers of hidden pages are late, and would end healthy streams.
  tick: (at, moment) =>
    !moment.isHidden && moment.now - at.heardAt >= 2 * at.pingMs
      ? lose(at, moment, { cause: new ClientError('Silence') })
      : at,
  wake: (at, moment) =>
    moment.now - at.heardAt > at.pingMs
      ? connect({ ...at, lostAt: at.lostAt ?? moment.now }, moment)
      : at,
}

/** What each happening does in each phase: nothing, if it is not listed. docs/client.md has the same table. */
const TABLE: Record<Phase, Row> = {
  idle: { open: connect },
  connecting: {
    ...ACTIVE,
    opened: (at, { now }, { pingMs = at.pingMs }) => {
      const none = { lostAt: undefined, cause: undefined }
      return { ...at, phase: 'live', since: now, heardAt: now, pingMs, hasOpened: true, ...none }
    },
  },
  live: ACTIVE,
  waiting: {
    close,
    refused: settle('failed'),
    open: retry,
    wake: retry,
    tick: (at, moment) => (moment.now >= at.retryAt ? connect(at, moment) : at),
  },
  // What was deleted may exist again.
  ended: { open: (at, moment) => (at.cause ? reopen(at, moment) : at) },
  failed: { open: reopen },
}

/** Returns the state after a happening; the same object when it changes nothing. */
export const transition = (at: Connection, happening: Happening, moment: Moment): Connection =>
  TABLE[at.phase][happening.type]?.(at, moment, happening) ?? at

/** Whether a request is, or should be, open. */
export const isActive = ({ phase }: Connection): boolean =>
  phase === 'connecting' || phase === 'live'

/** When `tick` is due; Infinity for never. */
export function nextTickAt(at: Connection, { now, isHidden }: Moment): number {
  const { phase, retryAt, heardAt, pingMs, lostAt = Number.NaN } = at
  let next = Infinity
  if (phase === 'waiting') next = retryAt
  else if (!isActive(at)) return next
  else if (!isHidden) next = heardAt + 2 * pingMs
  const overdueAt = lostAt + OVERDUE_AFTER_MS
  return overdueAt > now ? Math.min(next, overdueAt) : next
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

export function describeConnection(at: Connection, now: number): ConnectionState {
  const { phase, hasOpened, cause, lostAt = now } = at
  const shown = cause && { cause }
  if (phase !== 'connecting' && phase !== 'waiting') return { status: phase, ...shown }
  if (!hasOpened) return { status: 'connecting', ...shown }
  return now - lostAt < OVERDUE_AFTER_MS ? { status: 'live' } : { status: 'reconnecting', ...shown }
}
