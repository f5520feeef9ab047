import { isPromptItem } from './item-ids.ts'
import { isRecord } from './json.ts'
import type { OutputItem } from './output-item.ts'
import type { ItemType, StreamEvent, StreamEventType } from './stream-event.ts'

/**
 * Hand-written equivalent of `streamEventSchema` for the token path, where a schema library would cost more
 * than the work itself. `stream-event-guard.test.ts` checks that both agree.
 */

type Fields = Record<string, unknown>
type Check = (value: unknown) => boolean
/** The fields that a shape has, and those that it may have. */
type Checks = [required: Record<string, Check>, optional?: Record<string, Check>]

/**
 * Returns why `value` is not a readable StreamEvent, or undefined if it is, whether its type is known or not.
 * An incomplete `final_item` and a malformed `usage` are readable: see `normalizeEvent`.
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
  // Nearly every event is a delta, and the table lookup costs more than the check.
  if (type === 'item_delta') {
    if (!isId(payload['item_id'])) return 'item_id is not a non-empty string'
    return isString(payload['delta_content']) ? undefined : 'delta_content is not a string'
  }
  if (!isKnownType(type)) return undefined
  const reason = fault(payload, ...PAYLOAD_CHECKS[type])
  return type === 'item_done' ? (reason ?? itemFault(payload['final_item'])) : reason
}

/** Returns whether `value` is a StreamEvent that needs no normalization. */
export function isStreamEvent(value: unknown): value is StreamEvent {
  return eventFault(value) === undefined && isKnownType((value as { type: string }).type)
}

function isKnownType(type: unknown): type is StreamEventType {
  return isKeyOf(PAYLOAD_CHECKS, type)
}

const isString = (value: unknown): value is string => typeof value === 'string'
const isNumber: Check = (value) => Number.isFinite(value)
const isCount: Check = (value) => typeof value === 'number' && value >= 0 && value < Infinity
const isBoolean: Check = (value) => typeof value === 'boolean'
const isNullableString: Check = (value) => value === null || typeof value === 'string'
const isOrigin = isOneOf('user', 'agent', 'system')

