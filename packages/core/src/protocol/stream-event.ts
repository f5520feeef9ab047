import * as z from 'zod'
import { type Decoded, decode, isRecord, parseJson } from './json.ts'
import { messageOriginSchema, outputItemSchema } from './output-item.ts'
import { idSchema, metadataSchema, openObject } from './shape.ts'
import { normalizeEvent } from './stream-event-guard.ts'

const itemTypeSchema = z.enum([
  'message',
  'reasoning',
  'function_call',
  'function_call_output',
  'error',
])
export type ItemType = z.infer<typeof itemTypeSchema>

export const turnStatusSchema = z.enum(['complete', 'error', 'aborted'])
export type TurnStatus = z.infer<typeof turnStatusSchema>

export const errorObjectSchema = openObject({ code: z.string(), message: z.string() })
export type ErrorObject = z.infer<typeof errorObjectSchema>

const count = z.number().nonnegative()

/** Token counts of the provider; `estimated` marks estimates. */
export const usageSchema = openObject({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  cached_tokens: count.exactOptional(),
  cache_write_tokens: count.exactOptional(),
  reasoning_tokens: count.exactOptional(),
  estimated: z.boolean().exactOptional(),
})
export type Usage = z.infer<typeof usageSchema>

/** `traceparent` is any string: a malformed trace must cost the trace, not the turn. */
const traceContextSchema = openObject({
  traceparent: z.string(),
  tracestate: z.string().exactOptional(),
})
export type TraceContext = z.infer<typeof traceContextSchema>

/** The call of an earlier turn that an output of the client answers. */
const answersSchema = openObject({
  item_id: idSchema,
  name: z.string(),
  arguments: z.string(),
})
export type AnsweredCall = z.infer<typeof answersSchema>

/** The provider did not get the complete thread: this many of the oldest turns were left out. */
export const historyTruncatedSchema = openObject({ turns_dropped: z.number() })

/** All payloads that the `events` log may hold, by type. */
const payloads = {
  response_start: openObject({
    type: z.literal('response_start'),
    response_id: idSchema,
    turn_id: idSchema,
    thread_id: idSchema,
    agent_id: idSchema.exactOptional(),
    model_id: z.string(),
    provider_id: z.string(),
    created_at: z.number(),
    history_truncated: historyTruncatedSchema.exactOptional(),
    /** The caller gave the history: earlier turns of the thread do not precede this one. */
    history_given: z.boolean().exactOptional(),
    /** The turn of the thread that this one replaces, together with all later ones. */
    replaces: idSchema.exactOptional(),
    /** Parameters of the request that the response repeats in the caller's dialect. */
    parameters: metadataSchema.exactOptional(),
  }),
  item_start: openObject({
    type: z.literal('item_start'),
    item_id: idSchema,
    item_type: itemTypeSchema,
    initial_content: z.string().exactOptional(),
    origin: messageOriginSchema.exactOptional(),
    name: z.string().exactOptional(),
    arguments: z.string().exactOptional(),
    call_id: z.string().exactOptional(),
    code: z.string().exactOptional(),
    provider_metadata: metadataSchema.exactOptional(),
  }),
  item_delta: openObject({
    type: z.literal('item_delta'),
    item_id: idSchema,
    delta_content: z.string(),
  }),
  item_done: openObject({
    type: z.literal('item_done'),
    item_id: idSchema,
    final_item: outputItemSchema,
    finish_reason: z.string().nullable().exactOptional(),
    answers: answersSchema.exactOptional(),
  }),
  item_error: openObject({
    type: z.literal('item_error'),
    item_id: idSchema,
    error: errorObjectSchema,
  }),
  item_cancelled: openObject({
    type: z.literal('item_cancelled'),
    item_id: idSchema,
    reason: z.string().exactOptional(),
  }),
  usage_update: openObject({
    type: z.literal('usage_update'),
    response_id: idSchema,
    usage: usageSchema.exactOptional(),
  }),
  heartbeat: openObject({ type: z.literal('heartbeat') }),
  response_done: openObject({
    type: z.literal('response_done'),
    response_id: idSchema,
    status: turnStatusSchema,
    usage: usageSchema.exactOptional(),
    finish_reason: z.string().nullable().exactOptional(),
    provider_finish_reason: z.string().nullable().exactOptional(),
    stop_sequence: z.string().exactOptional(),
  }),
  response_error: openObject({
    type: z.literal('response_error'),
    response_id: idSchema,
    error: errorObjectSchema,
    usage: usageSchema.exactOptional(),
  }),
  turn_aborted_by_user: openObject({
    type: z.literal('turn_aborted_by_user'),
    turn_id: idSchema,
    reason: z.string().exactOptional(),
    usage: usageSchema.exactOptional(),
  }),
} as const

export type StreamEventType = keyof typeof payloads
export type StreamEventPayload<Type extends StreamEventType = StreamEventType> = {
  [T in Type]: z.infer<(typeof payloads)[T]>
}[Type]

export const STREAM_EVENT_TYPES = Object.keys(payloads) as readonly StreamEventType[]

const envelope = {
  event_id: idSchema,
  timestamp: z.number(),
  trace_context: traceContextSchema,
  run_id: idSchema,
}

/** The envelope of an event of any type, known or not. */
const anyEventSchema = openObject({
  ...envelope,
  type: z.string().min(1),
  payload: openObject({ type: z.string() }),
}).refine((event) => event.type === event.payload.type, {
  path: ['payload', 'type'],
  message: 'differs from the type of the event',
})

export const streamEventSchema = z.discriminatedUnion('type', [
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
])
export type StreamEvent = z.infer<typeof streamEventSchema>

/** A well-formed event of a type that this version does not know. */
export type UnknownStreamEvent = z.infer<typeof anyEventSchema>

export type DecodedStreamEvent =
  | { ok: true; known: true; value: StreamEvent }
  | { ok: true; known: false; value: UnknownStreamEvent }
  | { ok: false; reason: string }

function eventSchema<Type extends StreamEventType>(type: Type) {
  return openObject({ ...envelope, type: z.literal(type), payload: payloads[type] })
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
