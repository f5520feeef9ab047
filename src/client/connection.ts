import { ClientError } from './errors.ts'

/** Of a stream, from the first request to its end. */
export type Phase = 'idle' | 'connecting' | 'live' | 'waiting' | 'ended' | 'failed'

/** Everything that decides what a stream does next. Times are on the clock of `transition`. */
export interface Connection {
  readonly phase: Phase
  /** Stands for the request that is, or should be, open. Another object replaces it. */
  readonly request?: object | undefined
  /** Connections lost in a row. One that lived for 5 s starts over. */
  readonly failures: number
  /** When it went live. Of one that was lost: until when the server asks to wait. */
  readonly since: number
  /** Announced by the server: it sends something at least this often. */
  readonly pingMs: number
  /** When to connect again, or after so much silence the request is lost. Infinity when nothing is awaited. */
  readonly dueAt: number
  /** Since when there is no connection. */
  readonly lostAt?: number | undefined
  readonly hasOpened: boolean
  readonly cause?: ClientError | undefined
}

/** What comes with a happening. */
export interface Fact {
  /** Of `lost`, `refused` and `gone`. */
  readonly cause?: ClientError | undefined
  /** Of `opened`, if the server announced it. */
  readonly pingMs?: number | undefined
}

export type Happening =
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

export interface Moment {
  readonly now: number
  /** From 0 to 1, for jitter. */
  readonly random: number
  readonly isHidden: boolean
}

/** Of back-off, and of heartbeats until the server announces its own. */
export const LONG_MS = 15_000
/** Most cuts heal sooner. */
const OVERDUE_AFTER_MS = 3000

export const IDLE: Connection = {
  phase: 'idle',
  failures: 0,
  since: 0,
  pingMs: LONG_MS,
  dueAt: Infinity,
  hasOpened: false,
}

const close = ({ hasOpened }: Connection) => ({ ...IDLE, hasOpened })

const hear = (at: Connection, { now }: Moment) => ({ ...at, dueAt: now + 2 * at.pingMs })

const connect = (at: Connection, moment: Moment) =>
  hear({ ...at, phase: 'connecting', request: {} }, moment)

const reopen = (_at: Connection, moment: Moment) => connect(IDLE, moment)

const lose = (at: Connection, { now, random }: Moment, { cause }: Fact): Connection => {
  const baseDelayMs = 250
  // One that lived this long was good: the next one starts without delay.
  const goodAfterMs = 5000
  const wasGood = at.phase === 'live' && now - at.since >= goodAfterMs
  const failures = wasGood ? 0 : at.failures
  const delay = random * Math.min(LONG_MS, baseDelayMs * 2 ** failures)
  const since = now + (cause?.retryAfterMs ?? 0)
  return {
    ...at,
    phase: 'waiting',
    request: undefined,
    since,
    cause,
    failures: failures + 1,
    dueAt: Math.max(now + delay, since),
    lostAt: at.lostAt ?? now,
  }
}

const settle =
  (phase?: Phase) =>
  (at: Connection, _moment: Moment, { cause }: Fact): Connection => {
    return { ...IDLE, phase: phase ?? (at.hasOpened ? 'ended' : 'failed'), cause }
  }

/** As long as the server asks to wait, nothing helps. */
const retry = (at: Connection, moment: Moment) =>
  moment.now >= at.since ? connect(at, moment) : at

type Step = (at: Connection, moment: Moment, fact: Fact) => Connection
type Row = Partial<Record<Happening, Step>>

const ACTIVE: Row = {
  close,
  heard: hear,
  lost: lose,
  refused: settle('failed'),
  gone: settle(),
  over: settle('ended'),
  // Timers of hidden pages are late, and would end healthy streams.
  tick: (at, moment) =>
    !moment.isHidden && moment.now >= at.dueAt
      ? lose(at, moment, { cause: new ClientError('Silence') })
      : at,
  wake: (at, moment) =>
    moment.now > at.dueAt - at.pingMs ? connect(lose(at, moment, at), moment) : at,
}

/** What each happening does in each phase: nothing, if it is not listed. docs/client.md has the same table. */
const TABLE: Record<Phase, Row> = {
  idle: { open: connect },
  connecting: {
    ...ACTIVE,
    opened: (at, moment, { pingMs = at.pingMs }) =>
      hear(
        {
          ...at,
          phase: 'live',
          since: moment.now,
          pingMs,
          hasOpened: true,
          lostAt: undefined,
          cause: undefined,
        },
        moment,
      ),
  },
  live: ACTIVE,
  waiting: {
    close,
    refused: settle('failed'),
    open: retry,
    wake: retry,
    tick: (at, moment) => (moment.now >= at.dueAt ? connect(at, moment) : at),
  },
  // What was deleted may exist again.
  ended: { open: (at, moment) => (at.cause ? reopen(at, moment) : at) },
  failed: { open: reopen },
}

/** Returns the state after a happening; the same object when it changes nothing. */
export const transition = (at: Connection, happening: Happening, moment: Moment, fact: Fact = {}) =>
  TABLE[at.phase][happening]?.(at, moment, fact) ?? at

/** When `tick` is due; Infinity for never. */
export function nextTickAt(at: Connection, { now, isHidden }: Moment): number {
  const { lostAt = Number.NaN } = at
  const next = isHidden && at.request ? Infinity : at.dueAt
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
  readonly cause?: ClientError | undefined
}

export const IDLE_STATE: ConnectionState = { status: 'idle' }

export function describeConnection(at: Connection, now: number): ConnectionState {
  const { phase, hasOpened, cause, lostAt = now } = at
  if (phase !== 'connecting' && phase !== 'waiting') return { status: phase, cause }
  if (!hasOpened) return { status: 'connecting', cause }
  return now - lostAt < OVERDUE_AFTER_MS ? { status: 'live' } : { status: 'reconnecting', cause }
}
