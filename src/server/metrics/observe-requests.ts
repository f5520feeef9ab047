import type { Context, MiddlewareHandler } from 'hono'
import { matchedRoutes } from 'hono/route'
import { type Clock, monotonicNow } from '../../async/clock.ts'
import type { Caller } from '../auth/caller.ts'
import type { GatewayEnv } from '../context.ts'
import type { GatewayMetrics } from './gateway-metrics.ts'

/** What is known of a request when it is answered, or its stream opened. Nothing of it is content. */
export interface RequestFacts {
  readonly method: string
  /** As `/api/v2/runs/:runId`, and `unmatched` where there is none: never what was asked for. */
  readonly route: string
  readonly status: number
  /** Until the answer, or the head of a stream. */
  readonly durationMs: number
  readonly requestId: string
  /** Missing where nobody was let in. */
  readonly tenant?: string
  /** The name of the key, which is no secret. */
  readonly key?: string
  readonly turnId?: string
  /** Why it was refused. */
  readonly code?: string
}

export interface RequestObserver {
  readonly metrics: GatewayMetrics
  readonly clock: Clock
  readonly onRequest?: ((request: RequestFacts) => void) | undefined
}

/** Counts requests by their routes, and tells of each whoever wants to know. */
export function observeRequests(observer: RequestObserver): MiddlewareHandler<GatewayEnv> {
  const { metrics, clock, onRequest } = observer
  return async (c, next) => {
    const since = monotonicNow(clock)
    await next()
    const route = routeOf(c)
    const refusal = c.get('refusal')
    metrics.answeredRequest(route, c.req.method, c.res.status)
    if (refusal !== undefined) metrics.refused(refusal)
    if (onRequest !== undefined) tell(onRequest, factsOf(c, route, monotonicNow(clock) - since))
  }
}

function routeOf(c: Context<GatewayEnv>): string {
  // Middleware is a route of all methods.
  return matchedRoutes(c).findLast(({ method }) => method !== 'ALL')?.path ?? 'unmatched'
}

function factsOf(c: Context<GatewayEnv>, route: string, durationMs: number): RequestFacts {
  const caller = c.get('caller') as Caller | undefined
  const turnId = c.get('turnId')
  const code = c.get('refusal')
  return {
    method: c.req.method,
    route,
    status: c.res.status,
    durationMs,
    requestId: c.get('requestId'),
    ...(caller && { tenant: caller.tenant, key: caller.key }),
    ...(turnId !== undefined && { turnId }),
    ...(code !== undefined && { code }),
  }
}

/** Whoever is told cannot spoil the answer. */
function tell(onRequest: (request: RequestFacts) => void, facts: RequestFacts): void {
  try {
    onRequest(facts)
  } catch {
    // There is nobody else to tell.
  }
}
