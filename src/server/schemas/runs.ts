import * as z from 'zod'
import { responseSchema } from '../../protocol/response.ts'
import { bodySchema, idSchema } from './parts.ts'

export const runParamsSchema = z.object({ runId: idSchema })

export const runSchema = responseSchema.meta({
  id: 'Response',
  description: 'Everything a turn came to, or has come to so far: docs/protocol.md',
})

export const cancelBodySchema = bodySchema({
  reason: z.string().min(1).max(1000).exactOptional(),
}).meta({ id: 'Cancel', examples: [{ reason: 'not needed any more' }] })

export const cancelledSchema = z
  .object({ cancelled: z.boolean().meta({ description: 'False when it had ended already' }) })
  .meta({ id: 'Cancelled' })
