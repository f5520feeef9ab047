import type { Clock } from '../../async/clock.ts'
import type { TurnLog } from '../../log/turn-log.ts'
import { type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'
import type { TurnFacts, TurnObserver, TurnOutcome } from '../../turns/turn-observer.ts'
import type { OpenStreams } from '../streams/open-streams.ts'
import { METRICS, type MetricName } from './definitions.ts'
import { KeptBytes } from './kept-bytes.ts'
import { knownCode } from './known-code.ts'
import { ProcessMetrics } from './process-metrics.ts'
import { type Family, histograms, type Value, values } from './prometheus.ts'

export interface GatewayMetricsOptions {
  readonly log: Pick<TurnLog, 'bytesKept'>
  readonly clock: Clock
  /** The models that are known, as `<provider>/<model>`: a client may name any other. */
  readonly models: readonly string[]
}

/** What is looked at when somebody asks. */
export interface Measured {
  readonly streams: OpenStreams
  readonly running: number
}

const OTHER = 'other'
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS'])

/** The metrics of one gateway. What a client can make up is no label: it is counted as `other`. */
export class GatewayMetrics implements TurnObserver {
  readonly counts = { events: 0, snapshots: 0 }
  readonly #models: ReadonlySet<string>
  readonly #kept: KeptBytes
  readonly #process = new ProcessMetrics()

  readonly #started = counts('turnstream_turns_started_total')
  readonly #ended = counts('turnstream_turns_ended_total')
  readonly #running = counts('turnstream_turns_running')
  readonly #duration = times('turnstream_turn_duration_seconds')
  readonly #firstToken = times('turnstream_first_token_seconds')
  readonly #cancel = times('turnstream_cancel_seconds')
  readonly #tokens = counts('turnstream_tokens_total')
  readonly #events = counts('turnstream_events_written_total')
  readonly #snapshots = counts('turnstream_snapshots_written_total')
  readonly #retries = counts('turnstream_provider_retries_total')
  readonly #losses = counts('turnstream_lease_losses_total')
  readonly #orphans = counts('turnstream_orphans_ended_total')
  readonly #clients = counts('turnstream_stream_clients')
  readonly #lag = counts('turnstream_stream_lag_seconds')
  readonly #skipped = counts('turnstream_snapshots_skipped_total')
  readonly #resyncs = counts('turnstream_resyncs_total')
  readonly #append = times('turnstream_store_append_seconds')
  readonly #requests = counts('turnstream_http_requests_total')
  readonly #refusals = counts('turnstream_http_refusals_total')
  readonly #errors = counts('turnstream_errors_total')
  /** Not there before the store has said a number. */
  #bytes: Family<Value> | undefined

  constructor({ log, clock, models }: GatewayMetricsOptions) {
    this.#models = new Set(models)
    this.#kept = new KeptBytes(log, clock)
  }

  started(): void {
    this.#started.with().value += 1
  }

  answered({ provider }: TurnFacts, waitedMs: number): void {
    this.#firstToken.with(provider).observe(waitedMs / 1000)
  }

  retried({ provider }: TurnFacts): void {
    this.#retries.with(provider).value += 1
  }

  ended(turn: TurnFacts, outcome: TurnOutcome): void {
    const { status, code, durationMs, cancelMs } = outcome
    this.#ended.with(status, code === undefined ? '' : knownCode(code)).value += 1
    this.#duration.with(turn.provider).observe(durationMs / 1000)
    if (cancelMs !== undefined) this.#cancel.with().observe(cancelMs / 1000)
    if (status === 'lost') this.#losses.with().value += 1
    this.#addTokens(turn, outcome)
  }

  appended(tookMs: number): void {
    this.#append.with().observe(tookMs / 1000)
  }

  orphanEnded(): void {
    this.#orphans.with().value += 1
  }

  /** A request was answered; its route is a pattern, never what was asked for. */
  answeredRequest(route: string, method: string, status: number): void {
    const known = METHODS.has(method) ? method : OTHER
    this.#requests.with(route, known, `${Math.trunc(status / 100)}xx`).value += 1
  }

  refused(code: ErrorCode): void {
    this.#refusals.with(code).value += 1
  }

  failed(error: unknown): void {
    this.#errors.with(error instanceof TurnstreamError ? error.code : OTHER).value += 1
  }

  /** All of it, in the form that Prometheus reads. */
  async text(measured: Measured): Promise<string> {
    const bytes = await this.#kept.read()
    if (bytes !== undefined) {
      this.#bytes ??= counts('turnstream_store_bytes')
      this.#bytes.with().value = bytes
    }
    this.#measure(measured)
    return this.#families.map((family) => family.text()).join('') + this.#process.text()
  }

  close(): void {
    this.#process.close()
  }

  #measure({ streams, running }: Measured): void {
    this.#running.with().value = running
    this.#events.with().value = this.counts.events
    this.#snapshots.with().value = this.counts.snapshots
    this.#lag.with().value = streams.longestLag / 1000
    this.#skipped.with().value = streams.counts.skipped
    for (const [kind, open] of Object.entries(streams.counts.clients)) {
      this.#clients.with(kind).value = open
    }
    for (const [reason, sent] of Object.entries(streams.counts.resyncs)) {
      this.#resyncs.with(reason).value = sent
    }
  }

  get #families(): { text(): string }[] {
    return [
      this.#started,
      this.#ended,
      this.#running,
      this.#duration,
      this.#firstToken,
      this.#cancel,
      this.#tokens,
      this.#events,
      this.#snapshots,
      this.#retries,
      this.#losses,
      this.#orphans,
      this.#clients,
      this.#lag,
      this.#skipped,
      this.#resyncs,
      this.#append,
      ...(this.#bytes === undefined ? [] : [this.#bytes]),
      this.#requests,
      this.#refusals,
      this.#errors,
    ]
  }

  #addTokens({ tenant, provider, model }: TurnFacts, { usage }: TurnOutcome): void {
    if (usage === undefined) return
    const known = this.#models.has(`${provider}/${model}`) ? model : OTHER
    const { prompt_tokens: input, completion_tokens: output } = usage
    this.#tokens.with(tenant, provider, known, 'input').value += input
    this.#tokens.with(tenant, provider, known, 'output').value += output
  }
}

function counts(name: MetricName) {
  return values(name, METRICS[name])
}

function times(name: MetricName) {
  return histograms(name, METRICS[name])
}
