import { monitorEventLoopDelay } from 'node:perf_hooks'
import { type Clock, monotonicNow, shared, within } from '@turnstream/core/internal/async/clock'
import { VENDOR_CODES } from '@turnstream/core/internal/formats/call-faults'
import { omitNullish } from '@turnstream/core/internal/formats/request-in'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import {
  ERROR_CODES,
  type ErrorCode,
  TurnstreamError,
} from '@turnstream/core/internal/protocol/errors'
import type { MiddlewareHandler } from 'hono'
import type { Provider } from '../../providers/provider.ts'
import type { ToolSource } from '../../turns/tool-sources.ts'
import type {
  ToolOutcome,
  TurnFacts,
  TurnObserver,
  TurnOutcome,
} from '../../turns/turn-observer.ts'
import type { Caller } from '../auth/authenticate.ts'
import type { GatewayEnv } from '../context.ts'
import type { OpenStreams } from '../streams/open-streams.ts'
import { createMetrics } from './definitions.ts'

/** Called when a turn starts, and again with its outcome when it ends. */
export type TurnListener = (turn: TurnFacts, outcome?: TurnOutcome) => void

export interface GatewayMetricsOptions {
  readonly log: Pick<TurnLog, 'storedBytes'>
  readonly clock: Clock
  /** Known models, as `<provider>/<model>`. A client may name any other. */
  readonly models: readonly string[]
  readonly toolSources: readonly ToolSource[]
  readonly providers: readonly Provider[]
  readonly onTurn?: TurnListener | undefined
  readonly onUnknownEvent?: ((provider: string, type: string) => void) | undefined
}

/** Types are chosen by providers: more are counted, but not reported. */
const MAX_UNKNOWN_TYPES = 1000

const OTHER = 'other'
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS'])

/** Metrics of one gateway. Values that a client chooses never become labels: they count as `other`. */
export class GatewayMetrics implements TurnObserver {
  readonly counts = { events: 0, snapshots: 0 }
  readonly #options: GatewayMetricsOptions
  readonly #models: ReadonlySet<string>
  readonly #unknownTypes = new Set<string>()
  readonly #readStoredBytes: () => Promise<number | undefined>
  readonly #loopDelay = new LoopDelay()
  readonly #metrics = createMetrics()

  constructor(options: GatewayMetricsOptions) {
    this.#options = options
    this.#models = new Set(options.models)
    this.#readStoredBytes = storedBytesReader(options.log, options.clock)
  }

