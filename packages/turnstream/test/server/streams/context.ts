import { OpenAPIHono } from '@hono/zod-openapi'
import type { Clock } from '../../../../core/src/index.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { ANYBODY } from '../../../src/server/auth/authenticate.ts'
import {
  createSpaces,
  type GatewayApp,
  type GatewayContext,
  type GatewayEnv,
  type TenantSpace,
} from '../../../src/server/context.ts'
import { KeyLimits } from '../../../src/server/limits/key-limits.ts'
import { Reattachment } from '../../../src/server/reattachment.ts'
import { Readiness } from '../../../src/server/routes/server.ts'
import { addStreamRoutes } from '../../../src/server/routes/streams.ts'
import { OpenStreams } from '../../../src/server/streams/open-streams.ts'
import { Providers, TurnRunner } from '../../../src/server.ts'
import { resolveProcessor } from '../../../src/turns/processor-settings.ts'
import { UNLIMITED } from '../unlimited.ts'
import { NOBODY } from './server.ts'

export interface StreamsApp {
  readonly app: GatewayApp
  readonly context: GatewayContext
  readonly space: TenantSpace
  readonly closing: AbortController
  readonly errors: unknown[]
}

/** The routes of streams alone, with everything that they leave behind in sight. */
export function streamsApp(log: TurnLog, clock: Clock, heartbeatMs = 15_000): StreamsApp {
  const closing = new AbortController()
  const { signal } = closing
  const errors: unknown[] = []
  const providers = new Providers([NOBODY])
  const context: GatewayContext = {
    clock,
    providers,
    turns: new TurnRunner({ log, providers, instance: 'test', clock }),
    generateId: () => 'id',
    readiness: new Readiness({ log, clock, providers: [], isOpen: () => true }),
    closing: signal,
    streams: new OpenStreams({ clock, heartbeatMs, closing: signal }),
    limits: new KeyLimits(UNLIMITED, clock),
    emission: resolveProcessor().emission,
    reattachment: new Reattachment({
      keepMs: 0,
      clock,
      metrics: { reattached() {} },
      onError() {},
    }),
    openResponses: false,
    isInForce: () => true,
    onError: (error) => errors.push(error),
  }
  const space = createSpaces(log, clock).of(ANYBODY.tenant)
  const app: GatewayApp = new OpenAPIHono<GatewayEnv>()
  app.use(async (c, next) => {
    c.set('caller', ANYBODY)
    c.set('space', space)
    await next()
  })
  addStreamRoutes(app, context)
  return { app, context, space, closing, errors }
}
