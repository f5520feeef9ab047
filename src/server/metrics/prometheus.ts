/*
 * Counters, gauges and histograms, and the text in which Prometheus reads them (format 0.0.4).
 */

export interface MetricDefinition {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly labels: readonly string[]
  /** Of a histogram: the upper bounds of its buckets, smallest first. */
  readonly buckets?: readonly number[]
}

/** One series of a counter or a gauge. */
export class Value {
  value = 0

  lines(name: string, labels: string): string[] {
    return [`${name}${inBraces(labels)} ${numberText(this.value)}`]
  }
}

/** One series of a histogram. */
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

/** How many series a metric may have. More are counted as `other`. */
const MAX_SERIES = 1000
const OTHER = 'other'

interface Series {
  lines(name: string, labels: string): string[]
}

/** A metric with its series, one for each combination of labels so far. */
export class Family<Each extends Series> {
  readonly #name: string
  readonly #definition: MetricDefinition
  readonly #create: () => Each
  readonly #series = new Map<string, Each>()

  constructor(name: string, definition: MetricDefinition, create: () => Each) {
    this.#name = name
    this.#definition = definition
    this.#create = create
    // Shown as 0 before the first event.
    if (definition.labels.length === 0) this.with()
  }

  /** The series with these values of the labels, in their order. */
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

export function values(name: string, definition: MetricDefinition): Family<Value> {
  return new Family(name, definition, () => new Value())
}

export function histograms(name: string, definition: MetricDefinition): Family<Histogram> {
  return new Family(name, definition, () => new Histogram(definition.buckets ?? []))
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
