import { hostname } from 'node:os'
import { OpenAPIHono } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { type Clock, systemClock } from '../async/clock.ts'
import type { ErrorCode } from '../protocol/errors.ts'
import { type ConfiguredProvider, Providers } from '../turns/providers.ts'
import { quietly } from '../turns/quietly.ts'
import { TurnRunner, type TurnRunnerOptions } from '../turns/turn-runner.ts'
import { type Access, authenticate, isInForce } from './auth/authenticate.ts'
import type { KeyRing } from './auth/key-ring.ts'
import { StreamTokens } from './auth/stream-tokens.ts'
import { boundedBody } from './body.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from './context.ts'
import { refuse } from './error-response.ts'
import { type GatewayLimits, resolveLimits } from './limits/gateway-limits.ts'
import { KeyLimits } from './limits/key-limits.ts'
import { GatewayMetrics } from './metrics/gateway-metrics.ts'
import { observeRequests, type RequestFacts } from './metrics/observe-requests.ts'
import { listenedTo, type TurnListener } from './metrics/turn-listener.ts'
import { Readiness } from './readiness.ts'
import { requestInvalid } from './request-error.ts'
import { baseHeaders } from './request-id.ts'
import { addChatCompletionsRoute } from './routes/chat-completions.ts'
import { addDocumentRoutes } from './routes/documents.ts'
import { addHealthRoutes } from './routes/health.ts'
import { addMetricsRoute } from './routes/metrics.ts'
import { addModelRoutes } from './routes/models.ts'
import { addOutputRoutes } from './routes/outputs.ts'
import { addRunRoutes } from './routes/runs.ts'
import { addStreamTokenRoute } from './routes/stream-tokens.ts'
import { addStreamRoutes } from './routes/streams.ts'
import { addSubmitRoute } from './routes/submit.ts'
import { addThreadTurnRoute } from './routes/thread-turn.ts'
import { addThreadRoutes } from './routes/threads.ts'
import { OpenStreams } from './streams/open-streams.ts'
import { TenantSpaces } from './tenant-space.ts'
import { unmatched } from './unmatched.ts'
import { webGuards } from './web/guards.ts'

export interface GatewayOptions
  extends Omit<TurnRunnerOptions, 'onError' | 'observer' | 'owner' | 'providers'> {
  /** The providers, the default one first. */
  readonly providers: Providers | readonly ConfiguredProvider[]
  /** The name of this process in the record of each turn, for people. `<host name>:<process id>` by default. */
  readonly owner?: string
  /** A comment is sent on streams this often: 15 s unless given. */
  readonly heartbeatMs?: number
  /** How large the body of a request may be: 4 MB unless given. */
  readonly maxBodyBytes?: number
  /** What one key may do on this instance; `Infinity` switches one off. */
  readonly limits?: Partial<GatewayLimits>
  /** How long running turns may go on when the server shuts down: 30 s unless given. */
  readonly shutdownGraceMs?: number
  /** The origins whose pages may use the API, such as `https://app.example`: none unless given. */
  readonly corsOrigins?: readonly string[]
  /** The only names under which it may be asked for: any unless given. */
  readonly allowedHosts?: readonly string[]
  /** Who may ask. Without it everybody may, and is of the tenant `default`. */
  readonly keys?: KeyRing
  /** What stream tokens are signed with: the same on all instances. At least 32 characters; random unless given. */
  readonly streamTokenSecret?: string
  readonly clock?: Clock
  /** Whether the metrics may be read without a key, as long as there are no keys: so unless given. */
  readonly openMetrics?: boolean
  /** Told of every request that was answered. */
  readonly onRequest?: (request: RequestFacts) => void
  /** Told of every turn that begins here, and again with its outcome when it ends. */
  readonly onTurn?: TurnListener
  /** Told of what nobody awaits, and of what a client was not told. */
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
  /** Ends what earlier processes left behind. To be awaited before the port opens. */
  start(): Promise<void>
  /** Takes no more turns, lets those that run come to their end, then ends every stream. */
  close(): Promise<void>
}

const HEARTBEAT_MS = 15_000
const MAX_BODY_BYTES = 4 * 1024 * 1024
const SHUTDOWN_GRACE_MS = 30_000

