import * as z from 'zod'
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
import { idSchema, openObject } from './shape.ts'
import { errorObjectSchema, historyTruncatedSchema, usageSchema } from './stream-event.ts'

const responseStatusSchema = z.enum(['queued', 'in_progress', 'complete', 'error', 'aborted'])
export type ResponseStatus = z.infer<typeof responseStatusSchema>

/** How an item failed or was cancelled. It keeps its position and content. */
const outcome = {
  error: errorObjectSchema.exactOptional(),
  cancelled: openObject({ reason: z.string().exactOptional() }).exactOptional(),
  /** Why its text ended early, from `item_done`. */
  finish_reason: z.string().nullable().exactOptional(),
  /** The call of an earlier turn that this output completes, from `item_done`. */
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
export type ResponseItem = z.infer<typeof responseItemSchema>

/** The complete result of a turn, reduced from its StreamEvents. */
export const responseSchema = openObject({
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
})
export type ReducedResponse = z.infer<typeof responseSchema>

/** @deprecated Use `ReducedResponse`. */
export type Response = ReducedResponse

/** What a model client yields while a response is generated: the default type of ResponseStream. */
export const responseEventSchema = z.discriminatedUnion('type', [
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
])
export type ResponseEvent = z.infer<typeof responseEventSchema>
