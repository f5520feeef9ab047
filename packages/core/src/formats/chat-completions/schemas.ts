import * as z from 'zod'
import {
  MAX_DESCRIPTION_CHARS,
  MAX_SCHEMA_CHARS,
  MAX_TEXT_CHARS,
  MAX_TOKENS,
} from '../request-in.ts'
import {
  jsonObject,
  logitBiasSchema,
  looseFilePart,
  looseImagePart,
  looseTextPart,
  metadataSchema,
  modelSchema,
  REFUSED,
  textOrParts,
  unsupported,
} from '../request-schemas.ts'

const MAX_MESSAGES = 2048
const MAX_NAME_CHARS = 64
/** Ids and names in earlier messages, which another server may have created. */
const MAX_EARLIER_NAME_CHARS = 200

const textSchema = z.string().max(MAX_TEXT_CHARS)

/** A hint. Values that no provider knows are ignored. */
const hint = z.string().max(512).nullish()

const earlierNameSchema = z.string().min(1).max(MAX_EARLIER_NAME_CHARS)
const name = earlierNameSchema.nullish()

const systemFields = { content: textOrParts(looseTextPart), name }

const calledSchema = z.looseObject({ name: earlierNameSchema, arguments: textSchema })

const earlierCallSchema = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ id: earlierNameSchema, type: z.literal('function'), function: calledSchema }),
    z.looseObject({
      id: earlierNameSchema,
      type: z.literal('custom'),
      custom: z.looseObject({ name: earlierNameSchema, input: textSchema }),
    }),
  ],
  'must be function or custom',
)

const assistantPart = z.discriminatedUnion('type', [
  looseTextPart,
  z.looseObject({ type: z.literal('refusal'), refusal: textSchema }),
])

/** Sent back as a server returned it. */
const assistantSchema = z.looseObject({
  role: z.literal('assistant'),
  content: textOrParts(assistantPart).nullish(),
  refusal: textSchema.nullish(),
  tool_calls: z.array(earlierCallSchema).max(128).nullish(),
  name,
  audio: unsupported(() => false, 'audio is not supported'),
  function_call: calledSchema.nullish(),
})

const userPart = z.discriminatedUnion(
  'type',
  [looseTextPart, looseImagePart, looseFilePart],
  'must be text, image_url or file',
)

/** Other roles and parts are refused: without them the prompt would be another one. */
const messageSchema = z.discriminatedUnion(
  'role',
  [
    z.looseObject({ role: z.literal('system'), ...systemFields }),
    z.looseObject({ role: z.literal('developer'), ...systemFields }),
    z.looseObject({ role: z.literal('user'), content: textOrParts(userPart), name }),
    assistantSchema,
    z.looseObject({
      role: z.literal('tool'),
      tool_call_id: earlierNameSchema,
      content: textOrParts(looseTextPart),
      name: z
        .string()
        .nullish()
        .meta({ description: 'Must match the function if present; sent by older clients' }),
    }),
    z
      .looseObject({
        role: z.literal('function'),
        name: earlierNameSchema,
        content: textSchema.nullable(),
      })
      .meta({ description: 'The result of a `function_call`' }),
  ],
  'must be system, developer, user, assistant, tool or function',
)

export type ChatMessage = z.infer<typeof messageSchema>

const nameSchema = z
  .string()
  .regex(/^[\w-]+$/, 'must contain only letters, digits, _ and -')
  .max(MAX_NAME_CHARS)

const toolFields = {
  name: nameSchema,
  description: z.string().max(MAX_DESCRIPTION_CHARS).nullish(),
}

const functionSchema = z.looseObject({
  ...toolFields,
  parameters: jsonObject(MAX_SCHEMA_CHARS).nullish(),
  strict: z.boolean().nullish(),
})

export type ChatFunction = z.infer<typeof functionSchema>

const customSchema = z.looseObject({
  ...toolFields,
  format: z
    .looseObject({ grammar: z.looseObject({ definition: textSchema.nullish() }).nullish() })
    .nullish(),
})

export type ChatCustomTool = z.infer<typeof customSchema>

/** Other types, which have no object of their own. */
const otherSchema = z
  .looseObject({})
  .refine(({ type }) => type !== 'function', { error: 'must have a function', abort: true })
  .refine(({ type }) => type !== 'custom', { error: 'must have a custom tool', abort: true })

/** Hosted tools and those of unknown types are dropped. */
const toolSchema = z.union([
  z.looseObject({ type: z.literal('function'), function: functionSchema }),
  z.looseObject({ type: z.literal('custom'), custom: customSchema }),
  otherSchema,
])

