/** Short ways to write a turn down, and to reduce it. */
import type { OutputItem } from '../../src/protocol/output-item.ts'
import type { ReducedResponse, ResponseItem } from '../../src/protocol/response.ts'
import type { StreamEvent, StreamEventPayload } from '../../src/protocol/stream-event.ts'
import {
  initialReducerState,
  type ReducerState,
  reduce,
  toResponse,
} from '../../src/reducer/reduce.ts'

export type Payload = StreamEventPayload
type Fields<Type extends Payload['type']> = Partial<Omit<StreamEventPayload<Type>, 'type'>>

/** The time of the event numbered 0; each later one comes a millisecond after. */
export const T0 = 1000

export function eventAt(index: number, payload: Payload, fields: Partial<StreamEvent> = {}) {
  return {
    event_id: `event-${index}`,
    timestamp: T0 + index,
    trace_context: { traceparent: '00-0-0-01' },
    run_id: 'run-1',
    type: payload.type,
    payload,
    ...fields,
  } as StreamEvent
}

export function eventsOf(payloads: readonly Payload[]): StreamEvent[] {
  return payloads.map((payload, index) => eventAt(index, payload))
}

export function reduceAll(events: readonly StreamEvent[], from = initialReducerState()) {
  return events.reduce<ReducerState>(reduce, from)
}

export function responseTo(payloads: readonly Payload[]): ReducedResponse {
  return toResponse(reduceAll(eventsOf(payloads)))
}

export function start(fields: Fields<'response_start'> = {}): Payload {
  return {
    type: 'response_start',
    response_id: 'response-1',
    turn_id: 'turn-1',
    thread_id: 'thread-1',
    model_id: 'model-1',
    provider_id: 'provider-1',
    created_at: 900,
    ...fields,
  }
}

export function open(item_id: string, fields: Fields<'item_start'> = {}): Payload {
  return { type: 'item_start', item_id, item_type: 'message', ...fields }
}

export function delta(item_id: string, delta_content: string): Payload {
  return { type: 'item_delta', item_id, delta_content }
}

export function done(final_item: OutputItem, item_id: string = final_item.id): Payload {
  return { type: 'item_done', item_id, final_item }
}

export function message(id: string, content: string): Extract<OutputItem, { type: 'message' }> {
  return { type: 'message', id, content, origin: 'agent' }
}

export const BROKEN = { code: 'BROKEN', message: 'it broke' }

export function fail(item_id: string, error = BROKEN): Payload {
  return { type: 'item_error', item_id, error }
}

export function cancel(item_id: string, reason?: string): Payload {
  return { type: 'item_cancelled', item_id, ...(reason !== undefined && { reason }) }
}

export function usage(total_tokens: number) {
  return { prompt_tokens: 1, completion_tokens: total_tokens - 1, total_tokens }
}

export function usageUpdate(total: number): Payload {
  return { type: 'usage_update', response_id: 'response-1', usage: usage(total) }
}

export function end(fields: Fields<'response_done'> = {}): Payload {
  return { type: 'response_done', response_id: 'response-1', status: 'complete', ...fields }
}

export function breakOff(code = 'UPSTREAM_TRUNCATED'): Payload {
  return { type: 'response_error', response_id: 'response-1', error: { code, message: 'cut off' } }
}

export function abort(): Payload {
  return { type: 'turn_aborted_by_user', turn_id: 'turn-1', reason: 'stop' }
}

export const heartbeat: Payload = { type: 'heartbeat' }

/** A turn, and the items it comes to. */
export interface ItemRow {
  name: string
  turn: Payload[]
  items: ResponseItem[]
}

/** The item that reports deltas for an item that could not take them. */
export function stray(itemId: string, why: 'was not started' | 'has ended'): ResponseItem {
  return {
    type: 'error',
    id: `${itemId}:sequence-error`,
    code: 'STREAM_SEQUENCE_ERROR',
    message: `The event came out of order: item_delta for "${itemId}", which ${why}`,
  }
}
