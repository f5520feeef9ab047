import * as z from 'zod'
import type { ReducedResponse, ResponseEvent } from '../protocol/response.ts'
import { itemSchema, outputItemSchema } from './output-item.ts'
import { idSchema, openObject, schemaOf, variant } from './shape.ts'
import { errorObjectSchema, historyTruncatedSchema, usageSchema } from './stream-event.ts'

const responseStatusSchema = z.enum(['queued', 'in_progress', 'complete', 'error', 'aborted'])

const responseItemSchema = itemSchema({
  error: errorObjectSchema.exactOptional(),
  cancelled: openObject({ reason: z.string().exactOptional() }).exactOptional(),
  finish_reason: z.string().nullable().exactOptional(),
  answers: openObject({ item_id: idSchema }).exactOptional(),
})

export const responseSchema = schemaOf<ReducedResponse>()(
  openObject({
    id: z.string(),
    turn_id: z.string(),
    thread_id: z.string(),
    agent_id: idSchema.exactOptional(),
    model_id: z.string(),
    provider_id: z.string(),
    created_at: z.number(),
    history_truncated: historyTruncatedSchema.exactOptional(),
    history_given: z.boolean().exactOptional(),
    replaces: idSchema.exactOptional(),
    updated_at: z.number(),
    status: responseStatusSchema,
    output_items: z.array(responseItemSchema),
    usage: usageSchema.exactOptional(),
    finish_reason: z.string().nullable(),
    provider_finish_reason: z.string().nullable().exactOptional(),
    error: errorObjectSchema.nullable(),
  }),
)

export const responseEventSchema = schemaOf<ResponseEvent>()(
  z.discriminatedUnion('type', [
    variant('Created', {}),
    variant('OutputItemDone', { item: outputItemSchema }),
    variant('Completed', { responseId: z.string(), tokenUsage: usageSchema.exactOptional() }),
    variant('OutputTextDelta', { delta: z.string() }),
    variant('ReasoningSummaryDelta', { delta: z.string() }),
    variant('ReasoningContentDelta', { delta: z.string() }),
    variant('ReasoningSummaryPartAdded', {}),
    variant('WebSearchCallBegin', { callId: z.string() }),
    variant('RateLimits', { snapshot: z.record(z.string(), z.unknown()) }),
  ]),
)
