import { asCreated } from '@turnstream/core/internal/formats/xapi/write'
import type { ListedTurn } from '@turnstream/core/internal/log/turn-log'
import {
  ERROR_CODES,
  type ErrorCode,
  TurnstreamError,
} from '@turnstream/core/internal/protocol/errors'
import { HEADERS, ROUTES } from '@turnstream/core/internal/protocol/names'
import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import { streamEventSchema } from '@turnstream/core/internal/schemas/stream-event'
import { streamOutputSchema } from '@turnstream/core/internal/schemas/stream-output'
import type { Context } from 'hono'
import * as z from 'zod'
import { START } from '../../log/offsets.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { encodeList, encodePage, sendRead } from '../json-response.ts'
import { MAX_THREADS, openThreadsStream } from '../streams/threads-stream.ts'
import { openThreadStream, openTurnStream } from '../streams/turn-stream.ts'
import { type ListedOutputs, ThreadPage } from '../thread-outputs.ts'
import * as spec from './spec.ts'
import { existingThread } from './threads.ts'

export const outputSchema = streamOutputSchema.meta({
  id: 'StreamOutput',
  description: 'A snapshot of one item, or the start or end of the turn: docs/protocol.md',
})

const eventSchema = streamEventSchema.meta({
  id: 'StreamEvent',
  description: 'One event of a turn: docs/protocol.md',
})

const headers = z.object({
  [HEADERS.lastEventId]: spec.optional(
    z.string(),
    'The last `id` received: the stream resumes after it',
  ),
})

const resumeQuery = z.object({
  from: spec.optional(
    z.string(),
    'The same for the first connection; `last-event-id` takes precedence',
  ),
  // Already read during authentication.
  token: spec.optional(z.string(), 'A stream token, for clients that cannot send a key'),
})

export const argumentsQuery = z
  .enum(['final', 'stream'])
  .default('final')
  .describe('With `stream` a tool call is also sent while its arguments arrive')

const outputQuery = resumeQuery.extend({
  encoding: z
    .enum(['snapshot', 'append'])
    .default('snapshot')
    .describe('With `append` a growing text is sent once, and then only what was added'),
  arguments: argumentsQuery,
})

const STREAM_REFUSALS: readonly ErrorCode[] = [
  'CURSOR_INVALID',
  'SERVER_SHUTDOWN',
  'STREAMS_LIMITED',
  'TOKEN_EXPIRED',
  'TOKEN_INVALID',
]

const OVER = { description: 'The turn has ended and nothing follows the cursor' }

const runRoute = spec.route('get', ROUTES.runStream, {
  summary: 'Stream the raw events of a run',
  description: 'From the cursor to the end of the run. The `data` of a frame is one event.',
  tags: ['v2'],
  security: spec.STREAM_SECURITY,
  request: { headers, params: z.object({ runId: spec.id }), query: resumeQuery },
  responses: {
    200: spec.sse('The frames of the run to its end', eventSchema),
    204: OVER,
  },
  refusals: [...STREAM_REFUSALS, 'TURN_EXPIRED', 'TURN_UNKNOWN'],
})

const turnRoute = spec.route('get', ROUTES.turnOutputStream, {
  summary: 'Stream the snapshots of a turn',
  description:
    'From the cursor to the end of the turn. The `data` of a frame is one snapshot, which ' +
    'replaces the previous one with the same `itemId`.',
  tags: ['xapi'],
  security: spec.STREAM_SECURITY,
  request: { headers, params: z.object({ turnId: spec.id }), query: outputQuery },
  responses: {
    200: spec.sse('The frames of the turn to its end', outputSchema),
    204: OVER,
  },
  refusals: [...STREAM_REFUSALS, 'TURN_EXPIRED', 'TURN_UNKNOWN'],
})

const threadRoute = spec.route('get', ROUTES.threadOutputStream, {
  summary: 'Stream the snapshots of all turns of a thread',
  description:
    'Existing and future turns in order, until the thread is ' +
    'deleted. A cursor is `<turnId>/<offset>`; without one the stream starts at the first turn.',
  tags: ['xapi'],
  security: spec.STREAM_SECURITY,
  request: { headers, params: z.object({ threadId: spec.id }), query: outputQuery },
  responses: { 200: spec.sse('The frames of the turns', outputSchema) },
  refusals: [...STREAM_REFUSALS, 'THREAD_UNKNOWN'],
})

const threadsRoute = spec.route('get', ROUTES.outputStreams, {
  summary: 'Stream the snapshots of several threads',
  description:
    'Existing and future turns of each thread in order. Every frame names its `threadId`. The cursor is one for all ' +
    'threads; one that it does not have starts with the turn that runs, or else with the next turn.',
  tags: ['xapi'],
  security: spec.STREAM_SECURITY,
  request: {
    headers,
    query: outputQuery.extend({
      threads: z
        .preprocess((given) => [given].flat(), z.array(spec.id).min(1).max(MAX_THREADS))
        .describe(`Repeat it for each thread, up to ${MAX_THREADS}`),
      cursors: z
        .preprocess((given) => [given].flat(), z.array(z.string()).max(MAX_THREADS))
        .optional()
        .describe(
          "In place of `from`: the cursor of each thread's own stream, in the order of `threads`. Then the `id` of a " +
            'frame is that of its thread alone',
        ),
    }),
  },
  responses: { 200: spec.sse('The frames of the turns', outputSchema) },
  refusals: [...STREAM_REFUSALS, 'THREAD_UNKNOWN'],
})

