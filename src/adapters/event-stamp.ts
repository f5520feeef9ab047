import { eventIdsOf } from '../protocol/ids.ts'
import type { StreamEvent, StreamEventPayload, TraceContext } from '../protocol/stream-event.ts'

export interface StampOptions {
  now: () => number
  traceContext?: TraceContext
}

const NO_TRACE: TraceContext = { traceparent: '' }

/** Puts payloads into envelopes: ids that follow from the run and the place, times from the clock. */
export class EventStamp {
  readonly #now: () => number
  readonly #traceContext: TraceContext
  #runId = ''
  #nextEventId: () => string = () => ''

  constructor({ now, traceContext = NO_TRACE }: StampOptions) {
    this.#now = now
    this.#traceContext = traceContext
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
