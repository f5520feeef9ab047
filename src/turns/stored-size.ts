import type { OutputItem } from '../protocol/output-item.ts'
import type { ErrorObject, StreamEventPayload } from '../protocol/stream-event.ts'
import { type Usage, usageSchema } from '../protocol/usage.ts'
import type { RoundEnd } from './transcript.ts'

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
