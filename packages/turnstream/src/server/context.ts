import type { HttpBindings } from '@hono/node-server'
import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Clock } from '@turnstream/core/internal/async/clock'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import type { ErrorCode } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import { logOf, Tenants } from '../log/tenants.ts'
import type { ResolvedProcessor } from '../turns/processor-settings.ts'
import type { Providers } from '../turns/providers.ts'
import type { TurnRunner } from '../turns/turn-runner.ts'
import type { Caller } from './auth/authenticate.ts'
import { createThreadQuota, type KeyLimits, type StreamSlot } from './limits/key-limits.ts'
import type { Reattachment, RepeatedRequest } from './reattachment.ts'
import type { Readiness } from './routes/server.ts'
import { NewTurns } from './streams/new-turns.ts'
import type { OpenStreams } from './streams/open-streams.ts'

/** Shared by all routes. Tenant data comes with the request, as its `space`. */
export interface GatewayContext {
  readonly turns: TurnRunner
  readonly providers: Providers
  readonly clock: Clock
  readonly generateId: () => string
  readonly readiness: Readiness
  /** Aborts when the turns have ended or the grace period is over. Every stream then ends. */
  readonly closing: AbortSignal
  readonly streams: OpenStreams
  readonly limits: KeyLimits
  readonly reattachment: Reattachment
  /** When streamed arguments are sent. */
  readonly emission: ResolvedProcessor['emission']
  /** Whether `/v1/responses` follows Open Responses where it differs from OpenAI. A request may override it. */
  readonly openResponses: boolean
  readonly isInForce: (caller: Caller) => boolean
  /** How long a response with `store: false` can be read after its end. Undefined: like any other. */
  readonly unstoredMs?: number
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
    turnId?: string
    /** Set where the same request may get the same turn. */
    repeated?: RepeatedRequest
    /** Whether the request got the turn of an earlier one. */
    isReattached?: boolean
    refusal?: ErrorCode
    /** Returns a function that stops counting the body of the request. Call it when its turn ends. */
    handOverBody?: () => () => void
    /** A stream slot taken before the stream is opened. */
    slot?: StreamSlot
  }
}

export type GatewayApp = OpenAPIHono<GatewayEnv>

export interface TenantSpace {
  readonly tenant: string
  readonly log: TurnLog
  /** Notify it of every turn created and every thread deleted in this process. */
  readonly newTurns: NewTurns
  readonly threadQuota: ReturnType<typeof createThreadQuota>
}

export type TenantSpaces = Tenants<TenantSpace>

export function createSpaces(whole: TurnLog, clock: Clock, maxThreads = Infinity): TenantSpaces {
  const create = (tenant: string): TenantSpace => {
    const log = logOf(whole, tenant)
    const newTurns = new NewTurns(log, clock)
    return { tenant, log, newTurns, threadQuota: createThreadQuota(log, maxThreads, clock) }
  }
  return new Tenants(create(DEFAULT_TENANT), create)
}
