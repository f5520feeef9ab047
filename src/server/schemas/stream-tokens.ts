import * as z from 'zod'
import { bodySchema, idSchema } from './parts.ts'

export const streamTokenBodySchema = bodySchema({
  turnId: idSchema
    .exactOptional()
    .meta({ description: 'Opens the streams of this turn, raw events and snapshots' }),
  threadId: idSchema
    .exactOptional()
    .meta({ description: 'Opens the stream of this thread, and those of its turns' }),
})
  .refine(({ turnId, threadId }) => (turnId === undefined) !== (threadId === undefined), {
    message: 'must have either a turnId or a threadId',
  })
  .meta({ id: 'NewStreamToken', examples: [{ turnId: 'TURN_ID' }] })

export const streamTokenSchema = z
  .object({
    token: z.string().meta({ description: 'For `?token=` of a stream' }),
    expiresAt: z.number().meta({
      description: 'Until when a stream can be opened with it, in milliseconds since the epoch',
    }),
  })
  .meta({ id: 'StreamToken' })
