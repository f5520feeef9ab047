import type { Context } from 'hono'
import type { Submission } from '../../turns/turn-request.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'

/** Applies the limits of the caller to a submission, as `SubmitOptions.admit` does. */
export function admitTurn(
  c: Context<GatewayEnv>,
  { limits }: GatewayContext,
  { threadId }: Submission,
): () => Promise<() => void> {
  return async () => {
    const release = await c.get('space').threadQuota.reserve(threadId)
    try {
      return limits.admitTurn(c.get('caller'))
    } catch (error) {
      release()
      throw error
    }
  }
}
