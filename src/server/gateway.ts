import { hostname } from 'node:os'
import { OpenAPIHono } from '@hono/zod-openapi'
import { type Clock, systemClock } from '../async/clock.ts'
import type { ErrorCode } from '../protocol/errors.ts'
import { type ConfiguredProvider, Providers } from '../turns/providers.ts'
import { quietly, TurnRunner, type TurnRunnerOptions } from '../turns/turn-runner.ts'
import { type Access, authenticate, isInForce } from './auth/authenticate.ts'
import type { KeyRing } from './auth/key-ring.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from './context.ts'
import { refuse, refuseUnmatched } from './error-response.ts'
import { requestInvalid } from './errors.ts'
import { baseHeaders } from './json-response.ts'
import { type GatewayLimits, KeyLimits, resolveLimits } from './limits/key-limits.ts'
import {
  GatewayMetrics,
  observeRequests,
  type RequestFacts,
  type TurnListener,
} from './metrics/gateway-metrics.ts'
import { boundedBody } from './request-body.ts'
import { addChatCompletionsRoute, addModelRoutes } from './routes/chat-completions.ts'
import { addRunRoutes } from './routes/runs.ts'
import { addDocumentRoutes, addHealthRoutes, addMetricsRoute, Readiness } from './routes/server.ts'
import { addStreamTokenRoute, StreamTokens } from './routes/stream-tokens.ts'
import { addOutputRoutes, addStreamRoutes } from './routes/streams.ts'
import { addSubmitRoutes } from './routes/submit.ts'
import { addThreadRoutes } from './routes/threads.ts'
import { OpenStreams } from './streams/open-streams.ts'
import { TenantSpaces } from './tenant-space.ts'
import { AllowedOrigins, checkHost, checkOrigin } from './web/origins.ts'

export interface GatewayOptions
  extends Omit<TurnRunnerOptions, 'onError' | 'observer' | 'owner' | 'providers'> {
  /** The providers, the default one first. */
  readonly providers: Providers | readonly ConfiguredProvider[]
  /** The name of this process in the record of each turn, for people. `<host name>:<process id>` by default. */
  readonly owner?: string
  /** How often a silent stream gets a comment. 15 s by default. */
  readonly heartbeatMs?: number
  /** The largest body of a request. 4 MB by default. */
  readonly maxBodyBytes?: number
  /** What one key may do on this instance; `Infinity` switches a limit off. */
  readonly limits?: Partial<GatewayLimits>
  /** How long running turns may go on when the server shuts down. 30 s by default. */
  readonly shutdownGraceMs?: number
  /** The origins whose pages may use the API, such as `https://app.example`. None by default. */
  readonly corsOrigins?: readonly string[]
  /** The host names that requests may have. Any by default. */
  readonly allowedHosts?: readonly string[]
  /** The keys that callers need. Without it everybody may call, as the tenant `default`. */
  readonly keys?: KeyRing
  /** What stream tokens are signed with: the same on all instances. At least 32 characters; random by default. */
  readonly streamTokenSecret?: string
  readonly clock?: Clock
  /** Whether the metrics can be read without a key while there are no keys. True by default. */
  readonly openMetrics?: boolean
  /** Called for every request that was answered. */
  readonly onRequest?: (request: RequestFacts) => void
  /** Called when a turn starts here, and again with its outcome when it ends. */
  readonly onTurn?: TurnListener
  /** Called for errors that no caller receives, or receives only in part. */
  readonly onError?: (error: unknown, about: ErrorSubject) => void
}

/** What an error belongs to, as far as that is known. */
export interface ErrorSubject {
  readonly turnId?: string
  readonly requestId?: string
}

/** The server without its port. */
export interface Gateway {
  readonly app: GatewayApp
  readonly turns: TurnRunner
  /** Counts a request that was refused before it reached the app. */
  refused(code: ErrorCode): void
  /** Ends the turns that earlier processes left behind. To be awaited before the port opens. */
  start(): Promise<void>
  /** Takes no more turns, lets running ones end, then ends every stream. */
  close(): Promise<void>
}

