import { createRoute } from '@hono/zod-openapi'
import * as z from 'zod'
import { ROUTES } from '../../protocol/names.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { openapiPath } from '../schemas/parts.ts'
import { publicRefusals } from '../schemas/refusals.ts'
import { NO_SECURITY } from '../schemas/security.ts'

const okSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Ok' })
const ok = (description: string) => ({
  200: { description, content: { 'application/json': { schema: okSchema } } },
})

const healthRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.health),
  summary: 'Whether the process is alive',
  tags: ['server'],
  security: NO_SECURITY,
  responses: ok('It is'),
})

const readyRoute = createRoute({
  method: 'get',
  path: openapiPath(ROUTES.ready),
  summary: 'Whether turns can be taken and read',
  description:
    'The store is asked, and has two seconds to answer. One that could not be written is not ready for ' +
    'ten seconds.',
  tags: ['server'],
  security: NO_SECURITY,
  responses: { ...ok('They can'), ...publicRefusals('SERVER_SHUTDOWN', 'STORE_FULL') },
})

export function addHealthRoutes(app: GatewayApp, { readiness }: GatewayContext): void {
  app.openapi(healthRoute, (c) => c.json({ status: 'ok' } as const, 200))

  app.openapi(readyRoute, async (c) => {
    await readiness.check()
    return c.json({ status: 'ok' } as const, 200)
  })
}
