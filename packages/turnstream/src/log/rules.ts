import type * as log from '@turnstream/core/internal/log/turn-log'
import { LOG_NAMES } from '@turnstream/core/internal/log/turn-log'
import { ERROR_CODES, hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { EpochStart } from './offsets.ts'
import type { TurnFacts } from './records.ts'
import type { Taken } from './writer.ts'

/** Who may write what. The scripts of Redis (`redis/scripts/`) implement the same rules. */

/** A turn's record outlives its logs, so that a late reader gets TURN_EXPIRED instead of TURN_UNKNOWN. */
export const RECORDS_OUTLIVE_LOGS = 4

export interface LogState {
  readonly head: number
  readonly sealed: boolean
  readonly epochs: readonly EpochStart[]
}

export interface WriteState {
  readonly epoch: number
  /** When the lease expires, in monotonic time. */
  readonly until: number
  readonly logs: Readonly<Record<log.LogName, LogState>>
}

export function firstState(until: number): WriteState {
  const log: LogState = { head: 0, sealed: false, epochs: [{ epoch: 1, from: 1 }] }
  return { epoch: 1, until, logs: { events: log, processed: log } }
}

export function isSealed({ logs }: WriteState): boolean {
  return logs.events.sealed && logs.processed.sealed
}

export function hasRunOut({ until }: Pick<WriteState, 'until'>, now: number): boolean {
  return now >= until
}

export interface HeadState {
  readonly epoch: number
  readonly head: number
  readonly sealed: boolean
}

/** Returns how many of the records are already stored. Throws if the rest cannot be added. */
export function countKnown<Name extends log.LogName>(
  found: HeadState,
  lease: log.Lease,
  log: Name,
  { first, count, seal }: Pick<Taken<Name>, 'first' | 'count' | 'seal'>,
): number {
  const { head, sealed } = found
  checkEpoch(found, lease)
  const known = Math.min(count, Math.max(0, head - first + 1))
  if (sealed && known < count) {
    throw new TurnstreamError('LOG_SEALED', `${log} of turn ${lease.turnId}`)
  }
  if (known < count && first > head + 1) {
    const detail = `${log} of turn ${lease.turnId} has ${head} records, but the next one was ${first}`
    throw new TurnstreamError('LOG_SEQUENCE_GAP', detail)
  }
  const last = first + count - 1
  if (seal !== undefined && !sealed && last < head) {
    const detail = `seal with record ${last}, but ${log} has ${head} records`
    throw new TurnstreamError('RECORD_INVALID', detail)
  }
  return known
}

/** Returns the state after records up to `head` were added and the log was possibly sealed. */
export function appended(before: WriteState, log: log.LogName, head: number, isSeal: boolean) {
  const { epoch, until, logs } = before
  const { sealed, epochs } = logs[log]
  const after: LogState = { head, sealed: sealed || isSeal, epochs }
  const { events, processed } = logs
  const changed = log === 'events' ? { events: after, processed } : { events, processed: after }
  return { epoch, until, logs: changed } satisfies WriteState
}

export function claimed(state: WriteState, turnId: string, now: number, leaseMs: number) {
  if (isSealed(state)) throw new TurnstreamError('LOG_SEALED', `both logs of turn ${turnId}`)
  if (!hasRunOut(state, now)) {
    throw new TurnstreamError('LEASE_HELD', `turn ${turnId}, for another ${state.until - now} ms`)
  }
  const epoch = state.epoch + 1
  const logs = { ...state.logs }
  for (const name of LOG_NAMES) {
    const log = logs[name]
    logs[name] = { ...log, epochs: [...log.epochs, { epoch, from: log.head + 1 }] }
  }
  return { epoch, until: now + leaseMs, logs } satisfies WriteState
}

/** An expired lease stays valid until another process claims the turn. */
export function checkEpoch(state: { readonly epoch: number }, { turnId, epoch }: log.Lease): void {
  if (epoch === state.epoch) return
  const detail = `turn ${turnId} is at epoch ${state.epoch}, not ${epoch}`
  throw new TurnstreamError('LEASE_LOST', detail)
}

type LeaseFacts = Pick<TurnFacts, 'turnId' | 'runId' | 'contentMs'>

/** `until` is a time of day. */
export function leaseOf(
  { facts, creation }: { readonly facts: LeaseFacts; readonly creation: string },
  { epoch, logs }: WriteState,
  until: number,
): log.Lease {
  const { turnId, runId, contentMs } = facts
  const next = { events: logs.events.head + 1, processed: logs.processed.head + 1 }
  const brief = contentMs === undefined ? {} : { contentMs }
  return { turnId, runId, creation, epoch, ...brief, until, next }
}

export class TurnExistsError extends TurnstreamError {
  override readonly name = 'TurnExistsError'
  readonly turn: log.TurnRecord

  constructor(turn: log.TurnRecord) {
    super('TURN_EXISTS', turn.turnId)
    this.turn = turn
  }
}

/** The error for the owner of a deleted turn: LEASE_LOST, caused by TURN_DELETED. */
export function turnGone(turnId: string): TurnstreamError {
  const cause = new TurnstreamError('TURN_DELETED', turnId)
  return new TurnstreamError('LEASE_LOST', `turn ${turnId} was deleted`, { cause })
}

/** Returns whether a lease was lost because its turn was deleted. */
export function isTurnGone(error: unknown): boolean {
  return hasCode(error, 'LEASE_LOST') && hasCode(error.cause, 'TURN_DELETED')
}

/** Throws unless the new turn may replace one that was found in its thread. A repeated creation may. */
export function checkReplaceable(
  { turnId, threadId, replaces }: log.NewTurn,
  found: { readonly replacedBy?: string | undefined } | undefined,
): void {
  if (found === undefined) {
    throw new TurnstreamError('TURN_UNKNOWN', `${replaces} in thread ${threadId}`)
  }
  const { replacedBy = turnId } = found
  if (replacedBy === turnId) return
  throw new TurnstreamError('TURN_REPLACED', `turn ${replaces} by turn ${replacedBy}`)
}

export function newThread(threadId: string, now: number, title?: string): log.ThreadRecord {
  const named = { threadId, ...(title && { title }) }
  return { ...named, creation: crypto.randomUUID(), version: 0, createdAt: now, updatedAt: now }
}

/** Returns whether `found` is the thread that a put should replace. */
export function mayReplace(found?: log.ThreadRecord, replaces?: log.Replaced): boolean {
  if (replaces === undefined) return true
  return found?.creation === replaces?.creation && found?.version === replaces?.version
}

export function corrupt(detail: string, options?: ErrorOptions): TurnstreamError {
  return new TurnstreamError('STORE_CORRUPT', detail, options)
}

export function storeClosed(): TurnstreamError {
  return new TurnstreamError('STORE_CLOSED', 'the log was closed')
}

/** Returns whether the same call may succeed later. */
export function isRetryable(error: unknown): boolean {
  return error instanceof TurnstreamError && ERROR_CODES[error.code].retryable
}
