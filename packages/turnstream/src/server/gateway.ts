import { hostname } from 'node:os'
import { OpenAPIHono } from '@hono/zod-openapi'
import { type Clock, systemClock } from '@turnstream/core/internal/async/clock'
import { parameterError } from '@turnstream/core/internal/formats/openai-errors'
import { requestInvalid } from '@turnstream/core/internal/formats/request-errors'
import type { ErrorCode } from '@turnstream/core/internal/protocol/errors'
import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import { resolveProcessor } from '../turns/processor-settings.ts'
import { type ConfiguredProvider, Providers } from '../turns/providers.ts'
import { isToolSource } from '../turns/tool-sources.ts'
import { guardCallback } from '../turns/turn-observer.ts'
import { TurnRunner, type TurnRunnerOptions } from '../turns/turn-runner.ts'
import { type Access, authenticate, isInForce } from './auth/authenticate.ts'
import type { KeyRing } from './auth/key-ring.ts'
import { createSpaces, type GatewayApp, type GatewayContext, type GatewayEnv } from './context.ts'
import { refuse, refuseUnmatched } from './error-response.ts'
import { isOpenaiPath } from './errors.ts'
import { baseHeaders } from './json-response.ts'
import { type GatewayLimits, KeyLimits } from './limits/key-limits.ts'
import {
  GatewayMetrics,
  observeRequests,
  type RequestFacts,
  type TurnListener,
} from './metrics/gateway-metrics.ts'
import { once } from './once.ts'
import { Reattachment } from './reattachment.ts'
import { type BodyLimits, boundedBody } from './request-body.ts'
import { addApprovalRoute } from './routes/approvals.ts'
import { addChatCompletionsRoute } from './routes/chat-completions.ts'
import { addMessagesRoutes } from './routes/messages.ts'
import { addModelRoutes } from './routes/models.ts'
import { addPageRoutes } from './routes/page.ts'
import { addResponsesRoutes } from './routes/responses.ts'
import { addRunRoutes } from './routes/runs.ts'
import { addDocumentRoutes, addHealthRoutes, addMetricsRoute, Readiness } from './routes/server.ts'
import { addStoredResponseRoutes } from './routes/stored-responses.ts'
import { addStreamTokenRoute, StreamTokens } from './routes/stream-tokens.ts'
import { addOutputRoutes, addStreamRoutes } from './routes/streams.ts'
import { addSubmitRoutes } from './routes/submit.ts'
import { addThreadRoutes } from './routes/threads.ts'
import { type RunRequest, runTurn } from './run.ts'
import { OpenStreams } from './streams/open-streams.ts'
import { AllowedOrigins, checkHost, checkOrigin } from './web/origins.ts'

export interface GatewayOptions
  extends Omit<TurnRunnerOptions, 'onError' | 'observer' | 'instance' | 'providers'> {
  /** The providers, the default one first. */
  readonly providers: Providers | readonly ConfiguredProvider[]
  /** Name of this process in turn records, for operators. `<host name>:<process id>` by default. */
  readonly instance?: string
  /** Heartbeat interval of silent streams. 15 s by default. */
  readonly heartbeatMs?: number
  /** Maximum request body size. 4 MB by default. */
  readonly maxBodyBytes?: number
  /** The same on vendors' APIs, for images. `maxBodyBytes` if that is set, otherwise 32 MB. */
  readonly maxVendorBodyBytes?: number
  /** Limits per key on this instance. `Infinity` disables a limit. */
  readonly limits?: Partial<GatewayLimits>
  /** How long running turns may continue during shutdown. 30 s by default. */
  readonly shutdownGraceMs?: number
  /** Origins allowed to use the API from a browser, such as `https://app.example`. None by default. */
  readonly corsOrigins?: readonly string[]
  /** Host names allowed in requests. Any by default. */
  readonly allowedHosts?: readonly string[]
  /** Accepted API keys. Without it every caller is allowed, as the tenant `default`. */
  readonly keys?: KeyRing
  /** What becomes of a response with `store: false` ten minutes after its end. `delete` by default. */
  readonly storeFalse?: 'delete' | 'keep'
  /** Signing secret of stream tokens, the same on all instances. At least 32 characters; random by default. */
  readonly streamTokenSecret?: string
  readonly clock?: Clock
  /** Whether `/` is a chat page. True by default; otherwise it leads to the docs. */
  readonly page?: boolean
  /** Whether `/v1/responses` names reasoning events as Open Responses does. False by default. */
  readonly openResponses?: boolean
  /** How long a repeated request joins the turn of a client that disconnected. Two minutes by default; 0 for never. */
  readonly reattachMs?: number
  /** Whether metrics are public on a server without keys. True by default. */
  readonly openMetrics?: boolean
  /** Called for every answered request. */
  readonly onRequest?: (request: RequestFacts) => void
  /** Called when a turn starts here, and again with its outcome when it ends. */
  readonly onTurn?: TurnListener
  /** Called once for each type of provider event that is not known. Such events are ignored. */
  readonly onUnknownEvent?: (provider: string, type: string) => void
  /** Called for errors that no caller receives in full. */
  readonly onError?: (error: unknown, about: ErrorSubject) => void
}

/** Context of an error, as far as known. */
export interface ErrorSubject {
  readonly turnId?: string
  readonly requestId?: string
}