  started(turn: TurnFacts): void {
    this.#metrics.turns_started_total.with().value += 1
    notify(this.#options.onTurn, turn)
  }

  answered({ provider }: TurnFacts, waitedMs: number): void {
    this.#metrics.first_token_seconds.with(provider).observe(waitedMs / 1000)
  }

  retried({ provider }: TurnFacts): void {
    this.#metrics.provider_retries_total.with(provider).value += 1
  }

  unknownEvent({ provider }: TurnFacts, type: string): void {
    this.#metrics.unknown_events_total.with(provider).value += 1
    const name = `${provider} ${type}`
    if (this.#unknownTypes.size >= MAX_UNKNOWN_TYPES || this.#unknownTypes.has(name)) return
    this.#unknownTypes.add(name)
    this.#options.onUnknownEvent?.(provider, type)
  }

  ended(turn: TurnFacts, outcome: TurnOutcome): void {
    const { status, code, durationMs, cancelMs } = outcome
    const metrics = this.#metrics
    const codeLabel = code === undefined ? '' : knownCode(code)
    metrics.turns_ended_total.with(status, codeLabel).value += 1
    metrics.turn_duration_seconds.with(turn.provider).observe(durationMs / 1000)
    if (cancelMs !== undefined) metrics.cancel_seconds.with().observe(cancelMs / 1000)
    if (status === 'lost') metrics.lease_losses_total.with().value += 1
    this.#addTokens(turn, outcome)
    notify(this.#options.onTurn, turn, outcome)
  }

  toolEnded(_turn: TurnFacts, { tool, status, durationMs }: ToolOutcome): void {
    this.#metrics.tool_calls_total.with(tool, status).value += 1
    this.#metrics.tool_seconds.with(tool).observe(durationMs / 1000)
  }

  appended(tookMs: number): void {
    this.#metrics.store_append_seconds.with().observe(tookMs / 1000)
  }

  orphanEnded(): void {
    this.#metrics.orphans_ended_total.with().value += 1
  }

  /** Counts an answered request. `route` is a pattern, never the request path. */
  answeredRequest(route: string, method: string, status: number): void {
    const known = METHODS.has(method) ? method : OTHER
    const statusClass = `${Math.trunc(status / 100)}xx`
    this.#metrics.http_requests_total.with(route, known, statusClass).value += 1
  }

  reattached(): void {
    this.#metrics.reattached_total.with().value += 1
  }

  refused(code: ErrorCode): void {
    this.#metrics.http_refusals_total.with(code).value += 1
  }

  failed(error: unknown): void {
    const code = error instanceof TurnstreamError ? error.code : OTHER
    this.#metrics.errors_total.with(code).value += 1
  }

  async text(streams: OpenStreams, running: number): Promise<string> {
    const { store_bytes: storeBytes, ...others } = this.#metrics
    const bytes = await this.#readStoredBytes()
    storeBytes.with().value = bytes ?? 0
    this.#measureTurns(streams, running)
    this.#measureProviders()
    this.#measureProcess()
    // The store size is missing until the store has reported it.
    const families = Object.values(bytes === undefined ? others : this.#metrics)
    return families.map((family) => family.text()).join('')
  }

  close(): void {
    this.#loopDelay.close()
  }

  #measureTurns(streams: OpenStreams, running: number): void {
    const metrics = this.#metrics
    metrics.turns_running.with().value = running
    metrics.events_written_total.with().value = this.counts.events
    metrics.snapshots_written_total.with().value = this.counts.snapshots
    metrics.stream_lag_seconds.with().value = streams.longestLag / 1000
    metrics.snapshots_skipped_total.with().value = streams.counts.skipped
    for (const { name, isConnected } of this.#options.toolSources) {
      metrics.tool_source_up.with(name).value = Number(isConnected)
    }
    for (const [kind, open] of Object.entries(streams.counts.clients)) {
      metrics.stream_clients.with(kind).value = open
    }
    for (const [reason, sent] of Object.entries(streams.counts.resyncs)) {
      metrics.resyncs_total.with(reason).value = sent
    }
  }

  #measureProviders(): void {
    const metrics = this.#metrics
    for (const { id, health } of this.#options.providers) {
      if (health === undefined) continue
      metrics.provider_process_up.with(id).value = Number(health.state !== 'failing')
      metrics.provider_process_restarts_total.with(id).value = health.restarts
      metrics.provider_process_recycles_total.with(id).value = health.recycles
      metrics.provider_process_threads.with(id).value = health.threads
      metrics.provider_process_turns.with(id).value = health.turns
      const memory = metrics.provider_process_resident_memory_bytes
      memory.with(id).value = health.residentBytes ?? 0
    }
  }

  #measureProcess(): void {
    const metrics = this.#metrics
    const { rss, heapUsed } = process.memoryUsage()
    const { user, system } = process.cpuUsage()
    const startedAt = Math.round(performance.timeOrigin / 1000)
    metrics.process_start_time_seconds.with().value = startedAt
    metrics.process_resident_memory_bytes.with().value = rss
    metrics.process_heap_bytes.with().value = heapUsed
    metrics.process_cpu_seconds_total.with('user').value = user / US_PER_S
    metrics.process_cpu_seconds_total.with('system').value = system / US_PER_S
    for (const [statistic, ns] of Object.entries(this.#loopDelay.read() ?? {})) {
      metrics.event_loop_delay_seconds.with(statistic).value = ns / NS_PER_S
    }
  }

  #addTokens({ tenant, provider, model }: TurnFacts, { usage }: TurnOutcome): void {
    if (usage === undefined) return
    const known = this.#models.has(`${provider}/${model}`) ? model : OTHER
    const tokens = this.#metrics.tokens_total
    tokens.with(tenant, provider, known, 'input').value += usage.prompt_tokens
    tokens.with(tenant, provider, known, 'output').value += usage.completion_tokens
  }
}

/** The code if it is ours, an HTTP status, or one that clients act on. Vendors may send anything. */
export function knownCode(code: string): string {
  const isKnown = Object.hasOwn(ERROR_CODES, code) || VENDOR_CODES.has(code)
  return isKnown || /^HTTP_\d{3}$/.test(code) ? code : OTHER
}

function notify<Args extends readonly unknown[]>(
  listener: ((...args: Args) => void) | undefined,
  ...args: Args
): void {
  try {
    listener?.(...args)
  } catch {
    // There is no one else to notify.
  }
}

// The store may have to read all its data.
const READ_EVERY_MS = 10_000
// Scrapes time out after about ten seconds.
const LIMIT_MS = 1000

/** Returns a function that reads the store size without delaying a scrape: the last known one, if any. */
export function storedBytesReader(
  log: Pick<TurnLog, 'storedBytes'>,
  clock: Clock,
): () => Promise<number | undefined> {
  let readAt = -Infinity
  let isReading = false
  let known: number | undefined
  const read = shared(async () => {
    readAt = monotonicNow(clock)
    isReading = true
    try {
      known = await log.storedBytes()
    } catch {
      // Operations on the store report the failure themselves.
    }
    isReading = false
  })
  return async () => {
    if (isReading || Math.abs(monotonicNow(clock) - readAt) >= READ_EVERY_MS) {
      // A late result serves later scrapes.
      await within(read(), LIMIT_MS, clock, () => new Error('late')).catch(() => {})
    }
    return known
  }
}

const NS_PER_S = 1e9
const US_PER_S = 1e6

/** Event loop delay in ns, measured from the first scrape on. */
class LoopDelay {
  readonly #monitor = monitorEventLoopDelay()
  #isClosed = false

