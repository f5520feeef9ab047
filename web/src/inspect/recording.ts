import { apply, EMPTY_VIEW, type View } from '../../../packages/client/src/index.ts'
import { isForProcessor } from '../../../packages/core/src/items/marks.ts'
import { OutputReplay } from '../../../packages/core/src/processor/recompute.ts'
import type { StreamEvent } from '../../../packages/core/src/protocol/stream-event.ts'
import type { StreamOutput } from '../../../packages/core/src/protocol/stream-output.ts'
import { ReceivedText, ShownText } from './text-lengths.ts'

/** A snapshot that the processor emitted, computed again from the events and their times. */
export interface Emission {
  /** How many events had arrived by then. */
  readonly events: number
  /** In ms after the first event. */
  readonly at: number
  readonly output: StreamOutput
}

/** Bytes of the provider as they arrived. */
export interface VendorChunk {
  /** The number of the call, from 1. */
  readonly call: number
  /** In ms after the start. */
  readonly at: number
  readonly text: string
}

/** Emissions between two stored views: seeking applies at most this many. */
const CHECKPOINT_EVERY = 500

/** The events of one turn as they arrived, and everything that follows from them. It grows while the turn runs. */
export class Recording {
  readonly events: StreamEvent[] = []
  /** Where to resume after each event. */
  readonly offsets: string[] = []
  /** In ms after the first event. Never decreases, even if the clock of the server did. */
  readonly times: number[] = []
  /** Characters of answers and thinking that have arrived by each event. */
  readonly received: number[] = []
  /** How many of them each emission shows. */
  readonly shown: number[] = []
  readonly emissions: Emission[] = []
  /** In order of time. Empty if they were not recorded. */
  readonly vendor: readonly VendorChunk[]
  readonly #checkpoints: View[] = [EMPTY_VIEW]
  readonly #receivedText = new ReceivedText()
  readonly #shownText = new ShownText()
  #replay: OutputReplay | undefined

  constructor(vendor: readonly VendorChunk[] = []) {
    this.vendor = vendor
  }

  get length(): number {
    return this.events.length
  }

  /** In ms, from the first event to the last. */
  get duration(): number {
    return this.times.at(-1) ?? 0
  }

  get isOver(): boolean {
    const type = this.events.at(-1)?.type
    return type === 'response_done' || type === 'response_error' || type === 'turn_aborted_by_user'
  }

  /** `ms` is the time since the start, if it is known better than from the event. */
  add(offset: string, event: StreamEvent, ms?: number): void {
    const { isOver } = this
    const start = this.events[0]?.timestamp ?? event.timestamp
    const at = Math.max(ms ?? event.timestamp - start, this.duration)
    this.events.push(event)
    this.offsets.push(offset)
    this.times.push(at)
    if (event.type === 'response_start') {
      const { turn_id: turnId, thread_id: threadId } = event.payload
      this.#replay ??= new OutputReplay({ turnId, threadId }, (output, time) =>
        this.#emit(output, time),
      )
    }
    if (isForProcessor(event)) {
      this.#replay?.apply(event, at)
      // Timers before it may have shown what it cancels.
      if (!isOver) this.#receivedText.take(event, this.#shownText.has)
    }
    this.received.push(this.#receivedText.total)
  }

  /** The number of events that had arrived at a time. */
  indexAt(ms: number): number {
    return upperBound(this.times, ms)
  }

  /** The number of snapshots emitted after this many events. */
  emissionsAt(events: number): number {
    return upperBound(this.emissions, events, (emission) => emission.events)
  }

  /** The characters of answers and thinking that were shown after this many events. */
  shownAt(events: number): number {
    return this.shown[this.emissionsAt(events) - 1] ?? 0
  }

  /** What the provider sent last, after this many events. */
  vendorAt(events: number): VendorChunk | undefined {
    const at = this.times[events - 1] ?? 0
    return this.vendor[upperBound(this.vendor, at, (chunk) => chunk.at) - 1]
  }

  /** What a reader of snapshots saw after this many events. */
  viewAt(events: number): View {
    const count = this.emissionsAt(events)
    const checkpoint = Math.floor(count / CHECKPOINT_EVERY)
    let view = this.#checkpoints[checkpoint] ?? EMPTY_VIEW
    for (let index = checkpoint * CHECKPOINT_EVERY; index < count; index++) {
      const emission = this.emissions[index]
      if (emission !== undefined) view = apply(view, emission.output)
    }
    return view
  }

  #emit(output: StreamOutput, at: number): void {
    this.emissions.push({ events: this.events.length, at, output })
    this.#shownText.take(output)
    this.shown.push(this.#shownText.total)
    if (this.emissions.length % CHECKPOINT_EVERY !== 0) return
    const before = this.#checkpoints.at(-1) ?? EMPTY_VIEW
    const added = this.emissions.slice(-CHECKPOINT_EVERY)
    this.#checkpoints.push(added.reduce((view, { output: each }) => apply(view, each), before))
  }
}

/** The number of leading values that are not larger than `limit`. The values never decrease. */
export function upperBound<T>(
  values: readonly T[],
  limit: number,
  valueOf: (value: T) => number = Number,
): number {
  let low = 0
  let high = values.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const value = values[middle]
    if (value !== undefined && valueOf(value) <= limit) low = middle + 1
    else high = middle
  }
  return low
}
