import { ERROR_CODES, type ErrorCode, hasCode, TurnstreamError } from '../protocol/errors.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import {
  type ErrorObject,
  type StreamEventPayload,
  type Usage,
  usageSchema,
} from '../protocol/stream-event.ts'
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

/**
 * What readers are told of a provider that threw, although it should not. Messages of ours are made to be
 * read by anybody; what others throw may hold anything, and stays with the operator.
 */
export function providerFault(error: unknown): ErrorObject {
  const inner = hasCode(error, 'STREAM_ERROR') ? error.cause : error
  if (hasCode(inner, 'TIMEOUT')) return { code: 'UPSTREAM_TIMEOUT', message: inner.message }
  if (inner instanceof TurnstreamError) return { code: inner.code, message: inner.message }
  return { code: 'STREAM_ERROR', message: 'The stream of the provider failed' }
}

/** A terminal event must fit into an append whatever its provider put there. */
const MAX_END_CHARS = 65_536
/** Every open item of a turn may get the error of the turn. */
const MAX_MESSAGE_CHARS = 4000
const MAX_WORD_CHARS = 200

type ItemPayload = StreamEventPayload<
  'item_start' | 'item_delta' | 'item_done' | 'item_error' | 'item_cancelled'
>

/**
 * How much an event adds to the log besides the text of its item and what is ours: names, call ids,
 * metadata, errors and unknown fields, as JSON. Throws for what JSON cannot say.
 */
export function extraChars(payload: ItemPayload): number {
  switch (payload.type) {
    case 'item_delta': {
      const { type: _type, item_id: _id, delta_content: _text, ...rest } = payload
      return jsonChars(rest)
    }
    case 'item_start': {
      const { type: _type, item_id: _id, item_type: _itemType, origin: _origin, ...rest } = payload
      const { initial_content: _text, arguments: _arguments, ...extra } = rest
      return jsonChars(extra)
    }
    case 'item_done': {
      const { type: _type, item_id: _id, final_item, ...rest } = payload
      return jsonChars(rest) + extraCharsOfItem(final_item)
    }
    case 'item_error':
    case 'item_cancelled': {
      const { type: _type, item_id: _id, ...rest } = payload
      return jsonChars(rest)
    }
  }
}

function extraCharsOfItem(item: OutputItem): number {
  const { type: _type, id: _id, ...fields }: Record<string, unknown> = item
  const { origin: _origin, success: _success, ...rest } = fields
  const { content: _content, arguments: _arguments, output: _output, ...extra } = rest
  return jsonChars(extra)
}

/** Without the braces: an event without such fields costs nothing. */
function jsonChars(fields: object): number {
  return JSON.stringify(fields).length - 2
}

/** The end of a round with what of it can be stored; `isCut` when something was dropped. */
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
      const { type, response_id, error } = end
      const response = clip(response_id, MAX_WORD_CHARS)
      return { type, response_id: response, error: boundError(error), ...usage }
    }
    case 'turn_aborted_by_user': {
      const { type, turn_id, reason } = end
      const cut = reason === undefined ? {} : { reason: clip(reason, MAX_MESSAGE_CHARS) }
      return { type, turn_id: clip(turn_id, MAX_WORD_CHARS), ...cut, ...usage }
    }
  }
}

/** The error itself when it is short. */
export function boundError(error: ErrorObject): ErrorObject {
  const { code, message } = error
  if (charsOf(error) <= MAX_MESSAGE_CHARS) return error
  return { code: clip(code, MAX_WORD_CHARS), message: clip(message, MAX_MESSAGE_CHARS) }
}

/** The error or reason with which a turn is stopped stands in the end of each of its items. */
export function boundReason(reason: string): string {
  return clip(reason, MAX_MESSAGE_CHARS)
}

function knownCounts(usage: Usage): Usage {
  const names = Object.keys(usageSchema.shape)
  return Object.fromEntries(Object.entries(usage).filter(([name]) => names.includes(name))) as Usage
}

function clip(text: string, chars: number): string {
  return text.length <= chars ? text : `${text.slice(0, chars)}…`
}

function charsOf(value: object): number {
  try {
    return JSON.stringify(value).length
  } catch {
    return Infinity // what JSON cannot say cannot be stored
  }
}