const choiceNameSchema = z.looseObject({ name: nameSchema })

const tokensSchema = z.int().min(1).max(MAX_TOKENS).nullish()
const penaltySchema = z.number().min(-2).max(2).nullish()

const honoured = {
  messages: z.array(messageSchema).min(1).max(MAX_MESSAGES),
  model: modelSchema,
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  tools: z.array(toolSchema).max(128).nullish(),
  tool_choice: z
    .union(
      [
        z.enum(['none', 'auto', 'required']),
        z.looseObject({ type: z.literal('function'), function: choiceNameSchema }),
        z.looseObject({ type: z.literal('custom'), custom: choiceNameSchema }),
        otherSchema,
      ],
      'must be none, auto, required or a tool',
    )
    .nullish(),
  functions: z
    .array(functionSchema)
    .max(128)
    .nullish()
    .meta({ description: 'The older form of `tools`. The answer then has `function_call`' }),
  function_call: z
    .union([z.enum(['none', 'auto']), choiceNameSchema], 'must be none, auto or a function')
    .nullish(),
}

/** Passed on to providers that know them. */
const hints = {
  frequency_penalty: penaltySchema,
  logit_bias: logitBiasSchema.nullish(),
  max_completion_tokens: tokensSchema,
  max_tokens: tokensSchema,
  parallel_tool_calls: z.boolean().nullish(),
  presence_penalty: penaltySchema,
  prompt_cache_key: hint,
  reasoning_effort: hint,
  response_format: z
    .record(z.string(), z.unknown())
    .nullish()
    .meta({ description: '`text`, `json_object` or `json_schema`' }),
  safety_identifier: hint,
  seed: z.int().nullish(),
  service_tier: hint,
  stop: z
    .union(
      [z.string().min(1).max(1000), z.array(z.string().min(1).max(1000)).max(4)],
      'must be a string or up to 4 strings',
    )
    .nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  user: hint,
  verbosity: hint,
}

/** Stored with the thread. No other effect. */
const stored = {
  store: z.boolean().nullish(),
  metadata: metadataSchema,
}

/** `POST /v1/chat/completions`. What changes the answer and cannot be honoured is refused; unknown fields are ignored. */
export const chatBodySchema = z
  .looseObject({ ...honoured, ...hints, ...stored, ...REFUSED })
  .refine(({ max_tokens: old, max_completion_tokens: max }) => (old ?? max) === (max ?? old), {
    path: ['max_tokens'],
    message: 'differs from max_completion_tokens',
  })
  .meta({
    id: 'ChatCompletionRequest',
    examples: [{ model: 'MODEL', messages: [{ role: 'user', content: 'Hello' }], stream: true }],
  })

/** The parameters of a body apart from hints. */
export const CHAT_PARAMETERS: readonly string[] = Object.keys({
  ...honoured,
  ...stored,
  ...REFUSED,
})

export type ChatBody = z.infer<typeof chatBodySchema>

const usageSchema = z.object({
  prompt_tokens: z.number(),
  completion_tokens: z.number(),
  total_tokens: z.number(),
  prompt_tokens_details: z.object({ cached_tokens: z.number() }).exactOptional(),
  completion_tokens_details: z.object({ reasoning_tokens: z.number() }).exactOptional(),
})

const head = { id: z.string(), created: z.number(), model: z.string() }

const callSchema = z.object({
  id: z.string(),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string() }),
})

const customCallSchema = z.object({
  id: z.string(),
  type: z.literal('custom'),
  custom: z.object({ name: z.string(), input: z.string() }),
})

export const chatCompletionSchema = z
  .object({
    ...head,
    object: z.literal('chat.completion'),
    choices: z.array(
      z.object({
        index: z.literal(0),
        message: z.object({
          role: z.literal('assistant'),
          content: z.string().nullable(),
          refusal: z.string().nullable(),
          reasoning_content: z.string().exactOptional(),
          tool_calls: z.array(z.union([callSchema, customCallSchema])).exactOptional(),
          function_call: callSchema.shape.function.exactOptional(),
        }),
        logprobs: z.null(),
        finish_reason: z.enum(['stop', 'length', 'tool_calls', 'function_call', 'content_filter']),
      }),
    ),
    usage: usageSchema.exactOptional(),
  })
  .meta({ id: 'ChatCompletion' })

/** The `data` of a frame; the last frame is `[DONE]`. */
export const chatChunkSchema = z
  .object({
    ...head,
    object: z.literal('chat.completion.chunk'),
    choices: z.array(z.record(z.string(), z.unknown())),
    usage: usageSchema.nullable().exactOptional(),
  })
  .meta({ id: 'ChatCompletionChunk' })
