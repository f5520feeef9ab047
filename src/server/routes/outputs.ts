import * as z from 'zod'
import { START } from '../../log/offsets.ts'
import type { TurnLog, TurnRecord, TurnSnapshot } from '../../log/turn-log.ts'
import { hasCode, TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import { streamOutputSchema } from '../../protocol/stream-output.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { encodeList, encodePage, sendRead } from '../json-response.ts'
import * as spec from './spec.ts'

export const outputSchema = streamOutputSchema.meta({
  id: 'StreamOutput',
  description: 'A snapshot of one item of a turn, or its beginning or end: docs/protocol.md',
})

const turnOutputsSchema = z
  .object({
    turnId: z.string(),
    threadId: z.string(),
    sealed: z.boolean(),
    offset: z.string().meta({ description: 'The cursor with which its stream goes on' }),
    expired: spec.optional(z.literal(true), 'Its outputs are gone; only in the list of a thread'),
    outputs: z.array(outputSchema),
  })
  .meta({ id: 'TurnOutputs' })

const threadOutputsSchema = z
  .object({
    threadId: z.string(),
    turns: z.array(turnOutputsSchema),
    nextCursor: z.string().exactOptional(),
  })
  .meta({ id: 'ThreadOutputs' })

const turnRoute = spec.route('get', ROUTES.turnOutputs, {
  summary: 'Read a turn in the shape in which it is streamed',
  description: 'The newest snapshot of each item, and the cursor with which the stream goes on.',
  tags: ['xapi'],
  request: { params: z.object({ turnId: spec.id }) },
  responses: {
    200: spec.json('The turn as it is now', turnOutputsSchema),
    ...spec.refusals(...spec.READ_REFUSALS, 'TURN_EXPIRED', 'TURN_UNKNOWN'),
  },
})

const threadRoute = spec.route('get', ROUTES.threadOutputs, {
  summary: 'Read the turns of a thread in the shape in which they are streamed',
  description:
    'A page ends early when its turns come to more than 8 MB. A turn whose outputs ' +
    'have expired is listed without them.',
  tags: ['xapi'],
  request: {
    params: z.object({ threadId: spec.id }),
    query: spec.pageQuery(20, 100).extend({
      first: z
        .enum(['oldest', 'newest'])
        .default('oldest')
        .meta({ description: 'Which end of the thread comes first' }),
    }),
  },
  responses: {
    200: spec.json('A page of turns', threadOutputsSchema),
    ...spec.refusals(...spec.READ_REFUSALS, 'CURSOR_INVALID', 'THREAD_UNKNOWN'),
  },
})

export function addOutputRoutes(app: GatewayApp, context: GatewayContext): void {
  app.openapi(turnRoute, (c) => {
    const { turnId } = c.req.valid('param')
    const { log } = c.get('space')
    return sendRead<z.infer<typeof turnOutputsSchema>>(c, context, async () => {
      const turn = await log.getTurn(turnId)
      if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
      c.set('turnId', turnId)
      return Buffer.concat(await encodeOutputs(turn, await log.snapshot(turnId)))
    })
  })

  app.openapi(threadRoute, (c) => {
    const { threadId } = c.req.valid('param')
    const { log } = c.get('space')
    return sendRead<z.infer<typeof threadOutputsSchema>>(c, context, async () => {
      const thread = await log.getThread(threadId)
      if (thread === undefined) throw new TurnstreamError('THREAD_UNKNOWN', threadId)
      return encodePage(c.req.valid('query'), {
        head: `{"threadId":${JSON.stringify(threadId)},"turns":[`,
        list: (page) => log.listTurns(threadId, page),
        encode: (turn) => encodeListed(log, turn),
      })
    })
  })
}

/** Nothing for a turn that was deleted since it was listed. */
async function encodeListed(log: TurnLog, turn: TurnRecord): Promise<Buffer<ArrayBuffer>[]> {
  try {
    if (!turn.expired) return await encodeOutputs(turn, await log.snapshot(turn.turnId))
  } catch (error) {
    if (hasCode(error, 'TURN_UNKNOWN') || hasCode(error, 'TURN_DELETED')) return []
    if (!hasCode(error, 'TURN_EXPIRED')) throw error
  }
  return encodeOutputs(turn, { records: [], offset: START, sealed: true }, { expired: true })
}

function encodeOutputs(
  { turnId, threadId }: TurnRecord,
  { records, offset, sealed }: TurnSnapshot,
  more?: { readonly expired: true },
): Promise<Buffer<ArrayBuffer>[]> {
  const head = { turnId, threadId, sealed, offset, ...more }
  return encodeList(head, 'outputs', records, ({ data }) => data)
}
