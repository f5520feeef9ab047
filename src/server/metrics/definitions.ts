import {
  type Family,
  type Histogram,
  histograms,
  type MetricDefinition,
  type Value,
  values,
} from './prometheus.ts'

// From what feels immediate, over what a person waits for, to the longest turn.
const TURN_SECONDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]
const WAIT_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]
// A store in memory is below the first bound, one in trouble above 0.5.
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

/** Every metric of a gateway; docs/operations.md has a row for each. */
export const METRICS = {
  turnstream_turns_started_total: counter('Turns that were begun here.'),
  turnstream_turns_ended_total: counter(
    'Turns that ended here: completed, failed (with its code), aborted, deleted, or lost to another process.',
    'status',
    'code',
  ),
  turnstream_turns_running: gauge('Turns that run here now.'),
  turnstream_turn_duration_seconds: histogram(
    'From the submit of a turn to its end.',
    TURN_SECONDS,
    'provider',
  ),
  turnstream_first_token_seconds: histogram(
    'From the submit of a turn to the first piece of its answer.',
    WAIT_SECONDS,
    'provider',
  ),
  turnstream_cancel_seconds: histogram(
    'From the request to stop a turn to its end.',
    CANCEL_SECONDS,
  ),
  turnstream_tokens_total: counter(
    'Tokens of turns that ended here, as providers count them.',
    'tenant',
    'provider',
    'model',
    'direction',
  ),
  turnstream_events_written_total: counter('Events that are durable.'),
  turnstream_snapshots_written_total: counter('Snapshots that are durable.'),
  turnstream_provider_retries_total: counter('Calls to providers made again.', 'provider'),
  turnstream_lease_losses_total: counter('Turns that were let go because their lease was lost.'),
  turnstream_orphans_ended_total: counter('Turns of dead processes that were ended here.'),
  turnstream_stream_clients: gauge('Clients of event streams that are there now.', 'kind'),
  turnstream_stream_lag_seconds: gauge(
    'The longest that a client which is there now has been behind without taking what waits for it.',
  ),
  turnstream_snapshots_skipped_total: counter(
    'Snapshots that a client was not sent, because a newer one had taken their place.',
  ),
  turnstream_resyncs_total: counter(
    'Cursors of clients that could not be honoured, so that the stream began anew.',
    'reason',
  ),
  turnstream_store_append_seconds: histogram(
    'How long the store takes to append; one append in sixteen is measured.',
    STORE_SECONDS,
  ),
  turnstream_store_bytes: gauge('How much room the store takes, for all tenants and instances.'),
  turnstream_http_requests_total: counter(
    'Requests that were answered, or whose stream was opened.',
    'route',
    'method',
    'status',
  ),
  turnstream_http_refusals_total: counter('Requests that were refused.', 'code'),
  turnstream_errors_total: counter('Failures that the log has.', 'code'),
  turnstream_process_start_time_seconds: gauge('When the process began, since the epoch.'),
  turnstream_process_resident_memory_bytes: gauge('Memory that the process holds.'),
  turnstream_process_heap_bytes: gauge('Memory of it that objects of the program take.'),
  turnstream_process_cpu_seconds_total: counter('Processor time of the process.', 'mode'),
  turnstream_event_loop_delay_seconds: gauge(
    'How late the process came to its work since the last scrape.',
    'statistic',
  ),
} as const satisfies Record<`turnstream_${string}`, MetricDefinition>

export type MetricName = keyof typeof METRICS

export type Metrics = {
  readonly [Name in MetricName]: (typeof METRICS)[Name]['type'] extends 'histogram'
    ? Family<Histogram>
    : Family<Value>
}

export function createMetrics(): Metrics {
  const families = Object.entries(METRICS).map(([name, definition]) => {
    const create = definition.type === 'histogram' ? histograms : values
    return [name, create(name, definition)]
  })
  return Object.fromEntries(families) as Metrics
}
