import * as z from 'zod'
import { bodySchema, idSchema, jsonObjectSchema, textSchema } from './parts.ts'

// As much as a whole turn may come to. What may be sent at once is bounded by `maxBodyBytes` first.
const MAX_TEXT_CHARS = 10_000_000
const MAX_NAME_CHARS = 200
const MAX_TOKENS = 10_000_000

const inputSchema = z.discriminatedUnion('type', [
  bodySchema({
    type: z.literal('message'),
    origin: z.enum(['user', 'system']),
    content: textSchema(MAX_TEXT_CHARS),
  }),
  bodySchema({
    type: z.literal('function_call_output'),
    call_id: z.string().min(1).max(MAX_NAME_CHARS),
    output: z.string().max(MAX_TEXT_CHARS),
    success: z.boolean(),
  }),
])

const toolSchema = bodySchema({
  name: z.string().min(1).max(MAX_NAME_CHARS),
  description: z.string().max(20_000).exactOptional(),
  parameters: jsonObjectSchema(200_000).meta({ description: 'A JSON Schema' }),
})

const responseFormatSchema = z.discriminatedUnion('type', [
  bodySchema({ type: z.literal('text') }),
  bodySchema({ type: z.literal('json_object') }),
  bodySchema({
    type: z.literal('json_schema'),
    name: z.string().min(1).max(MAX_NAME_CHARS),
    schema: jsonObjectSchema(200_000),
    strict: z.boolean().exactOptional(),
  }),
])

/** What the provider is asked with besides the input, as `TurnSettings` has it. */
const settings = {
  tools: z
    .array(toolSchema)
    .max(256)
    .exactOptional()
    .meta({ description: 'Tools of the client: a call to one of them ends the turn' }),
  toolChoice: z
    .union([
      z.enum(['auto', 'none', 'required']),
      bodySchema({ name: z.string().min(1).max(MAX_NAME_CHARS) }),
    ])
    .exactOptional(),
  reasoningEffort: z.enum(['none', 'minimal', 'low', 'medium', 'high']).exactOptional(),
  thinkingBudget: z.int().min(0).max(MAX_TOKENS).exactOptional(),
  maxOutputTokens: z.int().min(1).max(MAX_TOKENS).exactOptional(),
  temperature: z.number().min(0).max(2).exactOptional(),
  topP: z.number().min(0).max(1).exactOptional(),
  stop: z.array(z.string().min(1).max(1000)).max(16).exactOptional(),
  responseFormat: responseFormatSchema.exactOptional(),
  parallelToolCalls: z.boolean().exactOptional(),
}

/** What starts a turn. */
export const submitBodySchema = bodySchema({
  prompt: textSchema(MAX_TEXT_CHARS)
    .exactOptional()
    .meta({ description: 'Short for one message of the user' }),
  input: z.array(inputSchema).min(1).max(1000).exactOptional(),
  model: z
    .string()
    .min(1)
    .max(300)
    .exactOptional()
    .meta({ description: '`<providerId>/<modelId>`, or a model alone' }),
  providerId: z.string().min(1).max(MAX_NAME_CHARS).exactOptional(),
  agentId: idSchema
    .exactOptional()
    .meta({ description: 'The agent that answers, as `agent_id` of the response' }),
  threadId: idSchema.exactOptional(),
  turnId: idSchema.exactOptional(),
  runId: idSchema.exactOptional(),
  ...settings,
})
  .refine(({ prompt, input }) => (prompt === undefined) !== (input === undefined), {
    message: 'must have either a prompt or an input',
  })
  .meta({ id: 'Submit', examples: [{ prompt: 'Hello' }] })

export type SubmitBody = z.infer<typeof submitBodySchema>

export const submittedSchema = z
  .object({ runId: z.string(), turnId: z.string(), threadId: z.string() })
  .meta({ id: 'Submitted' })
