import { systemClock } from '../async/clock.ts'
import { eventIdsOf } from '../protocol/ids.ts'
import type { StreamEvent, StreamEventPayload, TraceContext } from '../protocol/stream-event.ts'

export interface StampOptions {
  /** The run of payloads that come before a `response_start`. */
  runId?: string
  traceContext?: TraceContext
  /** The time of an event, in milliseconds. The system clock by default. */
  now?: () => number
}

const NO_TRACE: TraceContext = { traceparent: '' }

/** Puts payloads into envelopes: ids derived from the run and the position, times from the clock. */
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

  /** Each `response_start` begins a run of its own. */
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

/** The payloads of a provider or a translation as StreamEvents. */
export async function* stamp(
  payloads: AsyncIterable<StreamEventPayload> | Iterable<StreamEventPayload>,
  options: StampOptions = {},
): AsyncGenerator<StreamEvent, void> {
  const envelopes = new EventStamp(options)
  for await (const payload of payloads) yield envelopes.stamp(payload)
}