export function addStreamRoutes(app: GatewayApp, context: GatewayContext): void {
  app.openapi(runRoute, async (c) => {
    const { runId: id } = c.req.valid('param')
    const turn = await c.get('space').log.getTurnOfRun(id)
    const reading = { id, log: 'events', encoding: 'snapshot', after: cursorOf(c) } as const
    return openTurnStream(c, context, turn, reading)
  })

  app.openapi(turnRoute, async (c) => {
    const { turnId: id } = c.req.valid('param')
    const turn = await c.get('space').log.getTurn(id)
    const reading = toReading(c, c.req.valid('query'))
    return openTurnStream(c, context, turn, { id, log: 'processed', ...reading })
  })

  app.openapi(threadRoute, (c) => {
    const { threadId } = c.req.valid('param')
    return openThreadStream(c, context, threadId, toReading(c, c.req.valid('query')))
  })

  app.openapi(threadsRoute, (c) => {
    const { threads: threadIds, cursors, ...query } = c.req.valid('query')
    return openThreadsStream(c, context, { threadIds, cursors, ...toReading(c, query) })
  })
}

function toReading(
  c: Context,
  { encoding, arguments: shown }: Pick<z.infer<typeof outputQuery>, 'encoding' | 'arguments'>,
) {
  return { encoding, isStreamingArguments: shown === 'stream', after: cursorOf(c) }
}

/** The cursor of a request. The header wins: a reconnecting EventSource keeps the `from` of its first URL. */
function cursorOf({ req }: Context): string {
  const header = req.header(HEADERS.lastEventId)
  if (header === undefined || header === '') return req.query('from') ?? START
  // Browsers send the id as UTF-8; Node decodes headers as Latin-1.
  return Buffer.from(header, 'latin1').toString()
}

const turnOutputsSchema = z
  .object({
    turnId: z.string(),
    threadId: z.string(),
    sealed: z.boolean(),
    offset: z.string().describe('The cursor to resume its stream with'),
    expired: spec.optional(z.literal(true), 'Its outputs have expired; only in thread lists'),
    damaged: spec.optional(z.literal(true), 'It cannot be read; only in thread lists'),
    replacedBy: spec.optional(z.string(), 'The turn that replaced it; only in thread lists'),
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

const outputsRoute = spec.route('get', ROUTES.turnOutputs, {
  summary: 'Retrieve the current snapshots of a turn',
  description: 'The newest snapshot of each item, and the cursor to resume the stream with.',
  tags: ['xapi'],
  request: { params: z.object({ turnId: spec.id }) },
  responses: { 200: spec.json('The current state of the turn', turnOutputsSchema) },
  refusals: spec.TURN_REFUSALS,
})

const threadOutputsRoute = spec.route('get', ROUTES.threadOutputs, {
  summary: 'List the turns of a thread with their snapshots',
  description:
    'A page ends early when its turns exceed 8 MB. A turn whose outputs ' +
    'have expired is listed without them. A call that the client answered is completed in the turn that made it, ' +
    'if the output is on the page or in the 100 turns after it.',
  tags: ['xapi'],
  request: {
    params: z.object({ threadId: spec.id }),
    query: spec.pageQuery(20, 100).extend({
      first: z
        .enum(['oldest', 'newest'])
        .default('oldest')
        .describe('Which end of the thread to list first'),
      ...spec.replacedQuery,
    }),
  },
  responses: { 200: spec.json('A page of turns', threadOutputsSchema) },
  refusals: [...spec.READ_REFUSALS, 'CURSOR_INVALID', 'THREAD_UNKNOWN'],
})

export function addOutputRoutes(app: GatewayApp, context: GatewayContext): void {
  app.openapi(outputsRoute, (c) => {
    const { turnId } = c.req.valid('param')
    return sendRead(c, context, async (log) => {
      const turn = await log.getTurn(turnId)
      if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
      c.set('turnId', turnId)
      return Buffer.concat(await encodeOutputs(turn, await log.snapshot(turnId)))
    })
  })

  app.openapi(threadOutputsRoute, (c) => {
    const { threadId } = c.req.valid('param')
    return sendRead(c, context, async (log) => {
      await existingThread(log, threadId)
      const page = new ThreadPage(log, threadId)
      return encodePage(c.req.valid('query'), {
        head: `{"threadId":${JSON.stringify(threadId)},"turns":[`,
        list: (options) => page.list(options),
        encode: async (turn) => {
          const outputs = await page.outputs(turn)
          return outputs === undefined ? [] : encodeOutputs(turn, outputs)
        },
      })
    })
  })
}

function encodeOutputs(
  { turnId, threadId, replacedBy }: ListedTurn,
  { records, offset, sealed, expired, damaged }: ListedOutputs,
): Promise<Buffer<ArrayBuffer>[]> {
  const head = { turnId, threadId, sealed, offset, expired, damaged, replacedBy }
  if (damaged) {
    // Clients show a turn by its outputs: without any, it would vanish.
    const error = { code: 'STORE_CORRUPT', message: ERROR_CODES.STORE_CORRUPT.summary }
    const outputs: StreamOutput[] = [
      { type: 'turn_started', turnId, threadId },
      { type: 'turn_error', turnId, threadId, error },
    ]
    return encodeList(head, 'outputs', outputs, (output) => JSON.stringify(output))
  }
  // Nothing was read before: every unfinished item is new.
  return encodeList(head, 'outputs', records, (record) => asCreated(record) ?? record.data)
}
