import type { MiddlewareHandler } from 'hono'
import { matchedRoutes } from 'hono/route'
import { type Clock, monotonicNow } from '../../async/clock.ts'
import type { Caller } from '../auth/caller.ts'
import type { GatewayEnv } from '../context.ts'
import { type GatewayMetrics, notify } from './gateway-metrics.ts'

/** What is known of a request when it is answered, or its stream opened. Never any content. */
export interface RequestFacts {
  readonly method: string
  /** A pattern such as `/api/v2/runs/:runId`, or `unmatched`: never the path of the request. */
  readonly route: string
  readonly status: number
  /** Until the response, or the head of a stream. */
  readonly durationMs: number
  readonly requestId: string
  /** Missing when the caller is not authenticated. */
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

/** Counts requests by route and reports each of them to `onRequest`. */
export function observeRequests(observer: RequestObserver): MiddlewareHandler<GatewayEnv> {
  const { metrics, clock, onRequest } = observer
  return async (c, next) => {
    const since = monotonicNow(clock)
    await next()
    const { method } = c.req
    const { status } = c.res
    // Middleware is a route of all methods.
    const matched = matchedRoutes(c).findLast((each) => each.method !== 'ALL')
    const route = matched?.path ?? 'unmatched'
    const code = c.get('refusal')
    metrics.answeredRequest(route, method, status)
    if (code !== undefined) metrics.refused(code)
    if (onRequest === undefined) return
    const caller = c.get('caller') as Caller | undefined
    const turnId = c.get('turnId')
    notify(onRequest, {
      method,
      route,
      status,
      durationMs: monotonicNow(clock) - since,
      requestId: c.get('requestId'),
      ...(caller && { tenant: caller.tenant, key: caller.key }),
      ...(turnId !== undefined && { turnId }),
      ...(code !== undefined && { code }),
    })
  }
}
