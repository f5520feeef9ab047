import { createRoute } from '@hono/zod-openapi'
import * as z from 'zod'
import { ROUTES } from '../../protocol/names.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { threadOutputs, turnOutputs } from '../outputs.ts'
import { threadOutputsSchema, turnOutputsSchema } from '../schemas/outputs.ts'
import { idSchema, openapiPath, pageSchema } from '../schemas/parts.ts'
import { READ_REFUSALS, refusals } from '../schemas/refusals.ts'
import { answerRead } from '../written-json.ts'

const turnRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.turnOutputs),
  summary: 'Read a turn in the shape in which it is streamed',
  description: 'The newest snapshot of each item, and the cursor with which the stream goes on.',
  tags: ['xapi'],
  request: { params: z.object({ turnId: idSchema }) },
  responses: {
    200: {
      description: 'The turn as it is now',
      content: { 'application/json': { schema: turnOutputsSchema } },
    },
    ...refusals(...READ_REFUSALS, 'TURN_EXPIRED', 'TURN_UNKNOWN'),
  },
})

const threadRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.threadOutputs),
  summary: 'Read the turns of a thread in the shape in which they are streamed',
  description:
    'A page ends early when its turns come to more than 8 MB. A turn whose outputs ' +
    'have expired is listed without them.',
  tags: ['xapi'],
  request: {
    params: z.object({ threadId: idSchema }),
    query: pageSchema(20, 100).extend({
      first: z
        .enum(['oldest', 'newest'])
        .default('oldest')
        .meta({ description: 'Which end of the thread comes first' }),
    }),
  },
  responses: {
    200: {
      description: 'A page of turns',
      content: { 'application/json': { schema: threadOutputsSchema } },
    },
    ...refusals(...READ_REFUSALS, 'CURSOR_INVALID', 'THREAD_UNKNOWN'),
  },
})

export function addOutputRoutes(app: GatewayApp, context: GatewayContext): void {
  app.openapi(turnRoute, (c) => {
    const { turnId } = c.req.valid('param')
    return answerRead(c, context, async () => {
      const outputs = await turnOutputs(c.get('space').log, turnId)
      c.set('turnId', turnId)
      return outputs
    })
  })

  app.openapi(threadRoute, (c) => {
    const { threadId } = c.req.valid('param')
    const { log } = c.get('space')
    return answerRead(c, context, () => threadOutputs(log, threadId, c.req.valid('query')))
  })
}
