import * as z from 'zod'
import { messageOriginSchema } from './output-item.ts'
import { idSchema, openObject } from './shape.ts'
import { turnStatusSchema } from './stream-event.ts'

/** What a renderer does with a snapshot: create the element, update it, complete it, or show an error. */
const statusSchema = z.enum(['create', 'update', 'complete', 'error'])
export type SnapshotStatus = z.infer<typeof statusSchema>

const turn = { turnId: idSchema, threadId: idSchema }

const contentBase = {
  ...turn,
  itemId: idSchema,
  status: statusSchema,
  /** The whole text so far, never a delta. */
  content: z.string(),
  /** Why a text ended early: `cancelled`, `length`. */
  finishReason: z.string().exactOptional(),
  errorCode: z.string().exactOptional(),
  errorMessage: z.string().exactOptional(),
}

const jsonObjectSchema = z.record(z.string(), z.unknown())

const messageSchema = openObject({
  type: z.literal('message'),
  ...contentBase,
  origin: messageOriginSchema,
})
export type MessageSnapshot = z.infer<typeof messageSchema>

const thinkingSchema = openObject({
  type: z.literal('thinking'),
  ...contentBase,
  providerId: z.string(),
})
export type Thinking = z.infer<typeof thinkingSchema>

export const approvalSchema = openObject({
  id: idSchema,
  status: z.enum(['requested', 'approved', 'declined']),
  reason: z.string().exactOptional(),
  answeredBy: z.string().exactOptional(),
  answeredAt: z.number().exactOptional(),
})
/** Whether the server may run a call. */
export type Approval = z.infer<typeof approvalSchema>

/** `content` is empty unless the arguments could not be parsed; then it is their raw text. */
const toolCallSchema = openObject({
  type: z.literal('tool_call'),
  ...contentBase,
  toolName: z.string(),
  toolArguments: jsonObjectSchema,
  /** The arguments so far, as the model writes them. Only for readers that request them. */
  toolArgumentsText: z.string().exactOptional(),
  callId: z.string(),
  toolOutput: z.union([jsonObjectSchema, z.string()]).exactOptional(),
  success: z.boolean().exactOptional(),
  approval: approvalSchema.exactOptional(),
})
export type ToolCall = z.infer<typeof toolCallSchema>

export const contentSchema = z.discriminatedUnion('type', [
  messageSchema,
  thinkingSchema,
  toolCallSchema,
])
/** The complete state of one item, ready to render. */
export type ItemSnapshot = z.infer<typeof contentSchema>
export type ContentType = ItemSnapshot['type']

const turnStartedSchema = openObject({
  type: z.literal('turn_started'),
  ...turn,
  modelId: z.string().exactOptional(),
  providerId: z.string().exactOptional(),
  /** The turn of the thread that this one replaces, together with all later ones. */
  replaces: idSchema.exactOptional(),
})
export type TurnStarted = z.infer<typeof turnStartedSchema>

/** A call that the client must answer in the next turn. */
const pendingCallSchema = openObject({
  callId: z.string(),
  itemId: idSchema,
  toolName: z.string(),
})
export type PendingCall = z.infer<typeof pendingCallSchema>

/** Fields of every turn end. The times are of the first and the last event, in ms since the epoch. */
const turnEnd = {
  finishReason: z.string().exactOptional(),
  usage: openObject({
    promptTokens: z.number(),
    completionTokens: z.number(),
    totalTokens: z.number(),
    cachedTokens: z.number().exactOptional(),
    cacheWriteTokens: z.number().exactOptional(),
    reasoningTokens: z.number().exactOptional(),
    estimated: z.boolean().exactOptional(),
  }).exactOptional(),
  startedAt: z.number().exactOptional(),
  endedAt: z.number().exactOptional(),
  /** Calls that the client may still answer. Never after a cancel. */
  pendingCalls: z.array(pendingCallSchema).exactOptional(),
}

const turnCompleteSchema = openObject({
  type: z.literal('turn_complete'),
  ...turn,
  status: turnStatusSchema,
  ...turnEnd,
})
export type TurnComplete = z.infer<typeof turnCompleteSchema>

/** The wire format. The exception class is `TurnstreamError`. */
const turnErrorSchema = openObject({
  type: z.literal('turn_error'),
  ...turn,
  error: openObject({ code: z.string(), message: z.string() }),
  ...turnEnd,
})
export type TurnError = z.infer<typeof turnErrorSchema>

export const turnEventSchema = z.discriminatedUnion('type', [
  turnStartedSchema,
  turnCompleteSchema,
  turnErrorSchema,
])
export type TurnEvent = z.infer<typeof turnEventSchema>

export const streamOutputSchema = z.discriminatedUnion('type', [contentSchema, turnEventSchema])
export type StreamOutput = ItemSnapshot | TurnEvent

/** One record of the `processed` log. `payload` is the JSON of a `StreamOutput`. */
export const streamMessageSchema = openObject({
  eventId: idSchema,
  timestamp: z.number(),
  turnId: idSchema,
  payload: z.string(),
})
export type StreamMessage = z.infer<typeof streamMessageSchema>

/** @deprecated Use `ItemSnapshot`. */
export type Content = ItemSnapshot
/** @deprecated Use `MessageSnapshot`. */
export type Message = MessageSnapshot
/** @deprecated Use `SnapshotStatus`. */
export type Status = SnapshotStatus
