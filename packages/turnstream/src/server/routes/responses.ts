import {
  decodeResponsesRequest,
  type Earlier,
} from '@turnstream/core/internal/formats/responses/request-in'
import {
  bareReasoningId,
  withoutPrefix,
} from '@turnstream/core/internal/formats/responses/request-items'
import * as schemas from '@turnstream/core/internal/formats/responses/schemas'
import type { ResponsesObject } from '@turnstream/core/internal/formats/responses/wire'
import {
  ResponsesEncoder,
  type ResponsesEncoderOptions,
} from '@turnstream/core/internal/formats/responses/write'
import { TurnFailedError } from '@turnstream/core/internal/formats/turn-failed-error'
import type { TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import { encodeSse } from '@turnstream/core/internal/sse/encode'
import type { Context } from 'hono'
import * as z from 'zod'
import type { GatewayApp, GatewayContext, GatewayEnv } from '../context.ts'
import { lastItems, receivedItems, repetitionKeys } from '../openai/returned-items.ts'
import { storedReasoning } from '../openai/stored-reasoning.ts'
import { firstEvent, readPrevious, referencedItems } from '../openai/stored-responses.ts'
import { type FindReceived, newHash } from '../reattachment.ts'
import type { AnswerEncoder } from '../streams/answer-stream.ts'
import * as spec from './spec.ts'
import * as vendor from './vendor-turns.ts'

export const dialect = spec.optional(
  z.enum(['openai', 'open-responses']),
  'How streams name reasoning events; the setting `openResponses` by default',
)

type ResponsesBody = schemas.ResponsesBody
type ResponsesDialect = 'openai' | 'open-responses'

const createRoute = spec.route('post', ROUTES.responses, {
  summary: 'Create a response (OpenAI compatible)',
  description:
    'Runs one turn. It continues when the client disconnects, and every response can be retrieved, resumed and ' +
    'cancelled. With `store: false`, its content is deleted ten minutes after its end.',
  tags: ['openai'],
  request: {
    headers: vendor.headersSchema,
    query: z.object({ dialect }),
    body: spec.jsonBody(schemas.responsesBodySchema),
  },
  responses: {
    200: vendor.answerSpec(
      'The response, or with `stream` its events and then `[DONE]`',
      schemas.responseObjectSchema,
      schemas.responsesEventSchema,
    ),
  },
  refusals: [...vendor.ANSWER_REFUSALS, 'READS_LIMITED'],
})

const inputTokensRoute = spec.route('post', ROUTES.responseInputTokens, {
  summary: 'Estimate the input tokens of a response (OpenAI compatible)',
  tags: ['openai'],
  request: { body: spec.jsonBody(schemas.inputTokensBodySchema) },
  responses: { 200: spec.json('The estimate', schemas.inputTokensSchema) },
  refusals: spec.READ_REFUSALS,
})

export function addResponsesRoutes(app: GatewayApp, context: GatewayContext): void {
  app.openapi(createRoute, (c) => {
    const body = c.req.valid('json')
    const headers = c.req.valid('header')
    return vendor.answerRequest(c, context, {
      headers,
      isStreamed: body.stream === true,
      begin: () => findRepetition(c, context, body),
      prepare: async () => {
        const earlier = await readEarlier(c, context, body)
        const request = decodeResponsesRequest(body, earlier)
        const { unstoredMs: contentMs } = context
        const isBrief = body.store === false && contentMs !== undefined
        return { ...request, ...(isBrief && { contentMs }), previous: earlier.turn }
      },
      stream: (started) => streamResponse(started, body, c.req.valid('query').dialect),
      complete: (started) => completeResponse(started, body),
    })
  })

  app.openapi(inputTokensRoute, async (c) => {
    const json = c.req.valid('json')
    const body = { ...json, model: json.model ?? '' }
    const earlier = await readEarlier(c, context, body)
    const { submission } = decodeResponsesRequest(body, earlier)
    const input_tokens = vendor.estimateInputTokens(submission)
    return c.json({ object: 'response.input_tokens' as const, input_tokens }, 200)
  })

  // Not part of the API, but clients that try it should know why it fails.
  app.all(`${ROUTES.responses}/compact`, () => {
    throw new TurnstreamError('ROUTE_UNSUPPORTED', 'compaction')
  })
}

/** An agent that was cut off repeats its request with the items that it has received. */
async function findRepetition(
  c: Context<GatewayEnv>,
  { limits }: GatewayContext,
  body: ResponsesBody,
): Promise<void> {
  const { isInSession } = c.get('repeated') ?? {}
  if (isInSession === undefined || (!isInSession && body['client_metadata'] === undefined)) return
  const keys = await repetitionKeys(newHash(c, ROUTES.responses), body, isInSession)
  const { log } = c.get('space')
  const findReceived: FindReceived = (turn, count) =>
    limits.read(c.get('caller'), () => receivedItems(log, turn, lastItems(body, count)))
  c.set('repeated', { keys, isInSession, findReceived })
}

/** What the request refers to, read like any stored turn: in the caller's queue. READS_LIMITED. */
async function readEarlier(
  c: Context<GatewayEnv>,
  { limits }: GatewayContext,
  { previous_response_id: previous, input }: Pick<ResponsesBody, 'previous_response_id' | 'input'>,
): Promise<Earlier & { readonly turn?: TurnRecord }> {
  if (!previous && !hasReferences(input)) return { items: [], findItem: () => undefined }
  const { log } = c.get('space')
  return limits.read(c.get('caller'), async () => {
    const known = previous ? await readPrevious(log, previous) : { items: [] }
    const references = await referencedItems(log, input)
    const reasoning = await storedReasoning(log, input)
    const find = (id: string) => reasoning.get(id) ?? references.get(id)
    return { ...known, findItem: (id) => find(withoutPrefix(id)) }
  })
}

function hasReferences(input: ResponsesBody['input']): boolean {
  if (typeof input === 'string') return false
  return input.some((item) => item.type === 'item_reference' || bareReasoningId(item) !== undefined)
}

/** The events of a background response start at once: its client needs the id. So do those of one that has begun. */
function streamResponse(
  started: vendor.VendorTurn,
  { model, background }: ResponsesBody,
  dialect: ResponsesDialect | undefined,
): Promise<Response> {
  const { c, context, turn, received } = started
  const { turnId, createdAt } = turn
  const openResponses = isOpenResponses(dialect, context)
  const head = { turnId, createdAt, model, openResponses }
  const encoder = new ResponsesAnswer({ ...head, omitted: received }, c)
  const hasBegun = received !== undefined && received.size > 0
  return vendor.streamAnswer(started, encoder, background === true || hasBegun ? 0 : undefined)
}

/** The dialect of a request, or else the configured one. */
export function isOpenResponses(
  dialect: ResponsesDialect | undefined,
  { openResponses }: GatewayContext,
): boolean {
  return dialect === undefined ? openResponses : dialect === 'open-responses'
}

async function completeResponse(
  started: vendor.VendorTurn,
  { model, background }: ResponsesBody,
): Promise<ResponsesObject> {
  const { turn, received } = started
  const { turnId, createdAt } = turn
  const encoder = new ResponsesEncoder({ turnId, createdAt, model, omitted: received })
  if (background === true) {
    const event = await firstEvent(started.c.get('space').log, turnId)
    if (event !== undefined) encoder.encode(event)
    return { ...encoder.response, status: 'queued' }
  }
  const failure = await vendor.followAnswer(started, (event) => encoder.encode(event))
  const { response } = encoder
  if (response.error === null) return response
  throw new TurnFailedError(failure ?? response.error, started.isNamed)
}

/** The answer for one client: some need data to keep waiting, and others refuse it. */
export class ResponsesAnswer extends ResponsesEncoder implements AnswerEncoder {
  readonly kind = 'responses'
  readonly hasCancelled = true
  /** The end of a text has it three times, and the end of the response once more. */
  readonly repeats = 4
  readonly #needsData: boolean

  constructor(options: ResponsesEncoderOptions, { req }: Context<GatewayEnv>) {
    super(options)
    const names = [req.header('originator'), req.header('user-agent')]
    this.#needsData = names.some((name) => name?.toLowerCase().startsWith('codex'))
  }

  heartbeatSse(): string {
    if (!this.#needsData || this.lastNumber < 0) return ''
    // Not part of the log, so it has no number.
    const event = { type: 'keepalive', sequence_number: this.lastNumber }
    return encodeSse({ event: 'keepalive', data: JSON.stringify(event) })
  }
}
