import { createRoute } from '@hono/zod-openapi'
import * as z from 'zod'
import type { ErrorCode } from '../../protocol/errors.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { admitTurn } from '../limits/admit-turn.ts'
import { headerIdSchema, openapiPath } from '../schemas/parts.ts'
import { refusals } from '../schemas/refusals.ts'
import { submitBodySchema, submittedSchema } from '../schemas/submit.ts'
import { submissionOf } from '../submission.ts'

/** The headers that a submit may have, wherever it is made. */
export const submitHeadersSchema = z.object({
  [HEADERS.idempotencyKey]: headerIdSchema
    .exactOptional()
    .meta({ description: 'Works like a `runId`: the same key and body are the same turn' }),
  [HEADERS.traceparent]: z
    .string()
    .exactOptional()
    .meta({ description: 'Of W3C Trace Context: the events carry it. Passed over if it is none' }),
  [HEADERS.tracestate]: z
    .string()
    .exactOptional()
    .meta({ description: 'The same, up to 1,000 characters; nothing without a `traceparent`' }),
})

/** Why a turn may not begin, wherever it is asked for. */
export const SUBMIT_REFUSALS: readonly ErrorCode[] = [
  'BODY_TOO_LARGE',
  'INPUT_TOO_LARGE',
  'MEDIA_TYPE_UNSUPPORTED',
  'MODEL_UNKNOWN',
  'SERVER_SHUTDOWN',
  'STORE_FULL',
  'SUBMITS_LIMITED',
  'SUBMIT_CONFLICT',
  'THREADS_LIMITED',
  'THREAD_BUSY',
  'TURNS_LIMITED',
  'TURN_DELETED',
]

const submitRoute = createRoute({
  method: 'post',
  path: openapiPath(ROUTES.submit),
  summary: 'Start a turn',
  description:
    'Answers once the turn is durable; it then runs whatever its readers do. The same ids and the same ' +
    'body are the same turn, however often they are sent.',
  tags: ['v2'],
  request: {
    headers: submitHeadersSchema,
    body: { required: true, content: { 'application/json': { schema: submitBodySchema } } },
  },
  responses: {
    202: {
      description: 'The turn is durable',
      content: { 'application/json': { schema: submittedSchema } },
    },
    ...refusals(...SUBMIT_REFUSALS),
  },
})

export function addSubmitRoute(app: GatewayApp, context: GatewayContext): void {
  app.openapi(submitRoute, async (c) => {
    const submission = submissionOf(c.req.valid('json'), c.req.valid('header'))
    const { tenant, newTurns } = c.get('space')
    const admit = admitTurn(c, context, submission)
    const { runId, turnId, threadId } = await context.turns.submit(submission, { tenant, admit })
    c.set('turnId', turnId)
    newTurns.announce(threadId)
    return c.json({ runId, turnId, threadId }, 202)
  })
}
