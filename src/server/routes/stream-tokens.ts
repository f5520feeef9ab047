import * as z from 'zod'
import type { TurnLog } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import type { StreamGrant } from '../auth/caller.ts'
import type { StreamTokens } from '../auth/stream-tokens.ts'
import type { GatewayApp } from '../context.ts'
import * as spec from './spec.ts'

export const streamTokenBodySchema = spec
  .object({
    turnId: spec.optional(spec.id, 'Opens the streams of this turn, raw events and snapshots'),
    threadId: spec.optional(spec.id, 'Opens the stream of this thread, and those of its turns'),
  })
  .refine(({ turnId, threadId }) => (turnId === undefined) !== (threadId === undefined), {
    message: 'must have either a turnId or a threadId',
  })
  .meta({ id: 'NewStreamToken', examples: [{ turnId: 'TURN_ID' }] })

const streamTokenSchema = z
  .object({
    token: z.string().meta({ description: 'For `?token=` of a stream' }),
    expiresAt: z.number().meta({
      description: 'Until when a stream can be opened with it, in milliseconds since the epoch',
    }),
  })
  .meta({ id: 'StreamToken' })

const streamTokenRoute = spec.route('post', ROUTES.streamTokens, {
  summary: 'Make a token that opens the streams of one turn or thread',
  description:
    'For an `EventSource`, which sends no headers: `?token=` takes the place of the key. A token can only ' +
    'read, can be used for five minutes to open a stream, and is of no use once its key is revoked.',
  tags: ['v2'],
  request: { body: spec.jsonBody(streamTokenBodySchema) },
  responses: {
    201: spec.json('The token', streamTokenSchema),
    ...spec.refusals('BODY_TOO_LARGE', 'MEDIA_TYPE_UNSUPPORTED', 'THREAD_UNKNOWN', 'TURN_UNKNOWN'),
  },
})

export function addStreamTokenRoute(app: GatewayApp, tokens: StreamTokens): void {
  app.openapi(streamTokenRoute, async (c) => {
    const grant = await toGrant(c.get('space').log, c.req.valid('json'))
    return c.json(tokens.issue(c.get('caller'), grant), 201)
  })
}

/** Only for what exists: a token for a later thread could open somebody else's. */
async function toGrant(
  log: TurnLog,
  { turnId = '', threadId }: z.infer<typeof streamTokenBodySchema>,
): Promise<StreamGrant> {
  if (threadId === undefined) {
    if ((await log.getTurn(turnId)) !== undefined) return { turnId }
    throw new TurnstreamError('TURN_UNKNOWN', turnId)
  }
  if ((await log.getThread(threadId)) !== undefined) return { threadId }
  throw new TurnstreamError('THREAD_UNKNOWN', threadId)
}
