import * as z from 'zod'
import type { OutputItem } from '../protocol/output-item.ts'
import { idSchema, metadataSchema, openObject, schemaOf, variant } from './shape.ts'

export const messageOriginSchema = z.enum(['user', 'agent', 'system'])

const attachmentSchema = openObject({
  type: z.enum(['image', 'file']),
  media_type: z.string(),
  data: z.string(),
  filename: z.string().exactOptional(),
})

const approvalRequestSchema = openObject({ id: idSchema, status: z.literal('requested') })

/** The items, each with `more` fields. */
export function itemSchema<More extends z.ZodRawShape>(more: More) {
  const common = { id: idSchema, provider_metadata: metadataSchema.exactOptional() }
  return z.discriminatedUnion('type', [
    variant('message', {
      ...common,
      content: z.string(),
      origin: messageOriginSchema,
      name: z.string().exactOptional(),
      attachments: z.array(attachmentSchema).exactOptional(),
      ...more,
    }),
    variant('reasoning', {
      ...common,
      content: z.string(),
      origin: messageOriginSchema.exactOptional(),
      ...more,
    }),
    variant('function_call', {
      ...common,
      name: z.string(),
      arguments: z.string(),
      call_id: z.string(),
      approval: approvalRequestSchema.exactOptional(),
      ...more,
    }),
    variant('function_call_output', {
      ...common,
      call_id: z.string(),
      output: z.string(),
      success: z.boolean(),
      ...more,
    }),
    variant('approval_request', { ...common, approval_id: idSchema, call_id: z.string(), ...more }),
    variant('approval_response', {
      ...common,
      approval_id: idSchema,
      call_id: z.string(),
      approved: z.boolean(),
      reason: z.string().exactOptional(),
      answered_by: z.string().exactOptional(),
      answered_at: z.number(),
      ...more,
    }),
    variant('error', {
      ...common,
      code: z.string(),
      message: z.string(),
      details: z.unknown().exactOptional(),
      ...more,
    }),
    variant('cancelled', { ...common, reason: z.string().exactOptional(), ...more }),
  ])
}

export const outputItemSchema = schemaOf<OutputItem>()(itemSchema({}))
