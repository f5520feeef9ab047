import * as z from 'zod'
import { errorObjectSchema, turnStatusSchema } from '../../protocol/stream-event.ts'
import { usageSchema } from '../../protocol/usage.ts'
import { bodySchema, idSchema, jsonObjectSchema } from './parts.ts'

const titleSchema = z.string().max(1000)
const metadataSchema = jsonObjectSchema(16_384)

const time = z.number().meta({ description: 'Milliseconds since the epoch' })

export const newThreadSchema = bodySchema({
  threadId: idSchema.exactOptional(),
  title: titleSchema.exactOptional(),
  metadata: metadataSchema.exactOptional(),
}).meta({ id: 'NewThread', examples: [{ title: 'A thread' }] })

/** `null` takes away what is there; what is not named stays. */
export const threadChangesSchema = bodySchema({
  title: titleSchema.nullable().exactOptional(),
  metadata: metadataSchema.nullable().exactOptional(),
})
  .refine(({ title, metadata }) => title !== undefined || metadata !== undefined, {
    message: 'must have a title or metadata',
  })
  .meta({ id: 'ThreadChanges', examples: [{ title: 'A better title' }] })

const thread = {
  threadId: z.string(),
  title: z.string().exactOptional(),
  metadata: z.record(z.string(), z.unknown()).exactOptional(),
  createdAt: time,
  updatedAt: time.meta({ description: 'When it was last changed or got a turn' }),
}

export const threadSchema = z.object(thread).meta({ id: 'Thread' })
export type Thread = z.infer<typeof threadSchema>

const nextCursor = z
  .string()
  .exactOptional()
  .meta({ description: 'For `cursor` of the next page; missing on the last' })

export const threadsSchema = z
  .object({ threads: z.array(threadSchema), nextCursor })
  .meta({ id: 'Threads' })

const turnSchema = z
  .object({
    turnId: z.string(),
    runId: z.string(),
    threadId: z.string(),
    ordinal: z.number().meta({ description: 'Its place in the thread, from 1' }),
    createdAt: time,
    endedAt: time.exactOptional(),
    status: z.union([z.literal('in_progress'), turnStatusSchema]),
    sealed: z.boolean().meta({ description: 'It has ended, and nothing will follow' }),
    expired: z.boolean().meta({ description: 'Only this record is left of it' }),
    usage: usageSchema.exactOptional(),
    finishReason: z.string().exactOptional(),
    error: errorObjectSchema.exactOptional(),
    cancelReason: z.string().exactOptional(),
  })
  .meta({ id: 'Turn' })
export type Turn = z.infer<typeof turnSchema>

export const threadWithTurnsSchema = z
  .object({
    ...thread,
    turns: z.array(turnSchema).meta({ description: 'The newest first' }),
    nextCursor,
  })
  .meta({ id: 'ThreadWithTurns' })
