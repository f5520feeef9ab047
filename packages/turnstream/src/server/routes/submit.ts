import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { EFFORTS } from '@turnstream/core/internal/formats/model-traits'
import { RequestInvalidError } from '@turnstream/core/internal/formats/request-errors'
import {
  MAX_SCHEMA_CHARS,
  MAX_TEXT_CHARS,
  MAX_TOKENS,
  omitNullish,
} from '@turnstream/core/internal/formats/request-in'
import { jsonObject, logitBiasSchema } from '@turnstream/core/internal/formats/request-schemas'
import type { Submission } from '@turnstream/core/internal/formats/submission'
import type { ErrorCode } from '@turnstream/core/internal/protocol/errors'
import { HEADERS, ROUTES } from '@turnstream/core/internal/protocol/names'
import type { TraceContext } from '@turnstream/core/internal/protocol/stream-event'
import type { Context } from 'hono'
import * as z from 'zod'
import { START } from '../../log/offsets.ts'
import type { Submitted } from '../../turns/turn-request.ts'
import type { SubmitOptions } from '../../turns/turn-runner.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from '../context.ts'
import type { StreamSlot } from '../limits/key-limits.ts'
import { openTurnStream } from '../streams/turn-stream.ts'
import * as spec from './spec.ts'
import { argumentsQuery, outputSchema } from './streams.ts'
import { historySchema, inputSchema, MAX_NAME_CHARS, toTurnItems } from './submit-input.ts'

const toolSchema = spec.object({
  name: z.string().min(1).max(MAX_NAME_CHARS),
  description: z.string().max(20_000).exactOptional(),
  parameters: jsonObject(MAX_SCHEMA_CHARS).describe('A JSON Schema'),
})

const responseFormatSchema = z.discriminatedUnion('type', [
  spec.object({ type: z.literal('text') }),
  spec.object({ type: z.literal('json_object') }),
  spec.object({
    type: z.literal('json_schema'),
    name: z.string().min(1).max(MAX_NAME_CHARS),
    schema: jsonObject(MAX_SCHEMA_CHARS),
    strict: z.boolean().exactOptional(),
  }),
])

/** The fields of `SubmissionSettings`. */
const settings = {
  tools: spec.optional(z.array(toolSchema).max(256), 'Client tools: a call to one ends the turn'),
  toolChoice: z
    .union([
      z.enum(['auto', 'none', 'required']),
      spec.object({ name: z.string().min(1).max(MAX_NAME_CHARS) }),
    ])
    .exactOptional(),
  reasoningEffort: z.enum(EFFORTS).exactOptional(),
  reasoningSummary: z.enum(['none', 'auto', 'concise', 'detailed']).exactOptional(),
  thinkingBudget: z.int().min(0).max(MAX_TOKENS).exactOptional(),
  maxOutputTokens: z.int().min(1).max(MAX_TOKENS).exactOptional(),
  temperature: z.number().min(0).max(2).exactOptional(),
  topP: z.number().min(0).max(1).exactOptional(),
  stop: z.array(z.string().min(1).max(1000)).max(16).exactOptional(),
  responseFormat: responseFormatSchema.exactOptional(),
  parallelToolCalls: z.boolean().exactOptional(),
  topK: z.int().min(1).max(1_000_000).exactOptional(),
  seed: z.int().exactOptional(),
  frequencyPenalty: z.number().min(-2).max(2).exactOptional(),
  presencePenalty: z.number().min(-2).max(2).exactOptional(),
  logitBias: spec.optional(logitBiasSchema, 'From -100 to 100, by token id'),
  verbosity: z.enum(['low', 'medium', 'high']).exactOptional(),
  serviceTier: z
    .string()
    .regex(/^[\w-]{1,64}$/)
    .exactOptional(),
  user: spec.optional(z.string().min(1).max(512), 'An id of the end user'),
  promptCacheKey: z.string().min(1).max(512).exactOptional(),
  promptCache: z.enum(['5m', '1h']).exactOptional(),
}

