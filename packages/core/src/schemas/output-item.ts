import * as z from 'zod'
import type { OutputItem } from '../protocol/output-item.ts'
import { idSchema, metadataSchema, openObject, schemaOf } from './shape.ts'

export const messageOriginSchema = z.enum(['user', 'agent', 'system'])

const common = { id: idSchema, provider_metadata: metadataSchema.exactOptional() }

const attachmentSchema = openObject({
  type: z.enum(['image', 'file']),
  media_type: z.string(),
  data: z.string(),
  filename: z.string().exactOptional(),
})

export const messageItemSchema = openObject({
  type: z.literal('message'),
  ...common,
  content: z.string(),
  origin: messageOriginSchema,
  name: z.string().exactOptional(),
  attachments: z.array(attachmentSchema).exactOptional(),
})

export const reasoningItemSchema = openObject({
  type: z.literal('reasoning'),
  ...common,
  content: z.string(),
  origin: messageOriginSchema.exactOptional(),
})

const approvalRequestSchema = openObject({ id: idSchema, status: z.literal('requested') })

export const functionCallItemSchema = openObject({
  type: z.literal('function_call'),
  ...common,
  name: z.string(),
  arguments: z.string(),
  call_id: z.string(),
  approval: approvalRequestSchema.exactOptional(),
})

export const functionCallOutputItemSchema = openObject({
  type: z.literal('function_call_output'),
  ...common,
  call_id: z.string(),
  output: z.string(),
  success: z.boolean(),
})

export const approvalRequestItemSchema = openObject({
  type: z.literal('approval_request'),
  ...common,
  approval_id: idSchema,
  call_id: z.string(),
})

export const approvalResponseItemSchema = openObject({
  type: z.literal('approval_response'),
  ...common,
  approval_id: idSchema,
  call_id: z.string(),
  approved: z.boolean(),
  reason: z.string().exactOptional(),
  answered_by: z.string().exactOptional(),
  answered_at: z.number(),
})

export const errorItemSchema = openObject({
  type: z.literal('error'),
  ...common,
  code: z.string(),
  message: z.string(),
  details: z.unknown().exactOptional(),
})

export const cancelledItemSchema = openObject({
  type: z.literal('cancelled'),
  ...common,
  reason: z.string().exactOptional(),
})

export const outputItemSchema = schemaOf<OutputItem>()(
  z.discriminatedUnion('type', [
    messageItemSchema,
    reasoningItemSchema,
    functionCallItemSchema,
    functionCallOutputItemSchema,
    approvalRequestItemSchema,
    approvalResponseItemSchema,
    errorItemSchema,
    cancelledItemSchema,
  ]),
)
