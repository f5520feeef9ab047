import type { HttpBindings } from '@hono/node-server'
import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Clock } from '../async/clock.ts'
import type { ErrorCode } from '../protocol/errors.ts'
import type { Providers } from '../turns/providers.ts'
import type { TurnRunner } from '../turns/turn-runner.ts'
import type { Caller } from './auth/authenticate.ts'
import type { KeyLimits, StreamSlot } from './limits/key-limits.ts'
import type { Readiness } from './routes/server.ts'
import type { OpenStreams } from './streams/open-streams.ts'
import type { TenantSpace } from './tenant-space.ts'

/** Shared by all routes. Tenant data comes with the request, as its `space`. */
export interface GatewayContext {
  readonly turns: TurnRunner
  readonly providers: Providers
  readonly clock: Clock
  /** Creates thread and request ids. */
  readonly generateId: () => string
  readonly readiness: Readiness
  /** Aborts when the turns have ended or the grace period is over. Every stream then ends. */
  readonly closing: AbortSignal
  readonly streams: OpenStreams
  readonly limits: KeyLimits
  /** Whether the caller's key is still valid. */
  readonly isInForce: (caller: Caller) => boolean
  readonly onError: ErrorHandler
}

export type ErrorHandler = (error: unknown, about: { readonly requestId?: string }) => void

export interface GatewayEnv {
  /** Missing when the app does not run on Node. */
  Bindings: Partial<HttpBindings>
  Variables: {
    requestId: string
    address: URL
    caller: Caller
    space: TenantSpace
    /** The turn of the request, once known. */
    turnId?: string
    /** Why the request was refused. */
    refusal?: ErrorCode
    /** A stream slot taken before the stream is opened. */
    slot?: StreamSlot
  }
}

export type GatewayApp = OpenAPIHono<GatewayEnv>
