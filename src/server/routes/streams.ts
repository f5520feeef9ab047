import { createRoute } from '@hono/zod-openapi'
import * as z from 'zod'
import { type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import { mayReadTurn } from '../auth/grants.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { eventSchema, outputSchema } from '../schemas/outputs.ts'
import { idSchema, openapiPath } from '../schemas/parts.ts'
import { refusals } from '../schemas/refusals.ts'
import { STREAM_SECURITY } from '../schemas/security.ts'
import { cursorOf } from '../streams/cursors.ts'
import { openThreadStream } from '../streams/thread-stream.ts'
import { openTurnStream, streamTurn } from '../streams/turn-stream.ts'

const headers = z.object({
  [HEADERS.lastEventId]: z
    .string()
    .exactOptional()
    .meta({ description: 'The last `id` that was read: the stream goes on after it' }),
})

const resumeQuery = z.object({
  from: z
    .string()
    .exactOptional()
    .meta({ description: 'The same for the first connection; `last-event-id` wins' }),
  // Not read here: who asks is known before.
  token: z
    .string()
    .exactOptional()
    .meta({ description: 'A stream token, where no key can be sent' }),
})

const outputQuery = resumeQuery.extend({
  encoding: z.enum(['snapshot', 'append']).default('snapshot').meta({
    description: 'With `append` a text that grows is sent once, and then what is added to it',
  }),
})

function frames(description: string, schema: z.ZodType) {
  return { description, content: { 'text/event-stream': { schema } } }
}

/** Why none of the streams may open. */
const STREAM_REFUSALS: readonly ErrorCode[] = [
  'CURSOR_INVALID',
  'SERVER_SHUTDOWN',
  'STREAMS_LIMITED',
  'TOKEN_EXPIRED',
  'TOKEN_INVALID',
]

const OVER = { description: 'The turn has ended, and nothing follows the cursor' }

const runRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.runStream),
  summary: 'Stream the raw events of a run',
  description: 'From the cursor on, and to the end of the run. The `data` of a frame is one event.',
  tags: ['v2'],
  security: STREAM_SECURITY,
  request: {
    headers,
    params: z.object({ runId: idSchema }),
    query: resumeQuery,
  },
  responses: {
    200: frames('The frames of the run, to its end', eventSchema),
    204: OVER,
    ...refusals(...STREAM_REFUSALS, 'TURN_EXPIRED', 'TURN_UNKNOWN'),
  },
})

const turnRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.turnOutputStream),
  summary: 'Stream the snapshots of a turn',
  description:
    'From the cursor on, and to the end of the turn. The `data` of a frame is one snapshot, which takes ' +
    'the place of the one before with the same `itemId`.',
  tags: ['xapi'],
  security: STREAM_SECURITY,
  request: {
    headers,
    params: z.object({ turnId: idSchema }),
    query: outputQuery,
  },
  responses: {
    200: frames('The frames of the turn, to its end', outputSchema),
    204: OVER,
    ...refusals(...STREAM_REFUSALS, 'TURN_EXPIRED', 'TURN_UNKNOWN'),
  },
})

const threadRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.threadOutputStream),
  summary: 'Stream the snapshots of all turns of a thread',
  description:
    'One turn after the other, those that are there and those that will be made, until the thread is ' +
    'deleted. A cursor is `<turnId>/<offset>`; without one the stream begins with the first turn.',
  tags: ['xapi'],
  security: STREAM_SECURITY,
  request: {
    headers,
    params: z.object({ threadId: idSchema }),
    query: outputQuery,
  },
  responses: {
    200: frames('The frames of the turns', outputSchema),
    ...refusals(...STREAM_REFUSALS, 'THREAD_UNKNOWN'),
  },
})

/** The routes that answer with a stream: v2, xapi, and a whole thread. */
export function addStreamRoutes(app: GatewayApp, context: GatewayContext): void {
  app.openapi(runRoute, async (c) => {
    const { runId } = c.req.valid('param')
    const turn = await c.get('space').log.getTurnOfRun(runId)
    if (turn === undefined || !mayReadTurn(c.get('caller'), turn)) {
      throw new TurnstreamError('TURN_UNKNOWN', runId)
    }
    return await streamTurn(c, context, turn, { log: 'events', ...after(c) })
  })

  app.openapi(turnRoute, (c) => {
    const { turnId } = c.req.valid('param')
    const { encoding } = c.req.valid('query')
    return openTurnStream(c, context, { turnId, log: 'processed', encoding, ...after(c) })
  })

  app.openapi(threadRoute, (c) => {
    const { threadId } = c.req.valid('param')
    const { encoding } = c.req.valid('query')
    return openThreadStream(c, context, { threadId, encoding, ...after(c) })
  })
}

function after(c: Parameters<typeof cursorOf>[0]): { after?: string } {
  const cursor = cursorOf(c)
  return cursor === undefined ? {} : { after: cursor }
}
