import type { Lease } from '@turnstream/core/internal/log/turn-log'
import {
  ERROR_CODES,
  type ErrorCode,
  hasCode,
  TurnstreamError,
} from '@turnstream/core/internal/protocol/errors'
import type {
  ErrorObject,
  StreamEventPayload,
  Usage,
} from '@turnstream/core/internal/protocol/stream-event'
import { isTurnGone } from '../log/rules.ts'
import type { RoundEnd } from './transcript.ts'
import type { EndReason } from './turn-control.ts'
import type { TurnOutcome } from './turn-observer.ts'

type TurnIds = Pick<Lease, 'turnId' | 'runId'>

/** After these, a call may be incomplete or unintended. */
const UNRELIABLE: ReadonlySet<unknown> = new Set(['length', 'content_filter', 'refusal'])

/** Reported by providers even when they made calls. */
const VAGUE: ReadonlySet<unknown> = new Set([undefined, null, 'stop', 'other'])

/** Returns whether the calls of a round may be run. */
export function isReliable(end: RoundEnd): boolean {
  if (end.type !== 'response_done' || end.status !== 'complete') return false
  return !UNRELIABLE.has(end.finish_reason)
}

/** Returns the end of a turn from its last round. With calls left to the client, `stop` becomes `tool_calls`. */
export function terminalOf(
  end: RoundEnd,
  { turnId, runId }: TurnIds,
  usage: Usage | undefined,
  hasForClient: boolean,
): RoundEnd {
  const spent = usage && { usage }
  switch (end.type) {
    case 'response_error':
      return { ...end, response_id: runId, ...spent }
    case 'turn_aborted_by_user':
      return { ...end, turn_id: turnId, ...spent }
    case 'response_done': {
      const { finish_reason: reason, ...rest } = end
      const finish_reason = hasForClient && VAGUE.has(reason) ? 'tool_calls' : (reason ?? null)
      return { ...rest, response_id: runId, finish_reason, ...spent }
    }
  }
}

/** Returns the end of the round in which a turn was stopped. */
export function stoppedEnd(reason: EndReason, { turnId, runId }: TurnIds): RoundEnd {
  return reason.kind === 'cancelled'
    ? { type: 'turn_aborted_by_user', turn_id: turnId, reason: reason.reason }
    : { type: 'response_error', response_id: runId, error: reason.error }
}

/** Returns what readers see of an error. Others than ours may contain anything: only the operator sees them. */
export function errorObject(error: unknown): ErrorObject {
  if (error instanceof TurnstreamError) return { code: error.code, message: error.message }
  return { code: 'INTERNAL_ERROR', message: ERROR_CODES.INTERNAL_ERROR.summary }
}

export function failed(code: ErrorCode, detail: string): EndReason {
  return { kind: 'failed', error: errorObject(new TurnstreamError(code, detail)) }
}

interface TurnTimes {
  readonly now: number
  readonly since: number
  readonly cancelledAt: number | undefined
}

export function outcomeOf(
  end: RoundEnd | undefined,
  times: TurnTimes,
  isDeleted = false,
): TurnOutcome {
  const { now, since, cancelledAt } = times
  const durationMs = now - since
  if (end === undefined) return { status: isDeleted ? 'deleted' : 'lost', durationMs }
  const known = { durationMs, ...(end.usage && { usage: end.usage }) }
  if (end.type === 'response_done') return { ...known, status: 'completed' }
  if (end.type === 'response_error') return { ...known, status: 'failed', code: end.error.code }
  const cancelled = cancelledAt !== undefined && { cancelMs: now - cancelledAt }
  return { ...known, status: 'aborted', ...cancelled }
}

/** Returns what readers see when a provider throws, although it should not. Only our own messages are shown. */
export function providerFault(error: unknown): ErrorObject {
  const inner = hasCode(error, 'STREAM_ERROR') ? error.cause : error
  if (hasCode(inner, 'TIMEOUT')) return { code: 'UPSTREAM_TIMEOUT', message: inner.message }
  if (inner instanceof TurnstreamError) return errorObject(inner)
  return { code: 'STREAM_ERROR', message: 'The provider stream failed' }
}

/** Returns what the caller of a submit gets when the input was not stored. The caller has no notion of leases. */
export function submitError(turnId: string, cause: unknown): unknown {
  if (!hasCode(cause, 'LEASE_LOST')) return cause
  if (isTurnGone(cause)) return new TurnstreamError('TURN_DELETED', turnId, { cause })
  const detail = `turn ${turnId} was created, but its input could not be stored`
  return new TurnstreamError('STORE_UNAVAILABLE', detail, { cause })
}

