import type { StreamEventPayload, TraceContext } from '../protocol/stream-event.ts'

/**
 * The JSON of the events of a turn, as `JSON.stringify` would write it. Most of it is the same for all of
 * them, and nearly all are deltas of the same item: for deltas of 5 characters 0.8 µs instead of 2.3.
 */
export class EventText {
  readonly #envelope: string
  #itemId = ''
  #itemIdJson = '""'

  constructor(runId: string, traceContext: TraceContext) {
    const trace = JSON.stringify(traceContext)
    this.#envelope = `,"trace_context":${trace},"run_id":${JSON.stringify(runId)},"type":"`
  }

  /** Throws for what a provider put into a payload and JSON cannot say. */
  payload(payload: StreamEventPayload): string {
    if (payload.type !== 'item_delta' || !isPlainDelta(payload)) return JSON.stringify(payload)
    if (payload.item_id !== this.#itemId) {
      this.#itemId = payload.item_id
      this.#itemIdJson = JSON.stringify(payload.item_id)
    }
    const text = JSON.stringify(payload.delta_content)
    return `{"type":"item_delta","item_id":${this.#itemIdJson},"delta_content":${text}}`
  }

  event(eventId: string, timestamp: number, { type }: StreamEventPayload, json: string): string {
    return `{"event_id":"${eventId}","timestamp":${timestamp}${this.#envelope}${type}","payload":${json}}`
  }
}

/** Whether a delta has no field but those that every one has. */
export function isPlainDelta(payload: object): boolean {
  for (const name in payload) {
    if (name !== 'type' && name !== 'item_id' && name !== 'delta_content') return false
  }
  return true
}
