import { TurnstreamError } from '../protocol/errors.ts'
import type { EpochStart } from './offsets.ts'
import { type Lease, LOG_NAMES, type LogName, type NewRecord } from './turn-log.ts'

/*
 * Who may write what. The backends that decide in this process share these rules; Redis decides in its
 * own, by scripts that say the same (`redis/scripts.ts`).
 */

export interface LogState {
  readonly head: number
  readonly sealed: boolean
  readonly epochs: readonly EpochStart[]
}

export interface WriteState {
  readonly epoch: number
  /** When the lease runs out. */
  readonly until: number
  readonly logs: Readonly<Record<LogName, LogState>>
}

export function firstState(until: number): WriteState {
  const log: LogState = { head: 0, sealed: false, epochs: [{ epoch: 1, from: 1 }] }
  return { epoch: 1, until, logs: { events: log, processed: log } }
}

export function isSealed({ logs }: WriteState): boolean {
  return logs.events.sealed && logs.processed.sealed
}

export function hasRunOut(state: WriteState, now: number): boolean {
  return now >= state.until
}

export interface Append {
  readonly lease: Lease
  readonly log: LogName
  readonly records: readonly NewRecord[]
  readonly seal: boolean
  readonly response?: string | undefined
}

/** A log as a writer finds it. */
export interface HeadState {
  readonly epoch: number
  readonly head: number
  readonly sealed: boolean
}

/** The records that the log does not have yet; an error if they cannot be added. */
export function freshRecords(state: WriteState, append: Append): readonly NewRecord[] {
  const { head, sealed } = state.logs[append.log]
  return freshAfter({ epoch: state.epoch, head, sealed }, append)
}

export function freshAfter(found: HeadState, append: Append): readonly NewRecord[] {
  const { lease, log, records, seal } = append
  checkEpoch(found, lease)
  const { head, sealed } = found
  // Nearly always all of them are new, and this runs once per token.
  const first = records[0]
  const fresh = first !== undefined && first.seq > head ? records : later(records, head)
  if (sealed && (fresh.length > 0 || records.length === 0)) {
    throw new TurnstreamError('LOG_SEALED', `${log} of turn ${lease.turnId}`)
  }
  const next = fresh[0]
  if (next !== undefined && next.seq !== head + 1) {
    const detail = `${log} of turn ${lease.turnId} has ${head} records, and ${next.seq} came next`
    throw new TurnstreamError('LOG_SEQUENCE_GAP', detail)
  }
  const last = records.at(-1)
  if (seal && !sealed && last !== undefined && last.seq < head) {
    const detail = `a seal with record ${last.seq}, and ${log} has ${head}`
    throw new TurnstreamError('RECORD_INVALID', detail)
  }
  return fresh
}

function later(records: readonly NewRecord[], head: number): readonly NewRecord[] {
  return records.filter(({ seq }) => seq > head)
}

export function appended(state: WriteState, { log, seal }: Append, head: number): WriteState {
  const { epoch, until, logs } = state
  const { sealed, epochs } = logs[log]
  const after: LogState = { head, sealed: sealed || seal, epochs }
  const { events, processed } = logs
  return log === 'events'
    ? { epoch, until, logs: { events: after, processed } }
    : { epoch, until, logs: { events, processed: after } }
}

export function claimed(
  state: WriteState,
  turnId: string,
  now: number,
  leaseMs: number,
): WriteState {
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
  return { epoch, until: now + leaseMs, logs }
}

export interface Renewal {
  readonly lease: Lease
  readonly now: number
  readonly leaseMs: number
}

/** Also after the lease ran out: as long as nobody has claimed the turn, its owner may go on. */
export function renewed(state: WriteState, { lease, now, leaseMs }: Renewal): WriteState {
  checkEpoch(state, lease)
  return { ...state, until: now + leaseMs }
}

export function checkEpoch(state: { readonly epoch: number }, { turnId, epoch }: Lease): void {
  if (epoch === state.epoch) return
  const detail = `turn ${turnId} is at epoch ${state.epoch}, not ${epoch}`
  throw new TurnstreamError('LEASE_LOST', detail)
}

export function leaseOf(
  ids: Pick<Lease, 'turnId' | 'runId' | 'creation'>,
  state: WriteState,
): Lease {
  const { epoch, until, logs } = state
  const next = { events: logs.events.head + 1, processed: logs.processed.head + 1 }
  const { turnId, runId, creation } = ids
  return { turnId, runId, creation, epoch, until, next }
}
