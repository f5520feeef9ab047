import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'
import type { Usage } from '../protocol/usage.ts'
import type { RoundEnd } from './transcript.ts'
import type { EndReason } from './turn-control.ts'
import type { TurnOutcome } from './turn-observer.ts'

interface TurnIds {
  readonly turnId: string
  readonly runId: string
}

export type Terminal = RoundEnd

/** After these a call may be cut off in the middle, or was never meant. */
const UNRELIABLE: ReadonlySet<unknown> = new Set(['length', 'content_filter', 'refusal'])

/** Said by providers that made calls none the less. */
const VAGUE: ReadonlySet<unknown> = new Set([undefined, null, 'stop', 'other'])

/** Whether the calls of a round may be run. */
export function isReliable(end: RoundEnd): boolean {
  if (end.type !== 'response_done' || end.status !== 'complete') return false
  return !UNRELIABLE.has(end.finish_reason)
}

/** The end of a turn as its last round ended; with calls that are left to the client, it is for them. */
export function naturalEnd(
  end: RoundEnd,
  { turnId, runId }: TurnIds,
  usage: Usage | undefined,
  hasForClient: boolean,
): Terminal {
  switch (end.type) {
    case 'response_error':
      return { ...end, response_id: runId, ...(usage && { usage }) }
    case 'turn_aborted_by_user':
      return { ...end, turn_id: turnId, ...(usage && { usage }) }
    case 'response_done': {
      const { finish_reason: reason, ...rest } = end
      const finish_reason = hasForClient && VAGUE.has(reason) ? 'tool_calls' : (reason ?? null)
      return { ...rest, response_id: runId, finish_reason, ...(usage && { usage }) }
    }
  }
}

/** The end of a turn that was stopped. What it had cost by then has to be paid. */
export function stoppedEnd(
  reason: EndReason,
  { turnId, runId }: TurnIds,
  usage: Usage | undefined,
): Terminal {
  const spent = usage && { usage }
  return reason.kind === 'cancelled'
    ? { type: 'turn_aborted_by_user', turn_id: turnId, reason: reason.reason, ...spent }
    : { type: 'response_error', response_id: runId, error: reason.error, ...spent }
}

/** What readers are told of an error: what is not ours may hold anything, and stays with the operator. */
export function errorObject(error: unknown): ErrorObject {
  if (error instanceof TurnstreamError) return { code: error.code, message: error.message }
  const code: ErrorCode = 'INTERNAL_ERROR'
  return { code, message: ERROR_CODES[code].summary }
}

export function failed(code: ErrorCode, detail: string): EndReason {
  return { kind: 'failed', error: errorObject(new TurnstreamError(code, detail)) }
}

interface TurnTimes {
  readonly now: number
  /** When the turn was submitted. */
  readonly since: number
  /** When it was asked to stop, if it was. */
  readonly cancelledAt: number | undefined
}

/** The end of a turn for those who count; a turn that got none was lost or deleted. */
export function outcomeOf(
  end: Terminal | undefined,
  times: TurnTimes,
  isDeleted = false,
): TurnOutcome {
  const { now, since, cancelledAt } = times
  const durationMs = now - since
  if (end === undefined) return { status: isDeleted ? 'deleted' : 'lost', durationMs }
  const known = { durationMs, ...(end.usage && { usage: end.usage }) }
  switch (end.type) {
    case 'response_error':
      return { ...known, status: 'failed', code: end.error.code }
    case 'turn_aborted_by_user':
      return {
        ...known,
        status: 'aborted',
        ...(cancelledAt !== undefined && { cancelMs: now - cancelledAt }),
      }
    case 'response_done':
      return { ...known, status: 'completed' }
  }
}
