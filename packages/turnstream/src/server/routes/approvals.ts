import { omitNullish } from '@turnstream/core/internal/formats/request-in'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import type { Approval } from '@turnstream/core/internal/protocol/stream-output'
import { approvalSchema } from '@turnstream/core/internal/schemas/stream-output'
import * as z from 'zod'
import { type ApprovalDecision, answerApproval, isRequested } from '../../turns/approvals.ts'
import { ANYBODY } from '../auth/authenticate.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { ApprovalAnsweredError } from '../errors.ts'
import { turnOfRun } from './runs.ts'
import * as spec from './spec.ts'

const params = z.object({ runId: spec.id, approvalId: spec.id })

const answerBodySchema = spec
  .object({
    approved: z.boolean(),
    reason: spec.optional(z.string().min(1).max(1000), 'For the model and the readers of the turn'),
  })
  .meta({ id: 'ApprovalAnswer', examples: [{ approved: false, reason: 'not on a Friday' }] })

const approvalRoute = spec.route('post', ROUTES.runApproval, {
  summary: 'Approve or decline a tool call',
  description: 'Works for runs of any process. The first answer counts, and its key may repeat it.',
  tags: ['v2'],
  request: { params, body: spec.jsonBody(answerBodySchema) },
  responses: { 200: spec.json('The answer is stored', approvalSchema.meta({ id: 'Approval' })) },
  refusals: [...spec.TURN_REFUSALS, 'APPROVAL_ANSWERED', 'APPROVAL_CLOSED', 'APPROVAL_UNKNOWN'],
})

export function addApprovalRoute(app: GatewayApp, context: GatewayContext): void {
  app.openapi(approvalRoute, async (c) => {
    const { log } = c.get('space')
    const caller = c.get('caller')
    const { runId, approvalId } = c.req.valid('param')
    const { approved, reason } = c.req.valid('json')
    const { turnId } = await turnOfRun(c, runId)
    const isKnown = await context.limits.read(caller, () => isRequested(log, turnId, approvalId))
    if (!isKnown) throw new TurnstreamError('APPROVAL_UNKNOWN', `${approvalId} of the run ${runId}`)
    const by = caller === ANYBODY ? undefined : caller.key
    const at = Math.trunc(context.clock.now())
    const decision = { approved, ...omitNullish({ reason, by }), at }
    const { stored, answer } = await answerApproval(log, turnId, approvalId, decision)
    if (answer === undefined) {
      throw new TurnstreamError('APPROVAL_CLOSED', `the run ${runId} was cancelled or has ended`)
    }
    const approval = toApproval(approvalId, answer)
    // After a lost response a client sends its answer again.
    const isRepeated = answer.approved === approved && answer.reason === reason && answer.by === by
    if (!stored && !isRepeated) throw new ApprovalAnsweredError(approval)
    return c.json(approval, 200)
  })
}

function toApproval(id: string, { approved, reason, by, at }: ApprovalDecision): Approval {
  const status = approved ? 'approved' : 'declined'
  return { id, status, ...omitNullish({ reason, answeredBy: by }), answeredAt: at }
}
