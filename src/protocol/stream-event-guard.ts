/**
 * The hand-written twin of `streamEventSchema`, for the token path, where a schema library would
 * cost more than the work itself. `stream-event-guard.test.ts` holds the two to the same verdicts.
 */
import { isRecord } from './json.ts'
import { isUsage, normalizeEvent, normalizePayload } from './lenient-event.ts'
import type { OutputItem } from './output-item.ts'
import type { ItemType, StreamEvent, StreamEventType, TurnStatus } from './stream-event.ts'

type Fields = Record<string, unknown>
type Check = (value: unknown) => boolean

/**
 * Why `value` cannot be read as a StreamEvent, or undefined when it can, of a known type or not. An incomplete
 * `final_item` and a malformed `usage` can be read: see `normalizeEvent`.
 */
export function streamEventFault(value: unknown): string | undefined {
  return eventFault(normalizeEvent(value))
}

function eventFault(value: unknown): string | undefined {
  if (!isRecord(value)) return 'not an object'
  const { type, payload } = value
  if (!isId(type)) return 'type is not a non-empty string'
  if (!isRecord(payload)) return 'payload is not an object'
  if (payload['type'] !== type) return 'payload.type differs from type'
  if (!isId(value['event_id'])) return 'event_id is not a non-empty string'
  if (!isId(value['run_id'])) return 'run_id is not a non-empty string'
  if (!isNumber(value['timestamp'])) return 'timestamp is not a number'
  if (!isTraceContext(value['trace_context'])) return 'trace_context has no traceparent'
  return fieldsFault(type, payload)
}

/** Like `streamEventFault`, for a payload without its envelope. */
export function payloadFault(value: unknown): string | undefined {
  const payload = normalizePayload(value)
  if (!isRecord(payload)) return 'payload is not an object'
  const { type } = payload
  return isId(type) ? fieldsFault(type, payload) : 'type is not a non-empty string'
}

function fieldsFault(type: string, payload: Fields): string | undefined {
  // Nearly every event is a delta, and looking it up in the table costs more than checking it.
  if (type === 'item_delta') return PAYLOAD_FAULTS.item_delta(payload)
  return isKnownType(type) ? PAYLOAD_FAULTS[type](payload) : undefined
}

/** Whether `value` is exactly a StreamEvent, with nothing left to normalize. */
export function isStreamEvent(value: unknown): value is StreamEvent {
  return eventFault(value) === undefined && isKnownType((value as { type: string }).type)
}

function isKnownType(type: string): type is StreamEventType {
  return Object.hasOwn(PAYLOAD_FAULTS, type)
}

const ITEM_TYPES: Record<ItemType, true> = {
  message: true,
  reasoning: true,
  function_call: true,
  function_call_output: true,
  error: true,
}
const TURN_STATUSES: Record<TurnStatus, true> = { complete: true, error: true, aborted: true }
const ORIGINS = { user: true, agent: true, system: true }

const isString: Check = (value) => typeof value === 'string'
const isNumber: Check = (value) => Number.isFinite(value)
const isBoolean: Check = (value) => typeof value === 'boolean'
const isOrigin: Check = (value) => isKeyOf(ORIGINS, value)
const isNullableString: Check = (value) => value === null || typeof value === 'string'

function isId(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function isKeyOf(table: object, value: unknown): boolean {
  return typeof value === 'string' && Object.hasOwn(table, value)
}

function isTraceContext(value: unknown): boolean {
  if (!isRecord(value) || typeof value['traceparent'] !== 'string') return false
  return !('tracestate' in value) || typeof value['tracestate'] === 'string'
}

function isErrorObject(value: unknown): boolean {
  return isRecord(value) && isString(value['code']) && isString(value['message'])
}

function isAttachments(value: unknown): boolean {
  return Array.isArray(value) && value.every(isAttachment)
}

function isAttachment(value: unknown): boolean {
  if (!isRecord(value) || value['type'] !== 'image') return false
  return isString(value['media_type']) && isString(value['data'])
}

/** Names the first field that is missing or of the wrong type. */
function fault(
  fields: Fields,
  required: Record<string, Check>,
  optional: Record<string, Check> = {},
): string | undefined {
  for (const name in required) {
    if (required[name]?.(fields[name]) === false) return `${name} is missing or of the wrong type`
  }
  for (const name in optional) {
    if (name in fields && optional[name]?.(fields[name]) === false) {
      return `${name} is of the wrong type`
    }
  }
  return undefined
}

const ITEM_CHECKS: Record<OutputItem['type'], [Record<string, Check>, Record<string, Check>?]> = {
  message: [{ id: isId, content: isString, origin: isOrigin }, { attachments: isAttachments }],
  reasoning: [{ id: isId, content: isString }, { origin: isOrigin }],
  function_call: [{ id: isId, name: isString, arguments: isString, call_id: isString }],
  function_call_output: [{ id: isId, call_id: isString, output: isString, success: isBoolean }],
  error: [{ id: isId, code: isString, message: isString }],
  cancelled: [{ id: isId }, { reason: isString }],
}

function itemFault(value: unknown): string | undefined {
  if (!isRecord(value)) return 'final_item is not an object'
  const type = value['type']
  if (!isKeyOf(ITEM_CHECKS, type)) return 'final_item.type is not known'
  const [required, optional] = ITEM_CHECKS[type as OutputItem['type']]
  const reason = fault(value, required, { ...optional, provider_metadata: isRecord })
  return reason === undefined ? undefined : `final_item.${reason}`
}

function isHistoryTruncated(value: unknown): boolean {
  return isRecord(value) && isNumber(value['turns_dropped'])
}

const PAYLOAD_FAULTS: Record<StreamEventType, (payload: Fields) => string | undefined> = {
  item_delta(payload) {
    if (!isId(payload['item_id'])) return 'item_id is not a non-empty string'
    if (typeof payload['delta_content'] !== 'string') return 'delta_content is not a string'
    return undefined
  },
  response_start: (payload) =>
    fault(
      payload,
      {
        response_id: isId,
        turn_id: isId,
        thread_id: isId,
        model_id: isString,
        provider_id: isString,
        created_at: isNumber,
      },
      { agent_id: isId, history_truncated: isHistoryTruncated },
    ),
  item_start: (payload) =>
    fault(
      payload,
      { item_id: isId, item_type: (value) => isKeyOf(ITEM_TYPES, value) },
      {
        initial_content: isString,
        origin: isOrigin,
        name: isString,
        arguments: isString,
        call_id: isString,
        code: isString,
        provider_metadata: isRecord,
      },
    ),
  item_done: (payload) =>
    fault(payload, { item_id: isId }, { finish_reason: isNullableString }) ??
    itemFault(payload['final_item']),
  item_error: (payload) => fault(payload, { item_id: isId, error: isErrorObject }),
  item_cancelled: (payload) => fault(payload, { item_id: isId }, { reason: isString }),
  usage_update: (payload) => fault(payload, { response_id: isId }, { usage: isUsage }),
  heartbeat: () => undefined,
  response_done: (payload) =>
    fault(
      payload,
      { response_id: isId, status: (value) => isKeyOf(TURN_STATUSES, value) },
      {
        usage: isUsage,
        finish_reason: isNullableString,
        provider_finish_reason: isNullableString,
      },
    ),
  response_error: (payload) =>
    fault(payload, { response_id: isId, error: isErrorObject }, { usage: isUsage }),
  turn_aborted_by_user: (payload) =>
    fault(payload, { turn_id: isId }, { reason: isString, usage: isUsage }),
}
