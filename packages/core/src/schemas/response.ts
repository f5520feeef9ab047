import * as z from 'zod'
import type { ReducedResponse, ResponseEvent } from '../protocol/response.ts'
import {
  approvalRequestItemSchema,
  approvalResponseItemSchema,
  cancelledItemSchema,
  errorItemSchema,
  functionCallItemSchema,
  functionCallOutputItemSchema,
  messageItemSchema,
  outputItemSchema,
  reasoningItemSchema,
} from './output-item.ts'
import { idSchema, openObject, schemaOf } from './shape.ts'
import { errorObjectSchema, historyTruncatedSchema, usageSchema } from './stream-event.ts'

const responseStatusSchema = z.enum(['queued', 'in_progress', 'complete', 'error', 'aborted'])

const outcome = {
  error: errorObjectSchema.exactOptional(),
  cancelled: openObject({ reason: z.string().exactOptional() }).exactOptional(),
  finish_reason: z.string().nullable().exactOptional(),
  answers: openObject({ item_id: idSchema }).exactOptional(),
}

const responseItemSchema = z.discriminatedUnion('type', [
  messageItemSchema.extend(outcome),
  reasoningItemSchema.extend(outcome),
  functionCallItemSchema.extend(outcome),
  functionCallOutputItemSchema.extend(outcome),
  approvalRequestItemSchema.extend(outcome),
  approvalResponseItemSchema.extend(outcome),
  errorItemSchema.extend(outcome),
  cancelledItemSchema.extend(outcome),
])

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
    openObject({ type: z.literal('Created') }),
    openObject({ type: z.literal('OutputItemDone'), item: outputItemSchema }),
    openObject({
      type: z.literal('Completed'),
      responseId: z.string(),
      tokenUsage: usageSchema.exactOptional(),
    }),
    openObject({ type: z.literal('OutputTextDelta'), delta: z.string() }),
    openObject({ type: z.literal('ReasoningSummaryDelta'), delta: z.string() }),
    openObject({ type: z.literal('ReasoningContentDelta'), delta: z.string() }),
    openObject({ type: z.literal('ReasoningSummaryPartAdded') }),
    openObject({ type: z.literal('WebSearchCallBegin'), callId: z.string() }),
    openObject({ type: z.literal('RateLimits'), snapshot: z.record(z.string(), z.unknown()) }),
  ]),
)
