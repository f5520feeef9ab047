import * as z from 'zod'
import { MAX_TEXT_CHARS, MAX_TOKENS } from '../request-in.ts'
import { modelSchema, REFUSED } from '../request-schemas.ts'
import { MessageThreadError } from './errors.ts'

const MAX_MESSAGES = 4096
const MAX_TOOLS = 512

/** Blocks have too many forms to list: `decodeMessages` reads those that it knows. */
const blockSchema = z.looseObject({ type: z.string().max(100) })

const contentSchema = z.union(
  [z.string().max(MAX_TEXT_CHARS), z.array(blockSchema).max(1000)],
  'must be a string or a list of blocks',
)

/** Only a request that creates a thread has all messages. Others are refused before what they lack. */
const threadSchema = z.looseObject({ type: z.string().max(100) }).refine(({ type }) => {
  if (type === 'create') return true
  throw new MessageThreadError(type === 'continue')
})

const messagesFields = {
  model: modelSchema,
  messages: z
    .array(
      z.looseObject({
        role: z.enum(['user', 'assistant', 'system'], 'must be user, assistant or system'),
        content: contentSchema,
      }),
    )
    .min(1)
    .max(MAX_MESSAGES),
  system: contentSchema.nullish(),
  tools: z.array(z.looseObject({})).max(MAX_TOOLS).nullish(),
  tool_choice: z
    .looseObject({ type: z.string().max(100), name: z.string().max(200).nullish() })
    .nullish(),
  thinking: z.looseObject({ type: z.string().max(100) }).nullish(),
  thread: threadSchema.nullish(),
}

/** `POST /v1/messages`. What changes the answer and cannot be honoured is refused; unknown fields are ignored. */
export const messagesBodySchema = z
  .looseObject({
    ...messagesFields,
    max_tokens: z.int().min(1),
    stream: z.boolean().nullish(),
    stop_sequences: z.array(z.string().min(1).max(1000)).max(16).nullish(),
    temperature: z.number().min(0).max(1).nullish(),
    top_p: z.number().min(0).max(1).nullish(),
    top_k: z.int().min(0).nullish(),
    metadata: z.looseObject({ user_id: z.string().max(512).nullish() }).nullish(),
    service_tier: z.string().max(100).nullish(),
    output_config: z.looseObject({ effort: z.string().max(100).nullish() }).nullish(),
    ...REFUSED,
  })
  .transform((body) => ({ ...body, max_tokens: Math.min(body.max_tokens, MAX_TOKENS) }))
  .meta({
    id: 'MessagesRequest',
    examples: [{ model: 'MODEL', max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] }],
  })

export type MessagesBody = z.infer<typeof messagesBodySchema>

export const countTokensBodySchema = z.looseObject(messagesFields).meta({
  id: 'CountTokensRequest',
  examples: [{ model: 'MODEL', messages: [{ role: 'user', content: 'Hello' }] }],
})

export const messageSchema = z
  .looseObject({
    id: z.string(),
    type: z.literal('message'),
    content: z.array(z.looseObject({ type: z.string() })),
    stop_reason: z.string().nullable(),
  })
  .meta({ id: 'AnthropicMessage', description: "A message in Anthropic's format" })

export const messagesEventSchema = z.looseObject({ type: z.string() }).meta({ id: 'MessagesEvent' })

export const tokenCountSchema = z.object({ input_tokens: z.int() }).meta({ id: 'TokenCount' })
