import * as z from 'zod'
import type { StreamMessage, StreamOutput } from '../protocol/stream-output.ts'
import { messageOriginSchema } from './output-item.ts'
import { idSchema, metadataSchema, openObject, schemaOf, variant } from './shape.ts'
import { errorObjectSchema, turnStatusSchema } from './stream-event.ts'

const turn = { turnId: idSchema, threadId: idSchema }

const contentBase = {
  ...turn,
  itemId: idSchema,
  status: z.enum(['create', 'update', 'complete', 'error']),
  content: z.string(),
  finishReason: z.string().exactOptional(),
  errorCode: z.string().exactOptional(),
  errorMessage: z.string().exactOptional(),
}

export const approvalSchema = openObject({
  id: idSchema,
  status: z.enum(['requested', 'approved', 'declined']),
  reason: z.string().exactOptional(),
  answeredBy: z.string().exactOptional(),
  answeredAt: z.number().exactOptional(),
})

export const contentSchema = z.discriminatedUnion('type', [
  variant('message', { ...contentBase, origin: messageOriginSchema }),
  variant('thinking', { ...contentBase, providerId: z.string() }),
  variant('tool_call', {
    ...contentBase,
    toolName: z.string(),
    toolArguments: metadataSchema,
    toolArgumentsText: z.string().exactOptional(),
    callId: z.string(),
    toolOutput: z.union([metadataSchema, z.string()]).exactOptional(),
    success: z.boolean().exactOptional(),
    approval: approvalSchema.exactOptional(),
  }),
])

const pendingCallSchema = openObject({ callId: z.string(), itemId: idSchema, toolName: z.string() })

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

export const turnEventSchema = z.discriminatedUnion('type', [
  variant('turn_started', {
    ...turn,
    modelId: z.string().exactOptional(),
    providerId: z.string().exactOptional(),
    replaces: idSchema.exactOptional(),
  }),
  variant('turn_complete', { ...turn, status: turnStatusSchema, ...turnEnd }),
  variant('turn_error', { ...turn, error: errorObjectSchema, ...turnEnd }),
])

export const streamOutputSchema = schemaOf<StreamOutput>()(
  z.discriminatedUnion('type', [contentSchema, turnEventSchema]),
)

export const streamMessageSchema = schemaOf<StreamMessage>()(
  openObject({ eventId: idSchema, timestamp: z.number(), turnId: idSchema, payload: z.string() }),
)
