import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'
import { METRICS } from './definitions.ts'
import { values } from './prometheus.ts'

const NS_PER_S = 1e9
const US_PER_S = 1e6

/** What the process itself needs. It is looked at when somebody asks, and costs nothing until then. */
export class ProcessMetrics {
  readonly #started = made('turnstream_process_start_time_seconds')
  readonly #resident = made('turnstream_process_resident_memory_bytes')
  readonly #heap = made('turnstream_process_heap_bytes')
  readonly #cpu = made('turnstream_process_cpu_seconds_total')
  readonly #delay = made('turnstream_event_loop_delay_seconds')
  #monitor: IntervalHistogram | undefined
  #isClosed = false

  text(): string {
    const { rss, heapUsed } = process.memoryUsage()
    const { user, system } = process.cpuUsage()
    this.#started.with().value = Math.round(performance.timeOrigin / 1000)
    this.#resident.with().value = rss
    this.#heap.with().value = heapUsed
    this.#cpu.with('user').value = user / US_PER_S
    this.#cpu.with('system').value = system / US_PER_S
    this.#lookAtDelay()
    const all = [this.#started, this.#resident, this.#heap, this.#cpu, this.#delay]
    return all.map((family) => family.text()).join('')
  }

  /** Stops looking at the event loop. */
  close(): void {
    this.#isClosed = true
    this.#monitor?.disable()
  }

  #lookAtDelay(): void {
    if (this.#isClosed) return
    const monitor = this.#monitor
    if (monitor === undefined) {
      this.#monitor = monitorEventLoopDelay()
      this.#monitor.enable()
      this.#setDelay(0, 0, 0)
    } else if (monitor.count > 0) {
      // Before the first measurement its numbers are none, and whoever is reset begins anew.
      this.#setDelay(monitor.mean, monitor.percentile(99), monitor.max)
      monitor.reset()
    }
  }

  #setDelay(mean: number, p99: number, max: number): void {
    this.#delay.with('mean').value = mean / NS_PER_S
    this.#delay.with('p99').value = p99 / NS_PER_S
    this.#delay.with('max').value = max / NS_PER_S
  }
}

function made(name: Extract<keyof typeof METRICS, `${string}_${'process' | 'event'}_${string}`>) {
  return values(name, METRICS[name])
}