  /** Since the last read; undefined without measurements. */
  read(): Record<'mean' | 'p99' | 'max', number> | undefined {
    if (this.#isClosed) return undefined
    const monitor = this.#monitor
    if (monitor.enable()) return { mean: 0, p99: 0, max: 0 }
    // Without a measurement the numbers are NaN.
    if (monitor.count === 0) return undefined
    const { mean, max } = monitor
    const p99 = monitor.percentile(99)
    monitor.reset()
    return { mean, p99, max }
  }

  close(): void {
    this.#isClosed = true
    this.#monitor.disable()
  }
}

/** Access log entry of a request, written when it is answered or its stream opens. Never any content. */
export interface RequestFacts {
  readonly method: string
  /** A pattern such as `/api/v2/runs/:runId`, or `unmatched`. Never the request path. */
  readonly route: string
  readonly status: number
  /** Time to the response, or to the head of a stream. */
  readonly durationMs: number
  readonly requestId: string
  /** Missing if the caller is not authenticated. */
  readonly tenant?: string
  /** Name of the key. Not a secret. */
  readonly key?: string
  readonly turnId?: string
  /** Whether it got the turn that a client of the same request had left. */
  readonly reattached?: boolean
  /** Error code of a refused request. */
  readonly code?: string
}

/** Counts requests by route and reports each to `onRequest`. */
export function observeRequests(
  metrics: GatewayMetrics,
  clock: Clock,
  onRequest?: (request: RequestFacts) => void,
): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const since = monotonicNow(clock)
    await next()
    const { method } = c.req
    const { status } = c.res
    // Middleware is registered for all methods.
    // Not `hono/route`, which fails on a context of another copy of hono: npm may install two.
    const matched = c.req.matchedRoutes.findLast((each) => each.method !== 'ALL')
    const route = matched?.path ?? 'unmatched'
    const code = c.get('refusal')
    metrics.answeredRequest(route, method, status)
    if (code !== undefined) metrics.refused(code)
    if (onRequest === undefined) return
    const caller = c.get('caller') as Caller | undefined
    const turnId = c.get('turnId')
    const durationMs = monotonicNow(clock) - since
    const answer = { method, route, status, durationMs, requestId: c.get('requestId') }
    notify(onRequest, {
      ...answer,
      ...(caller && { tenant: caller.tenant, key: caller.key }),
      ...omitNullish({ turnId, reattached: c.get('isReattached'), code }),
    })
  }
}
