import { anyOf } from '@turnstream/core/internal/async/on-abort'
import * as schemas from '@turnstream/core/internal/formats/responses/schemas'
import { ENCRYPTED_CONTENT } from '@turnstream/core/internal/formats/responses/wire'
import { ResponsesEncoder } from '@turnstream/core/internal/formats/responses/write'
import type { TurnLog, TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import type { Context } from 'hono'
import * as z from 'zod'
import { START } from '../../log/offsets.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from '../context.ts'
import { encodeJson, sendRead } from '../json-response.ts'
import * as stored from '../openai/stored-responses.ts'
import { dialect, isOpenResponses, ResponsesAnswer } from './responses.ts'
import { cancelTurn } from './runs.ts'
import * as spec from './spec.ts'
import { ifDamaged } from './threads.ts'
import { resumeAnswer } from './vendor-turns.ts'

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
      schemas.responseObjectSchema,
      schemas.responsesEventSchema,
    ),
  },
  refusals: [...spec.TURN_REFUSALS, 'STREAMS_LIMITED'],
})

const deleteRoute = spec.route('delete', ROUTES.response, {
  summary: 'Delete a response (OpenAI compatible)',
  description: 'Also cancels it if it is still running.',
  tags: ['openai'],
  request: { params },
  responses: { 200: spec.json('It was deleted', schemas.deletedResponseSchema) },
  refusals: ['TURN_UNKNOWN'],
})

const cancelRoute = spec.route('post', ROUTES.responseCancel, {
  summary: 'Cancel a response (OpenAI compatible)',
  description: 'Returns the response. Has no effect after its end.',
  tags: ['openai'],
  request: { params },
  responses: { 200: spec.json('The response', schemas.responseObjectSchema) },
  refusals: spec.TURN_REFUSALS,
})

const inputItemsRoute = spec.route('get', ROUTES.responseInputItems, {
  summary: 'List the input of a response (OpenAI compatible)',
  tags: ['openai'],
  request: { params, query: inputItemsQuerySchema },
  responses: { 200: spec.json('A page of items', schemas.inputItemsSchema) },
  refusals: spec.TURN_REFUSALS,
})

/** A turn ends within a second of a cancel, unless its store or its process has a problem. */
const CANCEL_MS = 5000

export function addStoredResponseRoutes(app: GatewayApp, context: GatewayContext): void {
  app.openapi(retrieveRoute, async (c) => {
    const turn = await responseTurn(c)
    const { stream, starting_after: startingAfter = -1, dialect, ...query } = c.req.valid('query')
    const included = [query.include, query['include[]']].flat().flatMap((each) => each?.split(','))
    const hasEncryptedContent = included.includes(ENCRYPTED_CONTENT)
    if (stream !== 'true') return sendResponse(c, context, turn, hasEncryptedContent)
    const { turnId, createdAt } = turn
    const openResponses = isOpenResponses(dialect, context)
    const head = { turnId, createdAt, model: '', hasEncryptedContent }
    const encoder = new ResponsesAnswer({ ...head, startingAfter, openResponses }, c)
    return resumeAnswer(c, context, turn, encoder)
  })

  app.openapi(cancelRoute, async (c) => {
    const turn = await responseTurn(c)
    if (await cancelTurn(c, context, turn)) await endOf(c.get('space').log, turn.turnId, context)
    return sendResponse(c, context, turn)
  })

  app.openapi(deleteRoute, async (c) => {
    const { log, newTurns } = c.get('space')
    const { responseId } = c.req.valid('param')
    const turn = await stored.turnByWireId(c, 'resp_', responseId).catch(ifDamaged)
    const turnId = responseId.slice('resp_'.length)
    // Otherwise its owner would notice only at its next write, and the provider call would continue.
    if (turn?.sealed === false) await log.requestCancel(turnId, 'the response was deleted')
    if (!(await log.deleteTurn(turnId))) throw new TurnstreamError('TURN_UNKNOWN', responseId)
    // The thread of a damaged turn is unknown.
    if (turn !== undefined) {
      await removeTitle(log, turn.threadId)
      newTurns.announce(turn.threadId)
    }
    return c.json({ id: responseId, object: 'response', deleted: true } as const, 200)
  })

  app.openapi(inputItemsRoute, async (c) => {
    const turn = await responseTurn(c)
    return sendRead(c, context, async (log) =>
      encodeJson(stored.pageOf(await stored.readInputItems(log, turn), c.req.valid('query'))),
    )
  })
}

function sendResponse(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  { turnId, createdAt }: TurnRecord,
  hasEncryptedContent = false,
) {
  return sendRead(c, context, async (log) => {
    const encoder = new ResponsesEncoder({ turnId, createdAt, model: '', hasEncryptedContent })
    await stored.readStored(log, turnId, (event) => encoder.encode(event))
    return encodeJson(encoder.response)
  })
}

/** TURN_UNKNOWN, TURN_EXPIRED. */
function responseTurn(c: Context<GatewayEnv>): Promise<TurnRecord> {
  return stored.readableTurn(c, 'resp_', c.req.param('responseId') ?? '')
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
