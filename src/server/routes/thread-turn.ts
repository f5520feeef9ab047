import { createRoute } from '@hono/zod-openapi'
import * as z from 'zod'
import { START } from '../../log/offsets.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { RequestInvalidError } from '../request-error.ts'
import { outputSchema } from '../schemas/outputs.ts'
import { idSchema, openapiPath } from '../schemas/parts.ts'
import { refusals } from '../schemas/refusals.ts'
import { submitBodySchema } from '../schemas/submit.ts'
import { openTurnStream } from '../streams/turn-stream.ts'
import { submissionOf } from '../submission.ts'
import { SUBMIT_REFUSALS, submitHeadersSchema } from './submit.ts'

const threadTurnRoute = createRoute({
  method: 'post',
  path: openapiPath(ROUTES.threadTurn),
  summary: 'Start a turn in a thread and stream it',
  description:
    'A submit and the stream of its snapshots in one call. Who is cut off resumes with the stream of ' +
    'the turn, whose id is in the first header: hanging up does not stop the turn.',
  tags: ['xapi'],
  request: {
    params: z.object({ threadId: idSchema }),
    query: z.object({ encoding: z.enum(['snapshot', 'append']).default('snapshot') }),
    headers: submitHeadersSchema,
    body: { required: true, content: { 'application/json': { schema: submitBodySchema } } },
  },
  responses: {
    200: {
      description: 'The frames of the turn, to its end',
      headers: z.object({ [HEADERS.turnId]: z.string(), [HEADERS.threadId]: z.string() }),
      content: { 'text/event-stream': { schema: outputSchema } },
    },
    ...refusals(...SUBMIT_REFUSALS),
  },
})

export function addThreadTurnRoute(app: GatewayApp, context: GatewayContext): void {
  app.openapi(threadTurnRoute, async (c) => {
    const { threadId } = c.req.valid('param')
    const body = { threadId, ...c.req.valid('json') }
    if (body.threadId !== threadId) {
      throw new RequestInvalidError([{ path: 'body.threadId', message: 'is not that of the path' }])
    }
    const submission = submissionOf(body, c.req.valid('header'))
    const { turnId } = await context.turns.submit(submission)
    context.newTurns.announce(threadId)
    const { encoding } = c.req.valid('query')
    return openTurnStream(c, context, { turnId, log: 'processed', encoding, after: START })
  })
}
