// From what feels immediate to the longest turn.
const TURN_SECONDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]
const WAIT_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]
// An in-memory store is below the first bound; a store in trouble is above 0.5.
const STORE_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
const CANCEL_SECONDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

function counter(help: string, ...labels: string[]) {
  return { type: 'counter', help, labels } as const
}

function gauge(help: string, ...labels: string[]) {
  return { type: 'gauge', help, labels } as const
}

function histogram(help: string, buckets: number[], ...labels: string[]) {
  return { type: 'histogram', help, buckets, labels } as const
}

/** Every metric of a gateway, without the prefix of its name; docs/operations.md has a row for each. */
export const METRICS = {
  turns_started_total: counter('Turns started here.'),
  turns_ended_total: counter(
    'Turns ended here: completed, failed (by code), aborted, deleted, or lost to another process.',
    'status',
    'code',
  ),
  turns_running: gauge('Turns running here.'),
  turn_duration_seconds: histogram(
    'Time from submit to the end of the turn.',
    TURN_SECONDS,
    'provider',
  ),
  first_token_seconds: histogram('Time from submit to the first output.', WAIT_SECONDS, 'provider'),
  cancel_seconds: histogram('Time from a cancel request to the end of the turn.', CANCEL_SECONDS),
  tokens_total: counter(
    'Tokens of turns ended here, as reported by providers.',
    'tenant',
    'provider',
    'model',
    'direction',
  ),
  events_written_total: counter('Durable events.'),
  snapshots_written_total: counter('Durable snapshots.'),
  provider_retries_total: counter('Retried provider calls.', 'provider'),
  provider_process_up: gauge(
    'Whether the process of a provider runs, or can be started: 0 after a failed start.',
    'provider',
  ),
  provider_process_restarts_total: counter('Processes of a provider that died.', 'provider'),
  provider_process_recycles_total: counter(
    'Processes of a provider replaced because of their threads or memory.',
    'provider',
  ),
  provider_process_threads: gauge(
    'Threads that the current process of a provider has served.',
    'provider',
  ),
  provider_process_turns: gauge('Turns running on processes of a provider.', 'provider'),
  provider_process_resident_memory_bytes: gauge(
    'Resident memory of the current process of a provider.',
    'provider',
  ),
  unknown_events_total: counter(
    'Unknown types of provider events, once per type and call.',
    'provider',
  ),
  tool_calls_total: counter(
    'Calls of server tools: succeeded, failed, or stopped with their turn.',
    'tool',
    'status',
  ),
  tool_seconds: histogram('Duration of server tool calls.', WAIT_SECONDS, 'tool'),
  tool_source_up: gauge('Whether an MCP server is connected.', 'source'),
  lease_losses_total: counter('Turns abandoned because their lease was lost.'),
  orphans_ended_total: counter('Turns of dead processes ended here.'),
  stream_clients: gauge('Connected stream clients.', 'kind'),
  stream_lag_seconds: gauge('How long the slowest client has not read what waits for it.'),
  snapshots_skipped_total: counter('Snapshots not sent because a newer one replaced them.'),
  resyncs_total: counter('Cursors that were not valid here, so the stream restarted.', 'reason'),
  reattached_total: counter('Requests that joined the turn of an earlier, disconnected one.'),
  store_append_seconds: histogram(
    'Append latency of the store. One append in 16 is measured.',
    STORE_SECONDS,
  ),
  store_bytes: gauge('Size of the store, for all tenants and instances.'),
  http_requests_total: counter(
    'Requests answered, or whose stream was opened.',
    'route',
    'method',
    'status',
  ),
  http_refusals_total: counter('Refused requests.', 'code'),
  errors_total: counter('Logged errors.', 'code'),
  process_start_time_seconds: gauge('Start time, in seconds since the epoch.'),
  process_resident_memory_bytes: gauge('Resident memory.'),
  process_heap_bytes: gauge('Used heap.'),
  process_cpu_seconds_total: counter('CPU time.', 'mode'),
  event_loop_delay_seconds: gauge('Event loop delay since the last scrape.', 'statistic'),
} as const satisfies Record<string, MetricDefinition>

export type MetricName = keyof typeof METRICS

export type Metrics = {
  readonly [Name in MetricName]: (typeof METRICS)[Name]['type'] extends 'histogram'
    ? Family<Histogram>
    : Family<Value>
}

export function createMetrics(): Metrics {
  const families = Object.entries(METRICS).map(([name, definition]) => {
    const { type, buckets = [] }: MetricDefinition = definition
    const create = () => (type === 'histogram' ? new Histogram(buckets) : new Value())
    return [name, new Family(`turnstream_${name}`, definition, create)]
  })
  return Object.fromEntries(families) as Metrics
}

/* Counters, gauges and histograms in the Prometheus text format 0.0.4. */

export interface MetricDefinition {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly labels: readonly string[]
  /** Upper bucket bounds of a histogram, ascending. */
  readonly buckets?: readonly number[]
}

export class Value {
  value = 0

  lines(name: string, labels: string): string[] {
    return [`${name}${inBraces(labels)} ${numberText(this.value)}`]
  }
}

export class Histogram {
  readonly #bounds: readonly number[]
  readonly #counts: number[]
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  observe(value: number): void {
    const found = this.#bounds.findIndex((bound) => value <= bound)
    const index = found === -1 ? this.#bounds.length : found
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#sum += value
  }

  lines(name: string, labels: string): string[] {
    const before = labels === '' ? '' : `${labels},`
    let sum = 0
    const buckets = [...this.#bounds, Infinity].map((bound, index) => {
      sum += this.#counts[index] ?? 0
      return `${name}_bucket{${before}le="${numberText(bound)}"} ${sum}`
    })
    const all = inBraces(labels)
    return [...buckets, `${name}_sum${all} ${numberText(this.#sum)}`, `${name}_count${all} ${sum}`]
  }
}

/** Maximum series per metric. Further ones are counted as `other`. */
const MAX_SERIES = 1000
const OTHER = 'other'

interface Series {
  lines(name: string, labels: string): string[]
}

/** A metric and its series, one per combination of labels so far. */
export class Family<Each extends Series> {
  readonly #name: string
  readonly #definition: MetricDefinition
  readonly #create: () => Each
  readonly #series = new Map<string, Each>()

  constructor(name: string, definition: MetricDefinition, create: () => Each) {
    this.#name = name
    this.#definition = definition
    this.#create = create
    // Exposed as 0 before the first event.
    if (definition.labels.length === 0) this.with()
  }

  with(...values: readonly string[]): Each {
    const labels = this.#definition.labels
      .map((label, index) => `${label}="${escaped(values[index] ?? '').replaceAll('"', '\\"')}"`)
      .join(',')
    const known = this.#series.get(labels)
    if (known !== undefined) return known
    if (this.#series.size >= MAX_SERIES && values.some((value) => value !== OTHER)) {
      return this.with(...values.map(() => OTHER))
    }
    const series = this.#create()
    this.#series.set(labels, series)
    return series
  }

  text(): string {
    const { type, help } = this.#definition
    const name = this.#name
    const lines = [...this.#series].flatMap(([labels, series]) => series.lines(name, labels))
    return [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n')
  }
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

function inBraces(labels: string): string {
  return labels === '' ? '' : `{${labels}}`
}

function numberText(value: number): string {
  if (value === Infinity) return '+Inf'
  return value === -Infinity ? '-Inf' : `${value}`
}
