import * as z from 'zod'
import { outputItemSchema } from './output-item.ts'
import { openObject } from './shape.ts'
import { usageSchema } from './stream-event.ts'

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
