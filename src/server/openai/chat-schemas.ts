import * as z from 'zod'
import { filePart, imagePart, MAX_TEXT_CHARS, textOrParts, textPart } from '../content-parts.ts'
import * as spec from '../routes/spec.ts'
import { MAX_TOKENS, reasoningEffortSchema } from '../routes/submit.ts'
import { UNSUPPORTED } from './errors.ts'

const MAX_MESSAGES = 2048
/** Tool names in a request. */
const MAX_NAME_CHARS = 64
/** Ids and names in earlier messages, which another server may have created. */
const MAX_EARLIER_NAME_CHARS = 200

const textSchema = z.string().max(MAX_TEXT_CHARS)

/** A parameter that must be missing or one of `values`. */
function only(values: readonly unknown[], why: string) {
  const isSupported = (value: unknown) =>
    value === undefined || value === null || values.includes(value)
  return z
    .unknown()
    .refine(isSupported, { message: why, params: { reason: UNSUPPORTED } })
    .optional()
    .meta({ description: why })
}

const NOT_HERE = 'is not supported: leave it out'
const NOT_SAMPLED = 'is not supported by every provider: leave it out'

const name = only([], 'is not supported by every provider')

const systemFields = { content: textOrParts(textPart), name }

const earlierNameSchema = z.string().min(1).max(MAX_EARLIER_NAME_CHARS)

const earlierCallSchema = z.looseObject({
  id: earlierNameSchema,
  type: z.literal('function', 'only function calls are supported'),
  function: z.looseObject({ name: earlierNameSchema, arguments: textSchema }),
})

const assistantPart = z.discriminatedUnion('type', [
  textPart,
  z.strictObject({ type: z.literal('refusal'), refusal: textSchema }),
])

/** Sent back as a server returned it. Unknown fields, which other servers add, are ignored. */
const assistantSchema = z.looseObject({
  role: z.literal('assistant'),
  content: textOrParts(assistantPart).nullish(),
  refusal: textSchema.nullish(),
  tool_calls: z.array(earlierCallSchema).max(128).nullish(),
  name,
  audio: only([], 'audio is not supported'),
  function_call: only([], 'was replaced by tool_calls'),
})

const userPart = z.discriminatedUnion(
  'type',
  [
    textPart,
    imagePart(only(['auto'], 'must be auto: other values are not supported by every provider')),
    filePart,
  ],
  'must be text, image_url or file',
)

const messageSchema = z.discriminatedUnion(
  'role',
  [
    z.strictObject({ role: z.literal('system'), ...systemFields }),
    z.strictObject({ role: z.literal('developer'), ...systemFields }),
    z.strictObject({ role: z.literal('user'), content: textOrParts(userPart), name }),
    assistantSchema,
    z.strictObject({
      role: z.literal('tool'),
      tool_call_id: earlierNameSchema,
      content: textOrParts(textPart),
      name: z
        .string()
        .nullish()
        .meta({ description: 'Must match the function if present; sent by older clients' }),
    }),
  ],
  'must be system, developer, user, assistant or tool',
)

export type ChatMessage = z.infer<typeof messageSchema>

function nameSchema() {
  return z
    .string()
    .regex(/^[\w-]+$/, 'must contain only letters, digits, _ and -')
    .max(MAX_NAME_CHARS)
}

const toolSchema = z.strictObject({
  type: z.literal('function'),
  function: z.strictObject({
    name: nameSchema(),
    description: z.string().max(20_000).nullish(),
    parameters: spec.jsonObject(200_000).nullish(),
    strict: z.boolean().nullish(),
  }),
})

const responseFormatSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    json_schema: z.strictObject({
      name: nameSchema(),
      description: only([], NOT_HERE),
      schema: spec.jsonObject(200_000),
      strict: z.boolean().nullish(),
    }),
  }),
])

const honoured = {
  messages: z.array(messageSchema).min(1).max(MAX_MESSAGES),
  model: z
    .string()
    .min(1)
    .max(300)
    .meta({ description: '`<providerId>/<modelId>`, or only the model' }),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({
      include_usage: z.boolean().nullish(),
      include_obfuscation: only([false], NOT_HERE),
    })
    .nullish(),
  tools: z.array(toolSchema).max(128).nullish(),
  tool_choice: z
    .union(
      [
        z.enum(['none', 'auto', 'required']),
        z.strictObject({
          type: z.literal('function'),
          function: z.strictObject({ name: nameSchema() }),
        }),
      ],
      'must be none, auto, required or a function',
    )
    .nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  response_format: responseFormatSchema.nullish(),
  reasoning_effort: reasoningEffortSchema.nullish(),
  max_completion_tokens: z.int().min(1).max(MAX_TOKENS).nullish(),
  max_tokens: z.int().min(1).max(MAX_TOKENS).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  stop: z
    .union(
      [z.string().min(1).max(1000), z.array(z.string().min(1).max(1000)).max(4)],
      'must be a string or up to 4 strings',
    )
    .nullish(),
}

/** Stored with the thread. No other effect. */
const stored = {
  user: z.string().max(512).nullish(),
  safety_identifier: z.string().max(512).nullish(),
  prompt_cache_key: z.string().max(512).nullish(),
  store: z.boolean().nullish(),
  metadata: z
    .record(z.string().max(64), z.string().max(512))
    .refine((pairs) => Object.keys(pairs).length <= 16, 'has more than 16 pairs')
    .nullish(),
}

const refused = {
  n: only([1], 'must be 1: a turn has one answer'),
  logprobs: only([false], NOT_SAMPLED),
  top_logprobs: only([], NOT_SAMPLED),
  logit_bias: only([], NOT_SAMPLED),
  seed: only([], NOT_SAMPLED),
  frequency_penalty: only([0], NOT_SAMPLED),
  presence_penalty: only([0], NOT_SAMPLED),
  service_tier: only(['auto'], NOT_SAMPLED),
  verbosity: only([], NOT_SAMPLED),
  audio: only([], NOT_HERE),
  modalities: z
    .array(z.string())
    .refine((all) => all.every((each) => each === 'text'), {
      message: 'only text output is supported',
      params: { reason: UNSUPPORTED },
    })
    .nullish(),
  moderation: only([], NOT_HERE),
  prediction: only([], NOT_HERE),
  prompt_cache_options: only([], NOT_HERE),
  prompt_cache_retention: only([], NOT_HERE),
  web_search_options: only([], NOT_HERE),
  functions: only([], 'was replaced by tools'),
  function_call: only([], 'was replaced by tool_choice'),
}

/** `POST /v1/chat/completions`. Unknown parameters are refused, as by OpenAI. */
export const chatBodySchema = z
  .strictObject({ ...honoured, ...stored, ...refused })
  .refine(({ max_tokens: old, max_completion_tokens: max }) => (old ?? max) === (max ?? old), {
    path: ['max_tokens'],
    message: 'differs from max_completion_tokens',
  })
  .meta({
    id: 'ChatCompletionRequest',
    examples: [{ model: 'MODEL', messages: [{ role: 'user', content: 'Hello' }], stream: true }],
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
          tool_calls: z.array(callSchema).exactOptional(),
        }),
        logprobs: z.null(),
        finish_reason: z.enum(['stop', 'length', 'tool_calls', 'content_filter']),
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
