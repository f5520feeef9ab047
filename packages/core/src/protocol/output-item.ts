import * as z from 'zod'
import { idSchema, metadataSchema, openObject } from './shape.ts'

export const messageOriginSchema = z.enum(['user', 'agent', 'system'])
export type MessageOrigin = z.infer<typeof messageOriginSchema>

/** `provider_metadata` is opaque: stored, never interpreted, and sent back to the same provider. */
const common = { id: idSchema, provider_metadata: metadataSchema.exactOptional() }

/** An image or a file attached to a message; `data` is base64. */
const attachmentSchema = openObject({
  type: z.enum(['image', 'file']),
  media_type: z.string(),
  data: z.string(),
  /** Of a file. */
  filename: z.string().exactOptional(),
})
export type Attachment = z.infer<typeof attachmentSchema>

export const messageItemSchema = openObject({
  type: z.literal('message'),
  ...common,
  content: z.string(),
  origin: messageOriginSchema,
  /** Of the author, for vendors that know names. */
  name: z.string().exactOptional(),
  attachments: z.array(attachmentSchema).exactOptional(),
})

export const reasoningItemSchema = openObject({
  type: z.literal('reasoning'),
  ...common,
  content: z.string(),
  origin: messageOriginSchema.exactOptional(),
})

/** A request for approval, answered by an `approval_response` item. */
const approvalRequestSchema = openObject({ id: idSchema, status: z.literal('requested') })
export type ApprovalRequest = z.infer<typeof approvalRequestSchema>

/** `arguments` is the JSON text exactly as the model wrote it. */
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

/** Asks for approval of an earlier call, which its provider runs itself. */
export const approvalRequestItemSchema = openObject({
  type: z.literal('approval_request'),
  ...common,
  approval_id: idSchema,
  call_id: z.string(),
})

/** Whether a call may run. `answered_by` is the name of a key. */
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

export const outputItemSchema = z.discriminatedUnion('type', [
  messageItemSchema,
  reasoningItemSchema,
  functionCallItemSchema,
  functionCallOutputItemSchema,
  approvalRequestItemSchema,
  approvalResponseItemSchema,
  errorItemSchema,
  cancelledItemSchema,
])
export type OutputItem = z.infer<typeof outputItemSchema>
