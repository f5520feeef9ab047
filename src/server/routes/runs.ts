import { createRoute } from '@hono/zod-openapi'
import type * as z from 'zod'
import type { TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { RunReader } from '../reduced-run.ts'
import { openapiPath } from '../schemas/parts.ts'
import { READ_REFUSALS, refusals } from '../schemas/refusals.ts'
import { cancelBodySchema, cancelledSchema, runParamsSchema, runSchema } from '../schemas/runs.ts'
import { answerRead } from '../written-json.ts'

const runRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.run),
  summary: 'Read a run as one Response',
  description: 'Also while it is under way: then it holds what was written so far.',
  tags: ['v2'],
  request: { params: runParamsSchema },
  responses: {
    200: { description: 'The run', content: { 'application/json': { schema: runSchema } } },
    ...refusals(...READ_REFUSALS, 'TURN_EXPIRED', 'TURN_UNKNOWN'),
  },
})

const cancelled = (description: string) => ({
  description,
  content: { 'application/json': { schema: cancelledSchema } },
})

const cancelRoute = createRoute({
  method: 'post',
  path: openapiPath(ROUTES.runCancel),
  summary: 'Stop a run',
  description:
    'Whichever process runs it. It ends as aborted within a second, and what it has come to stays.',
  tags: ['v2'],
  request: {
    params: runParamsSchema,
    body: { required: false, content: { 'application/json': { schema: cancelBodySchema } } },
  },
  responses: {
    200: cancelled('It had ended already: nothing was changed'),
    202: cancelled('It will end'),
    ...refusals('BODY_TOO_LARGE', 'MEDIA_TYPE_UNSUPPORTED', 'TURN_UNKNOWN'),
  },
})

const DEFAULT_REASON = 'cancelled by the client'

export function addRunRoutes(app: GatewayApp, context: GatewayContext): void {
  const runs = new RunReader()

  app.openapi(runRoute, (c) => {
    const { log, tenant } = c.get('space')
    const { runId } = c.req.valid('param')
    return answerRead<z.infer<typeof runSchema>>(c, context, async () => {
      const turn = await turnOfRun(log, runId)
      c.set('turnId', turn.turnId)
      return { bytes: await runs.read(log, tenant, turn) }
    })
  })

  app.openapi(cancelRoute, async (c) => {
    const { log, tenant } = c.get('space')
    const turn = await turnOfRun(log, c.req.valid('param').runId)
    c.set('turnId', turn.turnId)
    const { reason = DEFAULT_REASON } = c.req.valid('json')
    // Of a turn that has expired the store knows no more whether it could be stopped.
    if (turn.sealed) return c.json({ cancelled: false }, 200)
    const isStopping = await context.turns.cancel(turn.turnId, reason, tenant)
    return isStopping ? c.json({ cancelled: true }, 202) : c.json({ cancelled: false }, 200)
  })
}

async function turnOfRun(log: TurnLog, runId: string): Promise<TurnRecord> {
  const turn = await log.getTurnOfRun(runId)
  if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', `the run ${runId}`)
  return turn
}