export function createGateway(options: GatewayOptions): Gateway {
  const { log, keys, shutdownGraceMs = SHUTDOWN_GRACE_MS } = options
  const { owner = `${hostname()}:${process.pid}` } = options
  const providers = toProviders(options.providers)
  const { clock = systemClock, heartbeatMs = HEARTBEAT_MS } = options
  const limits = resolveLimits(options.limits)
  const closing = new AbortController()
  let closed: Promise<void> | undefined
  const readiness = new Readiness({ log, clock, isOpen: () => closed === undefined })

  const metrics = new GatewayMetrics({ log, clock, models: providers.allModels })

  const onError = quietly((error, about: ErrorSubject) => {
    metrics.failed(error)
    readiness.note(error)
    options.onError?.(error, about)
  })

  const access: Access = {
    keys,
    tokens: tokensOf(options.streamTokenSecret, clock),
    spaces: new TenantSpaces(log, clock, limits.storedThreads),
  }
  const observer = listenedTo(metrics, options.onTurn)
  const turns = new TurnRunner({ ...options, owner, providers, observer, onError })
  const context: GatewayContext = {
    turns,
    providers,
    clock,
    generateId: options.generateId ?? (() => crypto.randomUUID()),
    maxBodyBytes: options.maxBodyBytes ?? MAX_BODY_BYTES,
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
      await lastRecordsSent()
    } finally {
      closing.abort()
      forgetKeys?.()
      metrics.close()
    }
  }

  return {
    app: createApp(context, partsOf(options, access, metrics)),
    turns,
    refused: (code) => metrics.refused(code),
    start: () => turns.start(),
    close: () => {
      closed ??= shutDown()
      return closed
    },
  }
}

function toProviders(providers: GatewayOptions['providers']): Providers {
  return providers instanceof Providers ? providers : new Providers(providers)
}

/** The last records of turns that ended just now are on their way to readers that are here. */
function lastRecordsSent(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

interface AppParts {
  readonly access: Access
  readonly guards: MiddlewareHandler<GatewayEnv>[]
  readonly metrics: GatewayMetrics
  readonly areMetricsOpen: boolean
  readonly onRequest: GatewayOptions['onRequest']
}

function partsOf(options: GatewayOptions, access: Access, metrics: GatewayMetrics): AppParts {
  const { keys, openMetrics = true, onRequest } = options
  const hasKeys = keys !== undefined
  const guards = webGuards({ ...options, hasKeys })
  return { access, guards, metrics, areMetricsOpen: hasKeys || openMetrics, onRequest }
}

function createApp(context: GatewayContext, parts: AppParts): GatewayApp {
  const { generateId, maxBodyBytes, clock, onError } = context
  const { access, guards, metrics, areMetricsOpen: isOpen, onRequest } = parts
  const app: GatewayApp = new OpenAPIHono<GatewayEnv>({
    defaultHook: (result) => {
      if (!result.success) throw requestInvalid(PARTS[result.target] ?? result.target, result.error)
    },
  })
  app.use(baseHeaders(generateId))
  app.use(observeRequests({ metrics, clock, onRequest }))
  app.use(...guards)
  app.use(authenticate(access))
  app.use(boundedBody(maxBodyBytes))
  app.onError((error, c) => refuse(c, error, onError))
  addSubmitRoute(app, context)
  addRunRoutes(app, context)
  addThreadRoutes(app, context)
  addOutputRoutes(app, context)
  addThreadTurnRoute(app, context)
  addStreamRoutes(app, context)
  addStreamTokenRoute(app, access.tokens)
  addChatCompletionsRoute(app, context)
  addModelRoutes(app, context)
  addHealthRoutes(app, context)
  addMetricsRoute(app, context, { metrics, isOpen })
  addDocumentRoutes(app)
  app.notFound(unmatched(app, context))
  return app
}

function tokensOf(secret: string | undefined, clock: Clock): StreamTokens {
  return new StreamTokens({ clock, ...(secret !== undefined && { secret }) })
}

/** The parts of a request as people call them. */
const PARTS: Record<string, string> = { json: 'body', param: 'params', header: 'headers' }