/** The server without its port. */
export interface Gateway {
  readonly app: GatewayApp
  readonly turns: TurnRunner
  readonly maxBodyBytes: number
  /** Counts a request refused before it reached the app. */
  refused(code: ErrorCode): void
  /**
   * Starts a turn on the first read and yields its snapshots, without the limits per key. `signal` cancels the turn.
   */
  run(request: RunRequest): AsyncIterable<StreamOutput>
  /** Ends turns left behind by earlier processes. Await before opening the port. */
  start(): Promise<void>
  /** Refuses new turns, waits for running ones, then ends every stream. */
  close(): Promise<void>
}

const MB = 1024 * 1024
const UNSTORED_MS = 10 * 60 * 1000

export function createGateway(options: GatewayOptions): Gateway {
  const { log, keys, tools = [], shutdownGraceMs = 30_000 } = options
  const { instance = `${hostname()}:${process.pid}`, providers: given } = options
  const { clock = systemClock, heartbeatMs = 15_000 } = options
  const providers = given instanceof Providers ? given : new Providers(given)
  const limits = new KeyLimits(options.limits, clock)
  const closing = new AbortController()
  let isOpen = true
  const readiness = new Readiness({ log, clock, providers: providers.all, isOpen: () => isOpen })
  const metrics = new GatewayMetrics({
    ...options,
    clock,
    models: providers.allModels,
    toolSources: tools.filter(isToolSource),
    providers: providers.all,
  })

  const onError = guardCallback((error, about: ErrorSubject) => {
    metrics.failed(error)
    readiness.note(error)
    options.onError?.(error, about)
  })

  const access: Access = {
    keys,
    tokens: new StreamTokens({ clock, secret: options.streamTokenSecret }),
    spaces: createSpaces(log, clock, limits.maxThreads),
  }
  const turns = new TurnRunner({ ...options, instance, providers, observer: metrics, onError })
  const context: GatewayContext = {
    turns,
    providers,
    clock,
    generateId: options.generateId ?? (() => crypto.randomUUID()),
    readiness,
    closing: closing.signal,
    streams: new OpenStreams({ clock, heartbeatMs, closing: closing.signal }),
    limits,
    reattachment: new Reattachment({ keepMs: options.reattachMs, clock, metrics, onError }),
    emission: resolveProcessor(options.processor).emission,
    openResponses: options.openResponses ?? false,
    isInForce: (caller) => isInForce(keys, caller),
    ...(options.storeFalse !== 'keep' && { unstoredMs: UNSTORED_MS }),
    onError,
  }
  const forgetKeys = keys?.onReplace(() => context.streams.cutUnless(context.isInForce))

  async function shutDown(): Promise<void> {
    isOpen = false
    try {
      await turns.shutdown(shutdownGraceMs)
      // The last records are still being delivered to readers.
      await new Promise(setImmediate)
    } finally {
      closing.abort()
      await context.reattachment.idle()
      forgetKeys?.()
      metrics.close()
    }
  }

  return {
    app: createApp(options, context, access, metrics),
    turns,
    maxBodyBytes: Math.max(...Object.values(bodyLimits(options))),
    refused: (code) => metrics.refused(code),
    run: (request) => runTurn(request, { turns, spaces: access.spaces, closing: closing.signal }),
    start: () => turns.start(),
    close: once(shutDown),
  }
}

function bodyLimits(options: GatewayOptions): BodyLimits {
  const { maxBodyBytes = 4 * MB, maxVendorBodyBytes = options.maxBodyBytes ?? 32 * MB } = options
  return { maxBodyBytes, maxVendorBodyBytes }
}

function createApp(
  options: GatewayOptions,
  context: GatewayContext,
  access: Access,
  metrics: GatewayMetrics,
): GatewayApp {
  const { openMetrics = true, onRequest } = options
  const { generateId, clock, onError } = context
  const hasKeys = access.keys !== undefined
  const app: GatewayApp = new OpenAPIHono<GatewayEnv>({
    defaultHook: (result, { req }) => {
      if (result.success) return
      const { target, error } = result
      if (target === 'json' && isOpenaiPath(req.path)) throw parameterError(error)
      throw requestInvalid(PARTS[target] ?? target, error)
    },
  })
  app.use(baseHeaders(generateId))
  app.use(observeRequests(metrics, clock, onRequest))
  app.use(checkHost(options.allowedHosts))
  app.use(checkOrigin(new AllowedOrigins(options.corsOrigins, { hasKeys })))
  app.use(authenticate(access))
  app.use(boundedBody(bodyLimits(options), context.limits, context.reattachment))
  app.onError((error, c) => refuse(c, error, onError))
  addSubmitRoutes(app, context)
  addRunRoutes(app, context)
  addApprovalRoute(app, context)
  addThreadRoutes(app, context)
  addOutputRoutes(app, context)
  addStreamRoutes(app, context)
  addStreamTokenRoute(app, access.tokens)
  addChatCompletionsRoute(app, context)
  addResponsesRoutes(app, context)
  addStoredResponseRoutes(app, context)
  addMessagesRoutes(app, context)
  addModelRoutes(app, context)
  addHealthRoutes(app, context)
  addMetricsRoute(app, context, { metrics, isOpen: hasKeys || openMetrics })
  addDocumentRoutes(app)
  addPageRoutes(app, { hasPage: options.page ?? true })
  app.notFound(refuseUnmatched(app, onError))
  return app
}

/** Request parts as the docs name them. */
const PARTS: Record<string, string> = { json: 'body', param: 'params', header: 'headers' }
