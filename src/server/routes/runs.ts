import * as z from 'zod'
import type { TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import { responseSchema } from '../../protocol/response.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { sendRead } from '../json-response.ts'
import { RunReader } from '../run-reader.ts'
import * as spec from './spec.ts'

const params = z.object({ runId: spec.id })

const runSchema = responseSchema.meta({
  id: 'Response',
  description: 'Everything a turn came to, or has come to so far: docs/protocol.md',
})

export const cancelBodySchema = spec
  .object({
    reason: z.string().min(1).max(1000).exactOptional(),
  })
  .meta({ id: 'Cancel', examples: [{ reason: 'not needed any more' }] })

const cancelledSchema = z
  .object({ cancelled: z.boolean().meta({ description: 'False when it had ended already' }) })
  .meta({ id: 'Cancelled' })

const runRoute = spec.route('get', ROUTES.run, {
  summary: 'Read a run as one Response',
  description: 'Also while it is under way: then it holds what was written so far.',
  tags: ['v2'],
  request: { params },
  responses: {
    200: spec.json('The run', runSchema),
    ...spec.refusals(...spec.READ_REFUSALS, 'TURN_EXPIRED', 'TURN_UNKNOWN'),
  },
})

const cancelRoute = spec.route('post', ROUTES.runCancel, {
  summary: 'Stop a run',
  description:
    'Whichever process runs it. It ends as aborted within a second, and what it has come to stays.',
  tags: ['v2'],
  request: { params, body: spec.jsonBody(cancelBodySchema, false) },
  responses: {
    200: spec.json('It had ended already: nothing was changed', cancelledSchema),
    202: spec.json('It will end', cancelledSchema),
    ...spec.refusals('BODY_TOO_LARGE', 'MEDIA_TYPE_UNSUPPORTED', 'TURN_UNKNOWN'),
  },
})

const DEFAULT_REASON = 'cancelled by the client'

export function addRunRoutes(app: GatewayApp, context: GatewayContext): void {
  const runs = new RunReader()

  app.openapi(runRoute, (c) => {
    const { log, tenant } = c.get('space')
    const { runId } = c.req.valid('param')
    return sendRead<z.infer<typeof runSchema>>(c, context, async () => {
      const turn = await turnOfRun(log, runId)
      c.set('turnId', turn.turnId)
      return runs.read(log, tenant, turn)
    })
  })

  app.openapi(cancelRoute, async (c) => {
    const { log, tenant } = c.get('space')
    const turn = await turnOfRun(log, c.req.valid('param').runId)
    c.set('turnId', turn.turnId)
    const { reason = DEFAULT_REASON } = c.req.valid('json')
    // The store no longer knows whether a turn that has expired could be stopped.
    const isStopping = !turn.sealed && (await context.turns.cancel(turn.turnId, reason, tenant))
    return isStopping ? c.json({ cancelled: true }, 202) : c.json({ cancelled: false }, 200)
  })
}

async function turnOfRun(log: TurnLog, runId: string): Promise<TurnRecord> {
  const turn = await log.getTurnOfRun(runId)
  if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', `the run ${runId}`)
  return turn
}