const HEARTBEAT_MS = 15_000
const MAX_BODY_BYTES = 4 * 1024 * 1024
const SHUTDOWN_GRACE_MS = 30_000

export function createGateway(options: GatewayOptions): Gateway {
  const { log, keys, shutdownGraceMs = SHUTDOWN_GRACE_MS } = options
  const { owner = `${hostname()}:${process.pid}`, providers: given } = options
  const { clock = systemClock, heartbeatMs = HEARTBEAT_MS } = options
  const providers = given instanceof Providers ? given : new Providers(given)
  const limits = resolveLimits(options.limits)
  const closing = new AbortController()
  let closed: Promise<void> | undefined
  const readiness = new Readiness({ log, clock, isOpen: () => closed === undefined })
  const models = providers.allModels
  const metrics = new GatewayMetrics({ log, clock, models, onTurn: options.onTurn })

  const onError = quietly((error, about: ErrorSubject) => {
    metrics.failed(error)
    readiness.note(error)
    options.onError?.(error, about)
  })

  const access: Access = {
    keys,
    tokens: new StreamTokens({ clock, secret: options.streamTokenSecret }),
    spaces: new TenantSpaces(log, clock, limits.storedThreads),
  }
  const turns = new TurnRunner({ ...options, owner, providers, observer: metrics, onError })
  const context: GatewayContext = {
    turns,
    providers,
    clock,
    generateId: options.generateId ?? (() => crypto.randomUUID()),
    readiness,
    closing: closing.signal,
    streams: new OpenStreams({ clock, heartbeatMs, closing: closing.signal }),
    limits: new KeyLimits(limits, clock),
    isInForce: (caller) => isInForce(keys, caller),
    onError,
  }
  const forgetKeys = keys?.onReplace(() => context.streams.cutUnless(context.isInForce))

  async function shutDown(): Promise<void> {
    try {
      await turns.shutdown(shutdownGraceMs)
      // The last records are still on their way to readers.
      await new Promise(setImmediate)
    } finally {
      closing.abort()
      forgetKeys?.()
      metrics.close()
    }
  }

  return {
    app: createApp(options, context, access, metrics),
    turns,
    refused: (code) => metrics.refused(code),
    start: () => turns.start(),
    close: () => {
      closed ??= shutDown()
      return closed
    },
  }
}

function createApp(
  options: GatewayOptions,
  context: GatewayContext,
  access: Access,
  metrics: GatewayMetrics,
): GatewayApp {
  const { maxBodyBytes = MAX_BODY_BYTES, openMetrics = true, onRequest } = options
  const { generateId, clock, onError } = context
  const hasKeys = access.keys !== undefined
  const app: GatewayApp = new OpenAPIHono<GatewayEnv>({
    defaultHook: (result) => {
      if (!result.success) throw requestInvalid(PARTS[result.target] ?? result.target, result.error)
    },
  })
  app.use(baseHeaders(generateId))
  app.use(observeRequests(metrics, clock, onRequest))
  app.use(checkHost(options.allowedHosts))
  app.use(checkOrigin(new AllowedOrigins(options.corsOrigins, { hasKeys })))
  app.use(authenticate(access))
  app.use(boundedBody(maxBodyBytes, context.limits))
  app.onError((error, c) => refuse(c, error, onError))
  addSubmitRoutes(app, context)
  addRunRoutes(app, context)
  addThreadRoutes(app, context)
  addOutputRoutes(app, context)
  addStreamRoutes(app, context)
  addStreamTokenRoute(app, access.tokens)
  addChatCompletionsRoute(app, context)
  addModelRoutes(app, context)
  addHealthRoutes(app, context)
  addMetricsRoute(app, context, { metrics, isOpen: hasKeys || openMetrics })
  addDocumentRoutes(app)
  app.notFound(refuseUnmatched(app, onError))
  return app
}

/** The parts of a request as people call them. */
const PARTS: Record<string, string> = { json: 'body', param: 'params', header: 'headers' }