export const submitBodySchema = spec
  .object({
    prompt: spec.optional(spec.text(MAX_TEXT_CHARS), 'Shorthand for one user message'),
    input: inputSchema.exactOptional(),
    history: spec.optional(
      historySchema,
      'What was said before, oldest first; the stored thread is then not read',
    ),
    model: spec.optional(z.string().min(1).max(300), '`<providerId>/<modelId>`, or only the model'),
    providerId: z.string().min(1).max(MAX_NAME_CHARS).exactOptional(),
    agentId: spec.optional(spec.id, 'Sets `agent_id` of the response'),
    threadId: spec.id.exactOptional(),
    replaces: spec.optional(
      spec.id,
      'A turn of the thread: it and all later ones leave its history and lists',
    ),
    turnId: spec.id.exactOptional(),
    runId: spec.id.exactOptional(),
    ...settings,
  })
  .refine(({ prompt, input }) => (prompt === undefined) !== (input === undefined), {
    message: 'must have either a prompt or an input',
  })
  .meta({ id: 'Submit', examples: [{ prompt: 'Hello' }] })

const submittedSchema = z
  .object({ runId: z.string(), turnId: z.string(), threadId: z.string() })
  .meta({ id: 'Submitted' })

/** Headers of every request that starts a turn. */
export const submitHeadersSchema = z.object({
  [HEADERS.idempotencyKey]: spec.optional(
    spec.headerId,
    'Works like a `runId`: the same key and body return the same turn',
  ),
  [HEADERS.traceparent]: spec.optional(
    z.string(),
    'W3C trace context, copied to every event. Ignored if malformed',
  ),
  [HEADERS.tracestate]: spec.optional(
    z.string(),
    'The same, up to 1,000 characters; ignored without a `traceparent`',
  ),
})

export type SubmitHeaders = z.infer<typeof submitHeadersSchema>

/** Errors of every route that starts a turn. */
export const SUBMIT_REFUSALS: readonly ErrorCode[] = [
  'INPUT_TOO_LARGE',
  'MODEL_UNKNOWN',
  'SERVER_SHUTDOWN',
  'STORE_FULL',
  'SUBMITS_LIMITED',
  'SUBMIT_CONFLICT',
  'THREADS_LIMITED',
  'THREAD_BUSY',
  'TURNS_LIMITED',
  'TURN_DELETED',
  'UNREAD_LIMITED',
]

/** The same for our own routes. */
const OWN_REFUSALS: readonly ErrorCode[] = [
  ...SUBMIT_REFUSALS,
  'TOOL_CALL_ANSWERED',
  'TOOL_CALL_UNKNOWN',
  'TURN_REPLACED',
  'TURN_UNKNOWN',
]

const submitRoute = spec.route('post', ROUTES.submit, {
  summary: 'Start a turn',
  description:
    'Responds once the turn is durable; it then runs independently of its readers. Repeating the ids and ' +
    'the body returns the same turn.',
  tags: ['v2'],
  request: { headers: submitHeadersSchema, body: spec.jsonBody(submitBodySchema) },
  responses: { 202: spec.json('The turn is durable', submittedSchema) },
  refusals: [...OWN_REFUSALS],
})

const threadTurnRoute = spec.route('post', ROUTES.threadTurn, {
  summary: 'Start a turn in a thread and stream it',
  description:
    'Submits a turn and streams its snapshots. After a disconnect, resume with the stream of ' +
    'the turn, whose id is in a header. Disconnecting does not stop the turn.',
  tags: ['xapi'],
  request: {
    params: z.object({ threadId: spec.id }),
    query: z.object({
      encoding: z.enum(['snapshot', 'append']).default('snapshot'),
      arguments: argumentsQuery,
    }),
    headers: submitHeadersSchema,
    body: spec.jsonBody(submitBodySchema),
  },
  responses: {
    200: {
      ...spec.sse('The frames of the turn to its end', outputSchema),
      headers: spec.turnHeaders,
    },
  },
  refusals: [...OWN_REFUSALS, 'STREAMS_LIMITED'],
})

export function addSubmitRoutes(app: GatewayApp, context: GatewayContext): void {
  app.openapi(submitRoute, async (c) => {
    const submission = toSubmission(c.req.valid('json'), c.req.valid('header'))
    const { runId, turnId, threadId } = await startTurn(c, context, submission)
    return c.json({ runId, turnId, threadId }, 202)
  })

  app.openapi(threadTurnRoute, async (c) => {
    const { threadId } = c.req.valid('param')
    const body = { threadId, ...c.req.valid('json') }
    if (body.threadId !== threadId) {
      throw new RequestInvalidError([{ path: 'body.threadId', message: 'differs from the path' }])
    }
    const submission = toSubmission(body, c.req.valid('header'))
    const { encoding, arguments: shown } = c.req.valid('query')
    const reading = { encoding, isStreamingArguments: shown === 'stream', after: START }
    return withStreamSlot(c, context, async () => {
      const { turnId: id } = await startTurn(c, context, submission)
      const turn = await c.get('space').log.getTurn(id)
      return openTurnStream(c, context, turn, { id, log: 'processed', ...reading })
    })
  })
}

