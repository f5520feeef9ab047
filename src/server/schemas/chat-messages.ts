import * as z from 'zod'
import { UNSUPPORTED } from '../openai/parameter-error.ts'

// As much as a whole turn may come to. What may be sent at once is bounded by `maxBodyBytes` first.
const MAX_TEXT_CHARS = 10_000_000
const MAX_NAME_CHARS = 200
const MAX_PARTS = 1000

const text = z.string().max(MAX_TEXT_CHARS)

/** A text, or none. */
export const content = z.string().nullable()

const textPart = z.strictObject({ type: z.literal('text'), text })

const imagePart = z.strictObject({
  type: z.literal('image_url'),
  image_url: z.strictObject({
    url: z.string().meta({ description: 'The picture itself: data:image/png;base64,…' }),
    detail: z
      .string()
      .nullish()
      .refine((detail) => detail === undefined || detail === null || detail === 'auto', {
        message: 'cannot be honoured by every provider: only auto',
        params: { reason: UNSUPPORTED },
      }),
  }),
})

function partsOf<Part extends z.ZodType>(part: Part) {
  const parts = z.array(part).min(1).max(MAX_PARTS)
  return z.union([text, parts], 'must be a text or a list of parts')
}

const unsupported = (why: string) =>
  z
    .unknown()
    .refine((value) => value === undefined || value === null, {
      message: why,
      params: { reason: UNSUPPORTED },
    })
    .optional()

const name = unsupported('names of speakers cannot be told to every provider')

const systemFields = { content: partsOf(textPart), name }

const callSchema = z.looseObject({
  id: z.string().min(1).max(MAX_NAME_CHARS),
  type: z.literal('function', 'only calls of functions are known'),
  function: z.looseObject({
    name: z.string().min(1).max(MAX_NAME_CHARS),
    arguments: text,
  }),
})

const answerPart = z.discriminatedUnion('type', [
  textPart,
  z.strictObject({ type: z.literal('refusal'), refusal: text }),
])

/** It comes back as a server gave it, with whatever that puts into an answer: other fields are passed over. */
const assistantSchema = z.looseObject({
  role: z.literal('assistant'),
  content: partsOf(answerPart).nullish(),
  refusal: text.nullish(),
  tool_calls: z.array(callSchema).max(128).nullish(),
  name,
  audio: unsupported('there is no audio here'),
  function_call: unsupported('was replaced by tool_calls'),
})

export const messageSchema = z.discriminatedUnion(
  'role',
  [
    z.strictObject({ role: z.literal('system'), ...systemFields }),
    z.strictObject({ role: z.literal('developer'), ...systemFields }),
    z.strictObject({
      role: z.literal('user'),
      content: partsOf(
        z.discriminatedUnion('type', [textPart, imagePart], 'must be text or image_url'),
      ),
      name,
    }),
    assistantSchema,
    z.strictObject({
      role: z.literal('tool'),
      tool_call_id: z.string().min(1).max(MAX_NAME_CHARS),
      content: partsOf(textPart),
      name: z
        .string()
        .nullish()
        .meta({ description: 'That of the function, if it is there; older clients send it' }),
    }),
  ],
  'must be system, developer, user, assistant or tool',
)

export type ChatMessage = z.infer<typeof messageSchema>
