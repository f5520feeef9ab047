import type { HttpBindings } from '@hono/node-server'
import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Clock } from '../async/clock.ts'
import type { TurnLog } from '../log/turn-log.ts'
import type { Providers } from '../turns/providers.ts'
import type { TurnRunner } from '../turns/turn-runner.ts'
import type { Readiness } from './readiness.ts'
import type { NewTurns } from './streams/new-turns.ts'
import type { OpenStreams } from './streams/open-streams.ts'

/** What the routes work with. */
export interface GatewayContext {
  readonly log: TurnLog
  readonly turns: TurnRunner
  readonly providers: Providers
  readonly clock: Clock
  /** Makes ids of threads and of requests: random UUIDs unless given. */
  readonly generateId: () => string
  readonly maxBodyBytes: number
  readonly readiness: Readiness
  /** Aborts when the turns have ended or their time is up: every stream ends then. */
  readonly closing: AbortSignal
  readonly streams: OpenStreams
  /** To be told of every turn that is made here. */
  readonly newTurns: NewTurns
  readonly onError: (error: unknown, about: { readonly requestId?: string }) => void
}

export interface GatewayEnv {
  /** Missing where the app does not run on Node. */
  Bindings: Partial<HttpBindings>
  Variables: { requestId: string }
}

export type GatewayApp = OpenAPIHono<GatewayEnv>
