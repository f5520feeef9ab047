import { createRoute } from '@hono/zod-openapi'
import type { TurnLog } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import type { StreamGrant } from '../auth/caller.ts'
import type { StreamTokens } from '../auth/stream-tokens.ts'
import type { GatewayApp } from '../context.ts'
import { openapiPath } from '../schemas/parts.ts'
import { refusals } from '../schemas/refusals.ts'
import { streamTokenBodySchema, streamTokenSchema } from '../schemas/stream-tokens.ts'

const streamTokenRoute = createRoute({
  method: 'post',
  path: openapiPath(ROUTES.streamTokens),
  summary: 'Make a token that opens the streams of one turn or thread',
  description:
    'For an `EventSource`, which sends no headers: `?token=` takes the place of the key. A token can only ' +
    'read, can be used for five minutes to open a stream, and is of no use once its key is revoked.',
  tags: ['v2'],
  request: {
    body: { required: true, content: { 'application/json': { schema: streamTokenBodySchema } } },
  },
  responses: {
    201: {
      description: 'The token',
      content: { 'application/json': { schema: streamTokenSchema } },
    },
    ...refusals('BODY_TOO_LARGE', 'MEDIA_TYPE_UNSUPPORTED', 'THREAD_UNKNOWN', 'TURN_UNKNOWN'),
  },
})

export function addStreamTokenRoute(app: GatewayApp, tokens: StreamTokens): void {
  app.openapi(streamTokenRoute, async (c) => {
    const grant = await grantOf(c.get('space').log, c.req.valid('json'))
    return c.json(tokens.issue(c.get('caller'), grant), 201)
  })
}

/** A token is made only for what is there: one for a later thread would be a promise about somebody else's. */
async function grantOf(
  log: TurnLog,
  { turnId = '', threadId }: { turnId?: string; threadId?: string },
): Promise<StreamGrant> {
  if (threadId === undefined) {
    if ((await log.getTurn(turnId)) !== undefined) return { turnId }
    throw new TurnstreamError('TURN_UNKNOWN', turnId)
  }
  if ((await log.getThread(threadId)) !== undefined) return { threadId }
  throw new TurnstreamError('THREAD_UNKNOWN', threadId)
}
