import type { HttpBindings } from '@hono/node-server'
import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Clock } from '../async/clock.ts'
import type { ErrorCode } from '../protocol/errors.ts'
import type { Providers } from '../turns/providers.ts'
import type { TurnRunner } from '../turns/turn-runner.ts'
import type { Caller } from './auth/caller.ts'
import type { KeyLimits, StreamSlot } from './limits/key-limits.ts'
import type { Readiness } from './readiness.ts'
import type { OpenStreams } from './streams/open-streams.ts'
import type { TenantSpace } from './tenant-space.ts'

/** What all routes work with. What belongs to a tenant is not here: it comes with the request. */
export interface GatewayContext {
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
  readonly limits: KeyLimits
  /** Whether the key that a caller came with was not revoked since. */
  readonly isInForce: (caller: Caller) => boolean
  readonly onError: (error: unknown, about: { readonly requestId?: string }) => void
}

export interface GatewayEnv {
  /** Missing where the app does not run on Node. */
  Bindings: Partial<HttpBindings>
  Variables: {
    requestId: string
    address: URL
    caller: Caller
    space: TenantSpace
    /** Of a request that has to do with one turn, once that was found. */
    turnId?: string
    /** Why the request was refused. */
    refusal?: ErrorCode
    /** Of a stream for which a place was taken before it is opened. */
    slot?: StreamSlot
  }
}

export type GatewayApp = OpenAPIHono<GatewayEnv>