function isId(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function isKeyOf(table: object, value: unknown): boolean {
  return typeof value === 'string' && Object.hasOwn(table, value)
}

function isOneOf(...names: readonly unknown[]): Check {
  return (value) => names.includes(value)
}

function hasShape(...checks: Checks): Check {
  return (value) => isRecord(value) && fault(value, ...checks) === undefined
}

/** Without a table: every delta has one. */
function isTraceContext(value: unknown): boolean {
  if (!isRecord(value) || typeof value['traceparent'] !== 'string') return false
  return !('tracestate' in value) || typeof value['tracestate'] === 'string'
}

const isErrorObject = hasShape({ code: isString, message: isString })
const isAttachment = hasShape(
  { type: isOneOf('image', 'file'), media_type: isString, data: isString },
  { filename: isString },
)
const isAttachments: Check = (value) => Array.isArray(value) && value.every(isAttachment)
const isAnsweredCall = hasShape({ item_id: isId, name: isString, arguments: isString })
const isUsage = hasShape(
  { prompt_tokens: isCount, completion_tokens: isCount, total_tokens: isCount },
  {
    cached_tokens: isCount,
    cache_write_tokens: isCount,
    reasoning_tokens: isCount,
    estimated: isBoolean,
  },
)

/** Names the first missing or mistyped field. */
function fault(fields: Fields, ...[required, optional = {}]: Checks): string | undefined {
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

/** The fields of each item type. */
export const ITEM_CHECKS: Record<OutputItem['type'], Checks> = {
  message: [
    { id: isId, content: isString, origin: isOrigin },
    { name: isString, attachments: isAttachments },
  ],
  reasoning: [{ id: isId, content: isString }, { origin: isOrigin }],
  function_call: [
    { id: isId, name: isString, arguments: isString, call_id: isString },
    { approval: hasShape({ id: isId, status: isOneOf('requested') }) },
  ],
  function_call_output: [{ id: isId, call_id: isString, output: isString, success: isBoolean }],
  approval_request: [{ id: isId, approval_id: isId, call_id: isString }],
  approval_response: [
    { id: isId, approval_id: isId, call_id: isString, approved: isBoolean, answered_at: isNumber },
    { reason: isString, answered_by: isString },
  ],
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

/** What `item_start` and the deltas of an item have said so far. */
export interface StartedItem {
  readonly type: ItemType
  readonly content?: string | undefined
  readonly origin?: string | undefined
  readonly name?: string | undefined
  readonly arguments?: string | undefined
  readonly call_id?: string | undefined
  readonly output?: string | undefined
  readonly code?: string | undefined
  readonly message?: string | undefined
}

/** The fields that `item_start` and deltas may have said. An empty text says nothing. */
const STARTED_FIELDS: Record<ItemType, readonly Exclude<keyof StartedItem, 'type'>[]> = {
  message: ['content', 'origin'],
  reasoning: ['content'],
  function_call: ['name', 'arguments', 'call_id'],
  function_call_output: ['output', 'call_id'],
  error: ['code', 'message'],
}

/** Also checks the final item of an `item_done`. */
const PAYLOAD_CHECKS: Record<StreamEventType, Checks> = {
  item_delta: [{ item_id: isId, delta_content: isString }],
  response_start: [
    {
      response_id: isId,
      turn_id: isId,
      thread_id: isId,
      model_id: isString,
      provider_id: isString,
      created_at: isNumber,
    },
    {
      agent_id: isId,
      history_truncated: hasShape({ turns_dropped: isNumber }),
      history_given: isBoolean,
      replaces: isId,
      parameters: isRecord,
    },
  ],
  item_start: [
    { item_id: isId, item_type: (value) => isKeyOf(STARTED_FIELDS, value) },
    {
      initial_content: isString,
      origin: isOrigin,
      name: isString,
      arguments: isString,
      call_id: isString,
      code: isString,
      provider_metadata: isRecord,
    },
  ],
  item_done: [{ item_id: isId }, { finish_reason: isNullableString, answers: isAnsweredCall }],
  item_error: [{ item_id: isId, error: isErrorObject }],
  item_cancelled: [{ item_id: isId }, { reason: isString }],
  usage_update: [{ response_id: isId }, { usage: isUsage }],
  heartbeat: [{}],
  response_done: [
    { response_id: isId, status: isOneOf('complete', 'error', 'aborted') },
    {
      usage: isUsage,
      finish_reason: isNullableString,
      provider_finish_reason: isNullableString,
      stop_sequence: isString,
    },
  ],
  response_error: [{ response_id: isId, error: isErrorObject }, { usage: isUsage }],
  turn_aborted_by_user: [{ turn_id: isId }, { reason: isString, usage: isUsage }],
}

/** How `normalizeEvent` completes what a source leaves out. */
export interface LenientOptions {
  /** What was said of an open item before. */
  readonly started?: (itemId: string) => StartedItem | undefined
  /** Called when a malformed `usage` is dropped. */
  readonly onUsageDropped?: () => void
}

/** Normalizes the payload of an event. Returns the event itself when nothing changes. */
export function normalizeEvent(event: unknown, options: LenientOptions = {}): unknown {
  if (!isRecord(event) || event['type'] === 'item_delta') return event
  const { payload } = event
  const normalized = normalizePayload(payload, options)
  return normalized === payload ? event : { ...event, payload: normalized }
}

/**
 * Completes `final_item` and converts `usage` to our spelling, or drops it when it is malformed. Leaves other
 * faults alone. Returns the payload itself when nothing changes.
 */
export function normalizePayload(payload: unknown, options: LenientOptions = {}): unknown {
  if (!isRecord(payload)) return payload
  const { type } = payload
  const counted = HAS_USAGE.has(type) ? normalizeUsage(payload, options) : payload
  const given = withoutUnsetOptional(counted)
  return type === 'item_done' ? completeItem(given, options) : given
}

const HAS_USAGE: ReadonlySet<unknown> = new Set<StreamEventType>([
  'usage_update',
  'response_done',
  'response_error',
  'turn_aborted_by_user',
])

function completeItem(payload: Fields, { started }: LenientOptions): Fields {
  const { item_id: itemId, final_item: final } = payload
  if (!isRecord(final) || isCompleteItem(final)) return payload
  const set = Object.entries(final).filter(([, value]) => !isUnset(value))
  const item: Fields = Object.fromEntries(set)
  const start = isString(itemId) ? started?.(itemId) : undefined
  const type = item['type'] ?? start?.type ?? typeByFields(item)
  const known: Fields = { id: itemId, type }
  if (start !== undefined && start.type === type) {
    for (const name of STARTED_FIELDS[start.type]) if (start[name]) known[name] = start[name]
  }
  // What the event has counts, and comes first.
  return { ...payload, final_item: { ...defaultsOf(type, itemId), ...item, ...known, ...item } }
}

/** Nearly every item is. */
function isCompleteItem(item: Fields): boolean {
  const { type } = item
  if (!isKeyOf(ITEM_CHECKS, type)) return false
  const [required, optional = {}] = ITEM_CHECKS[type as OutputItem['type']]
  for (const name in required) if (isUnset(item[name])) return false
  for (const name in optional) if (name in item && isUnset(item[name])) return false
  return !('provider_metadata' in item) || !isUnset(item['provider_metadata'])
}

/** Some serializers write a field that nothing set as null. */
const isUnset: Check = (value) => value === null || value === undefined

/** A null stays where the type allows it, and in unknown fields. */
function withoutUnsetOptional(payload: Fields): Fields {
  const { type } = payload
  const optional = isKnownType(type) ? PAYLOAD_CHECKS[type][1] : undefined
  const unset = Object.keys(optional ?? {}).filter(
    (name) =>
      name in payload && isUnset(payload[name]) && optional?.[name]?.(payload[name]) === false,
  )
  if (unset.length === 0) return payload
  return Object.fromEntries(Object.entries(payload).filter(([name]) => !unset.includes(name)))
}

/** What a field is that nothing said. */
function defaultsOf(type: unknown, itemId: unknown): Fields {
  if (type === 'function_call_output') return { success: true }
  if (type !== 'message') return {}
  const isPrompt = isString(itemId) && isPromptItem(itemId)
  return { origin: isPrompt ? 'user' : 'agent' }
}

/** Guesses the type of an item that was never started. Reasoning looks like a message. */
function typeByFields(item: Fields): OutputItem['type'] | undefined {
  if (isString(item['content'])) return 'message'
  if (isString(item['arguments'])) return 'function_call'
  if (isString(item['output'])) return 'function_call_output'
  if (isString(item['code'])) return 'error'
  return undefined
}

function normalizeUsage(payload: Fields, { onUsageDropped }: LenientOptions): Fields {
  if (!('usage' in payload) || isUsage(payload['usage'])) return payload
  const { usage, ...rest } = payload
  const { prompt, completion, total, ...others } = isRecord(usage) ? usage : {}
  const counts = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total }
  const renamed = { ...counts, ...others }
  if (isUsage(renamed)) return { ...rest, usage: renamed }
  onUsageDropped?.()
  return rest
}
