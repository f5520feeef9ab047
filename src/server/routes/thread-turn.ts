import { createRoute } from '@hono/zod-openapi'
import type { Context } from 'hono'
import * as z from 'zod'
import { START } from '../../log/offsets.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import type { Submission } from '../../turns/turn-request.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from '../context.ts'
import { admitTurn } from '../limits/admit-turn.ts'
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
    ...refusals(...SUBMIT_REFUSALS, 'STREAMS_LIMITED'),
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
    const { encoding } = c.req.valid('query')
    // Whoever could not read the turn shall not begin it.
    const slot = context.limits.takeStream(c.get('caller'))
    c.set('slot', slot)
    try {
      const turnId = await submit(c, context, submission)
      const stream = { turnId, log: 'processed', encoding, after: START } as const
      return await openTurnStream(c, context, stream)
    } catch (error) {
      slot.free()
      throw error
    }
  })
}

async function submit(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  submission: Submission,
): Promise<string> {
  const { tenant, newTurns } = c.get('space')
  const admit = admitTurn(c, context, submission)
  const { turnId, threadId } = await context.turns.submit(submission, { tenant, admit })
  newTurns.announce(threadId)
  return turnId
}
