import * as z from 'zod'
import type { StreamMessage, StreamOutput } from '../protocol/stream-output.ts'
import { messageOriginSchema } from './output-item.ts'
import { idSchema, openObject, schemaOf } from './shape.ts'
import { turnStatusSchema } from './stream-event.ts'

const statusSchema = z.enum(['create', 'update', 'complete', 'error'])

const turn = { turnId: idSchema, threadId: idSchema }

const contentBase = {
  ...turn,
  itemId: idSchema,
  status: statusSchema,
  content: z.string(),
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

const thinkingSchema = openObject({
  type: z.literal('thinking'),
  ...contentBase,
  providerId: z.string(),
})

export const approvalSchema = openObject({
  id: idSchema,
  status: z.enum(['requested', 'approved', 'declined']),
  reason: z.string().exactOptional(),
  answeredBy: z.string().exactOptional(),
  answeredAt: z.number().exactOptional(),
})

const toolCallSchema = openObject({
  type: z.literal('tool_call'),
  ...contentBase,
  toolName: z.string(),
  toolArguments: jsonObjectSchema,
  toolArgumentsText: z.string().exactOptional(),
  callId: z.string(),
  toolOutput: z.union([jsonObjectSchema, z.string()]).exactOptional(),
  success: z.boolean().exactOptional(),
  approval: approvalSchema.exactOptional(),
})

export const contentSchema = z.discriminatedUnion('type', [
  messageSchema,
  thinkingSchema,
  toolCallSchema,
])

const turnStartedSchema = openObject({
  type: z.literal('turn_started'),
  ...turn,
  modelId: z.string().exactOptional(),
  providerId: z.string().exactOptional(),
  replaces: idSchema.exactOptional(),
})

const pendingCallSchema = openObject({
  callId: z.string(),
  itemId: idSchema,
  toolName: z.string(),
})

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
  pendingCalls: z.array(pendingCallSchema).exactOptional(),
}

const turnCompleteSchema = openObject({
  type: z.literal('turn_complete'),
  ...turn,
  status: turnStatusSchema,
  ...turnEnd,
})

const turnErrorSchema = openObject({
  type: z.literal('turn_error'),
  ...turn,
  error: openObject({ code: z.string(), message: z.string() }),
  ...turnEnd,
})

export const turnEventSchema = z.discriminatedUnion('type', [
  turnStartedSchema,
  turnCompleteSchema,
  turnErrorSchema,
])

export const streamOutputSchema = schemaOf<StreamOutput>()(
  z.discriminatedUnion('type', [contentSchema, turnEventSchema]),
)

export const streamMessageSchema = schemaOf<StreamMessage>()(
  openObject({
    eventId: idSchema,
    timestamp: z.number(),
    turnId: idSchema,
    payload: z.string(),
  }),
)
