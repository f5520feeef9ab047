import { OpenAPIHono } from '@hono/zod-openapi'
import { type Clock, systemClock } from '../async/clock.ts'
import { TurnRunner, type TurnRunnerOptions } from '../turns/turn-runner.ts'
import { boundedBody } from './body.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from './context.ts'
import { refuse } from './error-response.ts'
import { Readiness } from './readiness.ts'
import { requestInvalid } from './request-error.ts'
import { baseHeaders } from './request-id.ts'
import { addDocumentRoutes } from './routes/documents.ts'
import { addHealthRoutes } from './routes/health.ts'
import { addOutputRoutes } from './routes/outputs.ts'
import { addRunRoutes } from './routes/runs.ts'
import { addStreamRoutes } from './routes/streams.ts'
import { addSubmitRoute } from './routes/submit.ts'
import { addThreadTurnRoute } from './routes/thread-turn.ts'
import { addThreadRoutes } from './routes/threads.ts'
import { NewTurns } from './streams/new-turns.ts'
import { OpenStreams } from './streams/open-streams.ts'
import { unmatched } from './unmatched.ts'

export interface GatewayOptions extends Omit<TurnRunnerOptions, 'onError'> {
  /** A comment is sent on streams this often: 15 s unless given. */
  readonly heartbeatMs?: number
  /** How large the body of a request may be: 4 MB unless given. */
  readonly maxBodyBytes?: number
  /** How long running turns may go on when the server shuts down: 30 s unless given. */
  readonly shutdownGraceMs?: number
  readonly clock?: Clock
  /** Told of what nobody awaits, and of what a client was not told. */
  readonly onError?: (error: unknown, about: ErrorSubject) => void
}

/** What an error belongs to, as far as that is known. */
interface ErrorSubject {
  readonly turnId?: string
  readonly requestId?: string
}

/** The server without its port. */
export interface Gateway {
  readonly app: GatewayApp
  readonly turns: TurnRunner
  /** Ends what earlier processes left behind. To be awaited before the port opens. */
  start(): Promise<void>
  /** Takes no more turns, lets those that run come to their end, then ends every stream. */
  close(): Promise<void>
}

const HEARTBEAT_MS = 15_000
const MAX_BODY_BYTES = 4 * 1024 * 1024
const SHUTDOWN_GRACE_MS = 30_000

export function createGateway(options: GatewayOptions): Gateway {
  const { log, shutdownGraceMs = SHUTDOWN_GRACE_MS } = options
  const { clock = systemClock, heartbeatMs = HEARTBEAT_MS } = options
  const closing = new AbortController()
  let closed: Promise<void> | undefined
  const readiness = new Readiness({ log, clock, isOpen: () => closed === undefined })

  function onError(error: unknown, about: ErrorSubject): void {
    readiness.note(error)
    options.onError?.(error, about)
  }

  const turns = new TurnRunner({ ...options, onError })
  const context: GatewayContext = {
    log,
    turns,
    providers: options.providers,
    clock,
    generateId: options.generateId ?? (() => crypto.randomUUID()),
    maxBodyBytes: options.maxBodyBytes ?? MAX_BODY_BYTES,
    readiness,
    closing: closing.signal,
    streams: new OpenStreams({ clock, heartbeatMs, closing: closing.signal }),
    newTurns: new NewTurns(log, clock),
    onError,
  }

  async function shutDown(): Promise<void> {
    try {
      await turns.shutdown(shutdownGraceMs)
      // The last records of those turns are on their way to readers that are here.
      await new Promise((resolve) => {
        setImmediate(resolve)
      })
    } finally {
      closing.abort()
    }
  }

  return {
    app: createApp(context),
    turns,
    start: () => turns.start(),
    close: () => {
      closed ??= shutDown()
      return closed
    },
  }
}

function createApp(context: GatewayContext): GatewayApp {
  const { generateId, maxBodyBytes, onError } = context
  const app: GatewayApp = new OpenAPIHono<GatewayEnv>({
    defaultHook: (result) => {
      if (!result.success) throw requestInvalid(PARTS[result.target] ?? result.target, result.error)
    },
  })
  app.use(baseHeaders(generateId))
  app.use(boundedBody(maxBodyBytes))
  app.onError((error, c) => refuse(c, error, onError))
  addSubmitRoute(app, context)
  addRunRoutes(app, context)
  addThreadRoutes(app, context)
  addOutputRoutes(app, context)
  addThreadTurnRoute(app, context)
  addStreamRoutes(app, context)
  addHealthRoutes(app, context)
  addDocumentRoutes(app)
  app.notFound(unmatched(app, context))
  return app
}

/** The parts of a request as people call them. */
const PARTS: Record<string, string> = { json: 'body', param: 'params', header: 'headers' }