/** A terminal event must fit into an append, whatever the provider sent. */
const MAX_END_CHARS = 65_536
/** Every open item of a turn may repeat the error of the turn. */
const MAX_MESSAGE_CHARS = 4000
const MAX_WORD_CHARS = 200

/** Fields that are ours or counted as text, by payload type. */
const COUNTED_ELSEWHERE = {
  item_start: ['type', 'item_id', 'item_type', 'origin', 'initial_content', 'arguments'],
  item_delta: ['type', 'item_id', 'delta_content'],
  item_done: ['type', 'item_id', 'final_item'],
  item_error: ['type', 'item_id'],
  item_cancelled: ['type', 'item_id'],
} as const
const ITEM_FIELDS = ['type', 'id', 'origin', 'success', 'content', 'arguments', 'output']

/** Returns what an event adds to the log besides text and our own fields. Throws for what JSON cannot represent. */
export function extraChars(payload: StreamEventPayload<keyof typeof COUNTED_ELSEWHERE>): number {
  const chars = jsonChars(payload, COUNTED_ELSEWHERE[payload.type])
  if (payload.type !== 'item_done') return chars
  return chars + jsonChars(payload.final_item, ITEM_FIELDS)
}

/** Without the braces, so that an event without other fields costs nothing. */
function jsonChars(fields: object, except: readonly string[]): number {
  const counted = Object.entries(fields).filter(([name]) => !except.includes(name))
  return JSON.stringify(Object.fromEntries(counted)).length - 2
}

/** Returns the storable part of a round's end; `isCut` when something was dropped. */
export function boundEnd(end: RoundEnd): { readonly end: RoundEnd; readonly isCut: boolean } {
  const error = end.type === 'response_error' ? boundError(end.error) : undefined
  const isLongError = error !== undefined && error !== (end as { error?: unknown }).error
  if (!isLongError && charsOf(end) <= MAX_END_CHARS) return { end, isCut: false }
  return { end: knownFields(end), isCut: true }
}

function knownFields(end: RoundEnd): RoundEnd {
  const usage = end.usage && { usage: knownCounts(end.usage) }
  switch (end.type) {
    case 'response_done': {
      const { type, response_id, status, finish_reason, provider_finish_reason: word } = end
      return {
        type,
        response_id: clip(response_id, MAX_WORD_CHARS),
        status,
        finish_reason: finish_reason == null ? null : clip(finish_reason, MAX_WORD_CHARS),
        ...(word != null && { provider_finish_reason: clip(word, MAX_WORD_CHARS) }),
        ...usage,
      }
    }
    case 'response_error': {
      const response_id = clip(end.response_id, MAX_WORD_CHARS)
      return { type: end.type, response_id, error: boundError(end.error), ...usage }
    }
    case 'turn_aborted_by_user': {
      const { type, turn_id, reason } = end
      const cut = reason === undefined ? {} : { reason: clip(reason, MAX_MESSAGE_CHARS) }
      return { type, turn_id: clip(turn_id, MAX_WORD_CHARS), ...cut, ...usage }
    }
  }
}

export function boundError(error: ErrorObject): ErrorObject {
  const { code, message } = error
  if (charsOf(error) <= MAX_MESSAGE_CHARS) return error
  return { code: clip(code, MAX_WORD_CHARS), message: clip(message, MAX_MESSAGE_CHARS) }
}

function knownCounts(usage: Usage): Usage {
  const known = Object.entries(usage).filter(([name]) => Object.hasOwn(USAGE_FIELDS, name))
  return Object.fromEntries(known) as unknown as Usage
}

const USAGE_FIELDS: Record<keyof Usage, true> = {
  prompt_tokens: true,
  completion_tokens: true,
  total_tokens: true,
  cached_tokens: true,
  cache_write_tokens: true,
  reasoning_tokens: true,
  estimated: true,
}

function clip(text: string, chars: number): string {
  return text.length <= chars ? text : `${text.slice(0, chars)}…`
}

function charsOf(value: object): number {
  try {
    return JSON.stringify(value).length
  } catch {
    return Infinity // JSON cannot represent it, so it cannot be stored
  }
}

/** The reason to stop a turn is stored with every item of the turn, so it must be short. */
export function boundEndReason(why: EndReason): EndReason {
  return why.kind === 'cancelled'
    ? { kind: 'cancelled', reason: clip(why.reason, MAX_MESSAGE_CHARS) }
    : { kind: 'failed', error: boundError(why.error) }
}
