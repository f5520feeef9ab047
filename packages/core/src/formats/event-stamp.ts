import { systemClock } from '../async/clock.ts'
import { eventIdsOf } from '../protocol/ids.ts'
import type { StreamEvent, StreamEventPayload, TraceContext } from '../protocol/stream-event.ts'

export interface StampOptions {
  /** Run of the payloads before a `response_start`. */
  runId?: string
  traceContext?: TraceContext
  /** Event time in milliseconds. The system clock by default. */
  now?: () => number
}

const NO_TRACE: TraceContext = { traceparent: '' }

/** Wraps payloads in envelopes: ids derive from run and position, times from the clock. */
export class EventStamp {
  readonly #now: () => number
  readonly #traceContext: TraceContext
  #runId: string
  #nextEventId: () => string

  constructor(options: StampOptions = {}) {
    const { runId = '', traceContext = NO_TRACE, now = () => systemClock.now() } = options
    this.#now = now
    this.#traceContext = traceContext
    this.#runId = runId
    this.#nextEventId = eventIdsOf(runId)
  }

  /** Each `response_start` begins a new run. */
  stamp(payload: StreamEventPayload): StreamEvent {
    if (payload.type === 'response_start' && payload.response_id !== this.#runId) {
      this.#runId = payload.response_id
      this.#nextEventId = eventIdsOf(payload.response_id)
    }
    return {
      event_id: this.#nextEventId(),
      timestamp: this.#now(),
      trace_context: this.#traceContext,
      run_id: this.#runId,
      type: payload.type,
      payload,
    } as StreamEvent
  }
}

export async function* stamp(
  payloads: AsyncIterable<StreamEventPayload> | Iterable<StreamEventPayload>,
  options: StampOptions = {},
): AsyncGenerator<StreamEvent, void> {
  const envelopes = new EventStamp(options)
  for await (const payload of payloads) yield envelopes.stamp(payload)
}
