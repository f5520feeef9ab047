import { type Clock, monotonicNow, shared, within } from '@turnstream/core/internal/async/clock'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT, ROUTES } from '@turnstream/core/internal/protocol/names'
import * as z from 'zod'
import type { ProcessHealth, Provider } from '../../providers/provider.ts'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { DOCS_POLICY, docsPages } from '../docs-page.ts'
import { encodeJson, sendSharedJson } from '../json-response.ts'
import type { GatewayMetrics } from '../metrics/gateway-metrics.ts'
import { once } from '../once.ts'
import { openapiDocument } from '../openapi.ts'
import * as spec from './spec.ts'

const okSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Ok' })

const readySchema = z
  .object({
    status: z.literal('ok'),
    processes: z
      .record(z.string(), z.enum(['idle', 'running', 'failing']))
      .optional()
      .describe('States of the processes that providers run, by provider'),
  })
  .meta({ id: 'Ready' })

const ALIVE_ROUTES = [
  [ROUTES.health, 'Liveness check', 'server'],
  [ROUTES.hello, 'Connection check of Claude Code', 'anthropic'],
] as const

const readyRoute = spec.route('get', ROUTES.ready, {
  summary: 'Readiness check',
  description:
    'Queries the store, with a timeout of two seconds. After a failed write, or a failed start of the default ' +
    "provider's process, the server is not ready for ten seconds.",
  tags: ['server'],
  security: spec.NO_SECURITY,
  responses: { 200: spec.json('Turns can be submitted and read', readySchema) },
  refusals: ['SERVER_SHUTDOWN', 'STORE_FULL', 'UPSTREAM_UNREACHABLE'],
})

export function addHealthRoutes(app: GatewayApp, { readiness }: GatewayContext): void {
  for (const [path, summary, tag] of ALIVE_ROUTES) {
    const responses = { 200: spec.json('The process is alive', okSchema) }
    const config = { summary, tags: [tag], security: spec.NO_SECURITY, responses }
    app.openapi(spec.route('get', path, config), (c) => c.json({ status: 'ok' } as const, 200))
  }

  app.openapi(readyRoute, async (c) => {
    await readiness.check()
    const { processes } = readiness
    const hasProcesses = Object.keys(processes).length > 0
    return c.json({ status: 'ok', ...(hasProcesses && { processes }) } as const, 200)
  })
}

/** Probes time out after a few seconds. */
const READY_LIMIT_MS = 2000

/** How long a store that refused a write counts as not ready. Then the next turn tries again. */
const REFUSED_FOR_MS = 10_000

export interface ReadinessOptions {
  readonly log: TurnLog
  readonly clock: Clock
  /** The default one first. */
  readonly providers: readonly Provider[]
  readonly isOpen: () => boolean
}

/** Checks whether turns can be submitted and read. Concurrent checks share one request to the store. */
export class Readiness {
  readonly #options: ReadinessOptions
  readonly #askStore: () => Promise<void>
  #refusal: { readonly error: TurnstreamError; readonly at: number } | undefined

  constructor(options: ReadinessOptions) {
    const { log, clock } = options
    this.#options = options
    this.#askStore = shared(() =>
      within(canList(log), READY_LIMIT_MS, clock, () => {
        return new TurnstreamError('STORE_UNAVAILABLE', `no answer within ${READY_LIMIT_MS} ms`)
      }),
    )
  }

  /** Remembers an error that shows that the store is not writable. */
  note(error: unknown): void {
    if (!hasCode(error, 'STORE_FULL') && !hasCode(error, 'STORE_READ_ONLY')) return
    // Ignores our own cached error.
    if (error === this.#refusal?.error) return
    this.#refusal = { error, at: monotonicNow(this.#options.clock) }
  }

  get processes(): Record<string, ProcessHealth['state']> {
    const { providers } = this.#options
    const states = providers.flatMap(({ id, health }) => (health ? [[id, health.state]] : []))
    return Object.fromEntries(states) as Record<string, ProcessHealth['state']>
  }

  /** Rejects with the cause: SERVER_SHUTDOWN, the store's error, or UPSTREAM_UNREACHABLE. */
  async check(): Promise<void> {
    const { isOpen, clock, providers } = this.#options
    if (!isOpen()) throw new TurnstreamError('SERVER_SHUTDOWN', 'no new turns')
    const refusal = this.#refusal
    const isRecent = refusal !== undefined && monotonicNow(clock) - refusal.at < REFUSED_FOR_MS
    if (isRecent) throw refusal.error
    await this.#askStore()
    const [provider] = providers
    // The reason is in the log: this answer is public.
    if (provider?.health?.state === 'failing') {
      throw new TurnstreamError('UPSTREAM_UNREACHABLE', `${provider.id} cannot be started`)
    }
  }
}

/** A damaged thread does not make the server unready: the store responds. */
async function canList(log: TurnLog): Promise<void> {
  await log.listThreads({ limit: 1 }).catch((error: unknown) => {
    if (!hasCode(error, 'STORE_CORRUPT')) throw error
  })
}

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

const metricsRoute = spec.route('get', ROUTES.metrics, {
  summary: 'Metrics in the Prometheus text format',
  description:
    'Covers all tenants. On a server with keys, requires a key of the tenant `default`; others get ' +
    'ROUTE_UNKNOWN.',
  tags: ['server'],
  responses: {
    200: { description: 'The metrics', content: { 'text/plain': { schema: z.string() } } },
  },
  refusals: ['ROUTE_UNKNOWN'],
})

/** Without `isOpen` the route behaves as if it did not exist. */
export function addMetricsRoute(
  app: GatewayApp,
  { turns, streams }: GatewayContext,
  { metrics, isOpen }: { readonly metrics: GatewayMetrics; readonly isOpen: boolean },
): void {
  app.openapi(metricsRoute, async (c) => {
    if (!isOpen || c.get('caller').tenant !== DEFAULT_TENANT) {
      throw new TurnstreamError('ROUTE_UNKNOWN', ROUTES.metrics)
    }
    const text = await metrics.text(streams, turns.running)
    return c.text(text, 200, { 'content-type': METRICS_TYPE })
  })
}

const openapiRoute = spec.route('get', ROUTES.openapi, {
  summary: 'OpenAPI document',
  tags: ['server'],
  security: spec.NO_SECURITY,
  responses: { 200: spec.json('OpenAPI 3.1', z.record(z.string(), z.unknown())) },
  refusals: [],
})

const docsRoute = spec.route('get', ROUTES.docs, {
  summary: 'API reference as a web page',
  tags: ['server'],
  security: spec.NO_SECURITY,
  responses: {
    200: { description: 'The web page', content: { 'text/html': { schema: z.string() } } },
  },
  refusals: [],
})

/** Call last: the document describes the routes registered when it is first requested. */
export function addDocumentRoutes(app: GatewayApp): void {
  // Public, and slow to build.
  const documents = once(() => {
    const document = openapiDocument(app)
    return { json: encodeJson(document), pageFor: docsPages(document) }
  })

  app.openapi(openapiRoute, (c) => sendSharedJson(c, documents().json))

  app.openapi(docsRoute, (c) => {
    const page = documents().pageFor(c.get('address').origin)
    return c.html(page, 200, { 'content-security-policy': DOCS_POLICY })
  })
}
