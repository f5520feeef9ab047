import * as z from 'zod'
import { streamEventSchema } from '../../protocol/stream-event.ts'
import { streamOutputSchema } from '../../protocol/stream-output.ts'

export const eventSchema = streamEventSchema.meta({
  id: 'StreamEvent',
  description: 'One event of a turn, as its provider gave it: docs/protocol.md',
})

export const outputSchema = streamOutputSchema.meta({
  id: 'StreamOutput',
  description: 'A snapshot of one item of a turn, or its beginning or end: docs/protocol.md',
})

export const turnOutputsSchema = z
  .object({
    turnId: z.string(),
    threadId: z.string(),
    sealed: z.boolean(),
    offset: z.string().meta({ description: 'The cursor with which its stream goes on' }),
    expired: z
      .literal(true)
      .exactOptional()
      .meta({ description: 'Its outputs are gone; only in the list of a thread' }),
    outputs: z.array(outputSchema),
  })
  .meta({ id: 'TurnOutputs' })

export const threadOutputsSchema = z
  .object({
    threadId: z.string(),
    turns: z.array(turnOutputsSchema),
    nextCursor: z.string().exactOptional(),
  })
  .meta({ id: 'ThreadOutputs' })
