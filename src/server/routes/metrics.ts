import { createRoute } from '@hono/zod-openapi'
import * as z from 'zod'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import { DEFAULT_TENANT } from '../../protocol/tenant.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import type { GatewayMetrics } from '../metrics/gateway-metrics.ts'
import { openapiPath } from '../schemas/parts.ts'
import { refusals } from '../schemas/refusals.ts'

const TEXT = 'text/plain; version=0.0.4; charset=utf-8'

const metricsRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.metrics),
  summary: 'What the server does, in numbers',
  description:
    'For Prometheus. They are those of all tenants: where there are keys, one of the tenant `default` is ' +
    'needed, and for the others there is nothing here.',
  tags: ['server'],
  responses: {
    200: { description: 'The metrics', content: { 'text/plain': { schema: z.string() } } },
    ...refusals('ROUTE_UNKNOWN'),
  },
})

export interface MetricsAccess {
  readonly metrics: GatewayMetrics
  /** Whether they are there at all: where everybody could read them, they may be meant for nobody. */
  readonly isOpen: boolean
}

export function addMetricsRoute(
  app: GatewayApp,
  { turns, streams }: GatewayContext,
  { metrics, isOpen }: MetricsAccess,
): void {
  app.openapi(metricsRoute, async (c) => {
    if (!isOpen || c.get('caller').tenant !== DEFAULT_TENANT) {
      throw new TurnstreamError('ROUTE_UNKNOWN', ROUTES.metrics)
    }
    const text = await metrics.text({ streams, running: turns.running })
    return c.text(text, 200, { 'content-type': TEXT })
  })
}
