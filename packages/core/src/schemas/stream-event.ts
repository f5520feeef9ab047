import * as z from 'zod'
import { type Decoded, isRecord, parseJson } from '../protocol/json.ts'
import type {
  DecodedStreamEvent,
  StreamEvent,
  StreamEventType,
  UnknownStreamEvent,
} from '../protocol/stream-event.ts'
import { normalizeEvent } from '../protocol/stream-event-guard.ts'
import { decode } from './decode.ts'
import { messageOriginSchema, outputItemSchema } from './output-item.ts'
import { idSchema, metadataSchema, openObject, schemaOf, variant } from './shape.ts'

export const turnStatusSchema = z.enum(['complete', 'error', 'aborted'])

export const errorObjectSchema = openObject({ code: z.string(), message: z.string() })

const count = z.number().nonnegative()

export const usageSchema = openObject({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  cached_tokens: count.exactOptional(),
  cache_write_tokens: count.exactOptional(),
  reasoning_tokens: count.exactOptional(),
  estimated: z.boolean().exactOptional(),
})

const traceContextSchema = openObject({
  traceparent: z.string(),
  tracestate: z.string().exactOptional(),
})

const answersSchema = openObject({ item_id: idSchema, name: z.string(), arguments: z.string() })

export const historyTruncatedSchema = openObject({ turns_dropped: z.number() })

/** The fields of each payload besides its type. */
const payloads = {
  response_start: {
    response_id: idSchema,
    turn_id: idSchema,
    thread_id: idSchema,
    agent_id: idSchema.exactOptional(),
    model_id: z.string(),
    provider_id: z.string(),
    created_at: z.number(),
    history_truncated: historyTruncatedSchema.exactOptional(),
    history_given: z.boolean().exactOptional(),
    replaces: idSchema.exactOptional(),
    parameters: metadataSchema.exactOptional(),
  },
  item_start: {
    item_id: idSchema,
    item_type: z.enum(['message', 'reasoning', 'function_call', 'function_call_output', 'error']),
    initial_content: z.string().exactOptional(),
    origin: messageOriginSchema.exactOptional(),
    name: z.string().exactOptional(),
    arguments: z.string().exactOptional(),
    call_id: z.string().exactOptional(),
    code: z.string().exactOptional(),
    provider_metadata: metadataSchema.exactOptional(),
  },
  item_delta: { item_id: idSchema, delta_content: z.string() },
  item_done: {
    item_id: idSchema,
    final_item: outputItemSchema,
    finish_reason: z.string().nullable().exactOptional(),
    answers: answersSchema.exactOptional(),
  },
  item_error: { item_id: idSchema, error: errorObjectSchema },
  item_cancelled: { item_id: idSchema, reason: z.string().exactOptional() },
  usage_update: { response_id: idSchema, usage: usageSchema.exactOptional() },
  heartbeat: {},
  response_done: {
    response_id: idSchema,
    status: turnStatusSchema,
    usage: usageSchema.exactOptional(),
    finish_reason: z.string().nullable().exactOptional(),
    provider_finish_reason: z.string().nullable().exactOptional(),
    stop_sequence: z.string().exactOptional(),
  },
  response_error: {
    response_id: idSchema,
    error: errorObjectSchema,
    usage: usageSchema.exactOptional(),
  },
  turn_aborted_by_user: {
    turn_id: idSchema,
    reason: z.string().exactOptional(),
    usage: usageSchema.exactOptional(),
  },
} as const

export const STREAM_EVENT_TYPES = Object.keys(payloads) as readonly StreamEventType[]

const envelope = {
  event_id: idSchema,
  timestamp: z.number(),
  trace_context: traceContextSchema,
  run_id: idSchema,
}

const anyEventSchema = schemaOf<UnknownStreamEvent>()(
  openObject({ ...envelope, type: idSchema, payload: openObject({ type: z.string() }) }),
).refine((event) => event.type === event.payload.type, {
  path: ['payload', 'type'],
  message: 'differs from the type of the event',
})

export const streamEventSchema = schemaOf<StreamEvent>()(
  z.discriminatedUnion('type', [
    eventSchema('response_start'),
    eventSchema('item_start'),
    eventSchema('item_delta'),
    eventSchema('item_done'),
    eventSchema('item_error'),
    eventSchema('item_cancelled'),
    eventSchema('usage_update'),
    eventSchema('heartbeat'),
    eventSchema('response_done'),
    eventSchema('response_error'),
    eventSchema('turn_aborted_by_user'),
  ]),
)

function eventSchema<Type extends StreamEventType>(type: Type) {
  return openObject({ ...envelope, type: z.literal(type), payload: variant(type, payloads[type]) })
}

/** Decodes and normalizes one event. An unknown type is a value, not an error. */
export function decodeStreamEvent(json: unknown): DecodedStreamEvent {
  const type = isRecord(json) ? json['type'] : undefined
  if (typeof type === 'string' && Object.hasOwn(payloads, type)) {
    const known = decode(streamEventSchema, normalizeEvent(json))
    return known.ok ? { ...known, known: true } : known
  }
  const unknown = decode(anyEventSchema, json)
  return unknown.ok ? { ...unknown, known: false } : unknown
}

/** Decodes one event from JSON text. */
export function parseStreamEvent(text: string): DecodedStreamEvent {
  const json: Decoded<unknown> = parseJson(text)
  return json.ok ? decodeStreamEvent(json.value) : json
}