/** Starts a turn within the caller's limits, and notifies subscribers of its thread. */
export async function startTurn(
  c: Context<GatewayEnv>,
  { turns, limits }: GatewayContext,
  submission: Submission,
  options: Omit<SubmitOptions, 'tenant' | 'admit'> = {},
): Promise<Submitted> {
  const { tenant, newTurns, threadQuota } = c.get('space')
  const admit = async () => {
    const release = await threadQuota.reserve(submission.threadId ?? options.threadId)
    try {
      const leave = limits.admitTurn(c.get('caller'))
      const releaseBody = c.get('handOverBody')?.()
      return () => {
        leave()
        releaseBody?.()
      }
    } catch (error) {
      release()
      throw error
    }
  }
  // After a large body was parsed.
  if (isSliceOver()) await nextSlice()
  const submitted = await turns.submit(submission, { ...options, tenant, admit })
  c.set('turnId', submitted.turnId)
  newTurns.announce(submitted.threadId)
  return submitted
}

/** Takes a stream slot first: a caller that cannot read the turn must not start it. Freed when `run` throws. */
export async function withStreamSlot<T>(
  c: Context<GatewayEnv>,
  { limits }: GatewayContext,
  run: (slot: StreamSlot) => Promise<T>,
): Promise<T> {
  const slot = limits.takeStream(c.get('caller'))
  c.set('slot', slot)
  try {
    return await run(slot)
  } catch (error) {
    slot.free()
    throw error
  }
}

function toSubmission(body: z.infer<typeof submitBodySchema>, headers: SubmitHeaders): Submission {
  const { prompt = '', input, history, model, runId, ...rest } = body
  const { providerId, agentId, threadId, turnId, replaces, ...settings } = rest
  if (replaces !== undefined && threadId === undefined) {
    throw new RequestInvalidError([{ path: 'body.replaces', message: 'requires a threadId' }])
  }
  const given = input ?? [{ type: 'message', origin: 'user', content: prompt }]
  return {
    ...toTurnItems({ input: given, history }),
    settings,
    ...submissionHead({ model, runId }, headers),
    ...omitNullish({ providerId, agentId, threadId, replaces, turnId }),
  }
}

/** What requests of every API say about their turn. */
export function submissionHead(
  { model, runId }: { readonly model?: string | undefined; readonly runId?: string | undefined },
  headers: SubmitHeaders,
): Pick<Submission, 'model' | 'runId' | 'traceContext'> {
  return omitNullish({
    model,
    runId: toRunId(runId, headers[HEADERS.idempotencyKey]),
    traceContext: parseTraceContext(headers),
  })
}

/** Uses the idempotency key as run id if the body has none. Two different ones are ambiguous. */
function toRunId(runId: string | undefined, key: string | undefined): string | undefined {
  if (runId === undefined || key === undefined || runId === key) return runId ?? key
  throw new RequestInvalidError([
    { path: `headers.${HEADERS.idempotencyKey}`, message: 'differs from the runId of the body' },
  ])
}

/** Version, trace, parent, flags. Later versions may append fields. */
const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-[\da-f]{2}(-[!-~]{1,140})?$/
const ZEROS = /^0+$/

/** Printable ASCII, up to twice the length that every implementation must propagate. */
const TRACESTATE = /^[ -~]{1,1000}$/

/** Parses the W3C trace context. Ignores a malformed one: a faulty tracer must not fail a turn. */
export function parseTraceContext(headers: SubmitHeaders): TraceContext | undefined {
  const { traceparent = '', tracestate = '' } = headers
  const [, version, trace = '', parent = '', more] = TRACEPARENT.exec(traceparent) ?? []
  if (version === undefined || version === 'ff' || (version === '00' && more)) return undefined
  if (ZEROS.test(trace) || ZEROS.test(parent)) return undefined
  return { traceparent, ...(TRACESTATE.test(tracestate) && { tracestate }) }
}
