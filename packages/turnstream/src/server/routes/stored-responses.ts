import { anyOf } from '@turnstream/core/internal/async/on-abort'
import {
  deletedResponseSchema,
  inputItemsSchema,
  responseObjectSchema,
  responsesEventSchema,
} from '@turnstream/core/internal/formats/responses/schemas'
import {
  ENCRYPTED_CONTENT,
  type ResponsesObject,
} from '@turnstream/core/internal/formats/responses/wire'
import {
  ResponsesEncoder,
  type ResponsesEncoderOptions,
} from '@turnstream/core/internal/formats/responses/write'
import type { TurnLog, TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import type { Context } from 'hono'
import * as z from 'zod'
import { START } from '../../log/offsets.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from '../context.ts'
import { encodeJson, sendRead } from '../json-response.ts'
import { eventsSoFar, pageOf, readInputItems, turnIdOf } from '../openai/stored-responses.ts'
import { dialect, isOpenResponses, responsesAnswerEncoder } from './responses.ts'
import * as spec from './spec.ts'
import { withStreamSlot } from './submit.ts'
import { ifDamaged } from './threads.ts'
import { streamAnswer } from './vendor-turns.ts'

const params = z.object({ responseId: spec.id })

/** The query of `GET /v1/responses/{id}`. */
const include = spec.optional(
  z.union([z.string().max(500), z.array(z.string().max(100)).max(20)]),
  '`reasoning.encrypted_content`, as in the request that created the response',
)

const retrieveQuerySchema = z.object({
  dialect,
  include,
  // How OpenAI's clients write a list.
  'include[]': include,
  stream: z.enum(['true', 'false']).exactOptional(),
  starting_after: spec.optional(
    // An empty text would be 0, and skip the first event.
    z.string().min(1).pipe(z.coerce.number<string>().int().min(0)),
    'With `stream`: sends the events after this sequence number',
  ),
})

const inputItemsQuerySchema = z.object({
  limit: z.coerce.number().int().min(1).max(100).default(20),
  order: z.enum(['asc', 'desc']).default('desc'),
  after: spec.optional(z.string().max(300), 'The id of an item: the page starts after it'),
})

const retrieveRoute = spec.route('get', ROUTES.response, {
  summary: 'Retrieve or resume a response (OpenAI compatible)',
  description: 'Works for every turn, also while it runs. Its id is `resp_<turnId>`.',
  tags: ['openai'],
  request: { params, query: retrieveQuerySchema },
  responses: {
    200: spec.jsonOrSse(
      'The response so far, or with `stream` its events and then `[DONE]`',
      responseObjectSchema,
      responsesEventSchema,
    ),
    ...spec.openaiRefusals(
      ...spec.READ_REFUSALS,
      'STREAMS_LIMITED',
      'TURN_EXPIRED',
      'TURN_UNKNOWN',
    ),
  },
})

const deleteRoute = spec.route('delete', ROUTES.response, {
  summary: 'Delete a response (OpenAI compatible)',
  description: 'Also cancels it if it is still running.',
  tags: ['openai'],
  request: { params },
  responses: {
    200: spec.json('It was deleted', deletedResponseSchema),
    ...spec.openaiRefusals('TURN_UNKNOWN'),
  },
})

const cancelRoute = spec.route('post', ROUTES.responseCancel, {
  summary: 'Cancel a response (OpenAI compatible)',
  description: 'Returns the response. Has no effect after its end.',
  tags: ['openai'],
  request: { params },
  responses: {
    200: spec.json('The response', responseObjectSchema),
    ...spec.openaiRefusals(...spec.READ_REFUSALS, 'TURN_EXPIRED', 'TURN_UNKNOWN'),
  },
})

const inputItemsRoute = spec.route('get', ROUTES.responseInputItems, {
  summary: 'List the input of a response (OpenAI compatible)',
  tags: ['openai'],
  request: { params, query: inputItemsQuerySchema },
  responses: {
    200: spec.json('A page of items', inputItemsSchema),
    ...spec.openaiRefusals(...spec.READ_REFUSALS, 'TURN_EXPIRED', 'TURN_UNKNOWN'),
  },
})

/** A turn ends within a second of a cancel, unless its store or its process has a problem. */
const CANCEL_MS = 5000

export function addStoredResponseRoutes(app: GatewayApp, context: GatewayContext): void {
  app.openapi(retrieveRoute, async (c) => {
    const turn = await readableTurn(c)
    const { stream, starting_after: startingAfter = -1, dialect, ...query } = c.req.valid('query')
    const included = [query.include, query['include[]']].flat().flatMap((each) => each?.split(','))
    const hasEncryptedContent = included.includes(ENCRYPTED_CONTENT)
    if (stream !== 'true') return sendResponse(c, context, turn, hasEncryptedContent)
    const { turnId, createdAt } = turn
    const openResponses = isOpenResponses(dialect, context)
    const head = { turnId, createdAt, model: '', hasEncryptedContent }
    const encoder = new ResponsesEncoder({ ...head, startingAfter, openResponses })
    const reading = { c, context, turn, isTied: false, isNamed: true }
    return withStreamSlot(c, context, () =>
      streamAnswer(reading, responsesAnswerEncoder(encoder, c), 'responses', 0),
    )
  })

  app.openapi(cancelRoute, async (c) => {
    const { log, tenant } = c.get('space')
    const turn = await readableTurn(c)
    const { turnId } = turn
    const reason = 'cancelled by the client'
    const isStopping = !turn.sealed && (await context.turns.cancel(turnId, reason, tenant))
    if (isStopping) await endOf(log, turnId, context)
    return sendResponse(c, context, turn)
  })

  app.openapi(deleteRoute, async (c) => {
    const { log, newTurns } = c.get('space')
    const turn = await turnOf(c).catch(ifDamaged)
    const turnId = turn?.turnId ?? turnIdOf(c.req.valid('param').responseId) ?? ''
    // Otherwise its owner would notice only at its next write, and the provider call would continue.
    if (turn?.sealed === false) await log.requestCancel(turnId, 'the response was deleted')
    if (!(await log.deleteTurn(turnId))) throw unknownResponse(`resp_${turnId}`)
    // The thread of a damaged turn is unknown.
    if (turn !== undefined) {
      await removeTitle(log, turn.threadId)
      newTurns.announce(turn.threadId)
    }
    return c.json(
      { id: `resp_${turnId}`, object: 'response' as const, deleted: true as const },
      200,
    )
  })

  app.openapi(inputItemsRoute, async (c) => {
    const { log } = c.get('space')
    const turn = await readableTurn(c)
    return sendRead<z.infer<typeof inputItemsSchema>>(c, context, async () =>
      encodeJson(pageOf(await readInputItems(log, turn), c.req.valid('query'))),
    )
  })
}

function sendResponse(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  { turnId, createdAt }: TurnRecord,
  hasEncryptedContent = false,
) {
  const { log } = c.get('space')
  const head = { turnId, createdAt, model: '', hasEncryptedContent }
  return sendRead<z.infer<typeof responseObjectSchema>>(c, context, async () =>
    encodeJson(await readResponse(log, head)),
  )
}

/** TURN_UNKNOWN. */
async function turnOf(c: Context<GatewayEnv>): Promise<TurnRecord> {
  const responseId = c.req.param('responseId') ?? ''
  const turnId = turnIdOf(responseId)
  const turn = turnId === undefined ? undefined : await c.get('space').log.getTurn(turnId)
  if (turn === undefined) throw unknownResponse(responseId)
  c.set('turnId', turn.turnId)
  return turn
}

/** The same, with its logs. TURN_EXPIRED. */
async function readableTurn(c: Context<GatewayEnv>): Promise<TurnRecord> {
  const turn = await turnOf(c)
  if (turn.expired) throw new TurnstreamError('TURN_EXPIRED', turn.turnId)
  return turn
}

function unknownResponse(id: string): TurnstreamError {
  return new TurnstreamError('TURN_UNKNOWN', id.slice(0, 200))
}

async function readResponse(
  log: TurnLog,
  options: ResponsesEncoderOptions,
): Promise<ResponsesObject> {
  const encoder = new ResponsesEncoder(options)
  for await (const { event } of eventsSoFar(log, options.turnId)) {
    if (isStreamEvent(event)) encoder.encode(event)
  }
  return encoder.response
}

async function endOf(
  log: TurnLog,
  turnId: string,
  { clock, closing }: GatewayContext,
): Promise<void> {
  const late = new AbortController()
  const stopTimer = clock.after(CANCEL_MS, () => late.abort())
  const { signal, release } = anyOf([late.signal, closing])
  try {
    // Only the end of the iteration matters.
    for await (const _ of log.tail(turnId, 'events', START, signal)) continue
  } finally {
    release()
    stopTimer()
  }
}

/** The title of a thread without turns is all that is left of its first request. */
async function removeTitle(log: TurnLog, threadId: string): Promise<void> {
  const { items } = await log.listTurns(threadId, { limit: 1, replaced: true })
  const thread = items.length === 0 ? await log.getThread(threadId) : undefined
  if (thread?.title === undefined) return
  const { metadata } = thread
  try {
    await log.putThread({ threadId, ...(metadata && { metadata }) }, thread)
  } catch (error) {
    // It has a new turn or title.
    if (!hasCode(error, 'THREAD_CHANGED')) throw error
  }
}
