import * as z from 'zod'
import { UNSUPPORTED } from '../openai-errors.ts'
import { MAX_TEXT_CHARS, MAX_TOKENS } from '../request-in.ts'
import { metadataSchema, modelSchema, REFUSED, unsupported } from '../request-schemas.ts'

/** Each becomes two records of the turn. */
export const MAX_INPUT_ITEMS = 4096
const MAX_TOOLS = 512

const LOGPROBS = 'message.output_text.logprobs'

const nullableText = (maxChars: number) => z.string().max(maxChars).nullish()

/** Items and tools have too many forms to list: `decodeResponsesInput` and `namedTools` read those that they know. */
const itemSchema = z.looseObject({ type: z.string().max(100).nullish() })

const responsesFields = {
  model: modelSchema,
  input: z
    .union(
      [z.string().max(MAX_TEXT_CHARS), z.array(itemSchema).min(1).max(MAX_INPUT_ITEMS)],
      'must be a string or a list of items',
    )
    .meta({ description: 'A prompt, or messages, calls, outputs and reasoning' }),
  instructions: nullableText(MAX_TEXT_CHARS),
  tools: z.array(z.unknown()).max(MAX_TOOLS).nullish(),
  tool_choice: z.union([z.string().max(100), itemSchema]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  reasoning: z.looseObject({ effort: nullableText(100), summary: nullableText(100) }).nullish(),
  text: z.looseObject({ format: z.unknown().optional() }).nullish(),
  previous_response_id: nullableText(300),
}

/** `POST /v1/responses`. What cannot be honoured and changes the answer is refused; anything unknown is ignored. */
export const responsesBodySchema = z
  .looseObject({
    ...responsesFields,
    stream: z.boolean().nullish(),
    background: z.boolean().nullish(),
    store: z.boolean().nullish(),
    include: z
      .array(z.string().max(100))
      .max(20)
      .refine((names) => !names.includes(LOGPROBS), {
        message: 'log probabilities are not supported',
        params: { reason: UNSUPPORTED },
      })
      .nullish(),
    service_tier: nullableText(64),
    frequency_penalty: z.number().min(-2).max(2).nullish(),
    presence_penalty: z.number().min(-2).max(2).nullish(),
    max_output_tokens: z.int().min(1).max(MAX_TOKENS).nullish(),
    temperature: z.number().min(0).max(2).nullish(),
    top_p: z.number().min(0).max(1).nullish(),
    metadata: metadataSchema,
    prompt_cache_key: nullableText(512),
    safety_identifier: nullableText(512),
    user: nullableText(512),
    conversation: unsupported(
      () => false,
      'is not supported: send previous_response_id or the items',
    ),
    prompt: unsupported(() => false, 'is not supported: send instructions and input'),
    ...REFUSED,
  })
  .refine(({ background, store }) => !(background === true && store === false), {
    path: ['background'],
    message: 'requires store',
  })
  .meta({
    id: 'ResponsesRequest',
    examples: [{ model: 'MODEL', input: 'Hello', stream: true }],
  })

export type ResponsesBody = z.infer<typeof responsesBodySchema>

export const inputTokensBodySchema = z
  .looseObject({ ...responsesFields, model: responsesFields.model.optional() })
  .meta({ id: 'InputTokensRequest', examples: [{ model: 'MODEL', input: 'Hello' }] })

/** OpenAI documents all members. */
export const responseObjectSchema = z
  .looseObject({
    id: z.string(),
    object: z.literal('response'),
    status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
    output: z.array(z.looseObject({ type: z.string() })),
  })
  .meta({ id: 'ResponseObject', description: "A response in OpenAI's format" })

/** The `data` of a frame; the last frame is `[DONE]`. */
export const responsesEventSchema = z
  .looseObject({ type: z.string(), sequence_number: z.int() })
  .meta({ id: 'ResponsesEvent' })

export const inputItemsSchema = z
  .object({
    object: z.literal('list'),
    data: z.array(z.looseObject({ id: z.string(), type: z.string() })),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .meta({ id: 'ResponseInputItems' })

export const deletedResponseSchema = z
  .object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) })
  .meta({ id: 'DeletedResponse' })

export const inputTokensSchema = z
  .object({ object: z.literal('response.input_tokens'), input_tokens: z.int() })
  .meta({ id: 'InputTokens' })
