/** Short ways to write a turn down, and to reduce it. */

import { type Fields, payloads } from '../../../conformance/src/turn-log/payloads.ts'
import {
  initialReducerState,
  type ReducedResponse,
  type ReducerState,
  type ResponseItem,
  reduce,
  type StreamEvent,
  type StreamEventPayload,
  toResponse,
} from '../../src/index.ts'

export type Payload = StreamEventPayload

/** The time of the event numbered 0; each later one comes a millisecond after. */
export const T0 = 1000

export function eventAt(index: number, payload: Payload, fields: Partial<StreamEvent> = {}) {
  const [made] = payloads.toEvents([payload]) as [StreamEvent]
  const own = { event_id: `event-${index}`, timestamp: T0 + index }
  return { ...made, ...own, ...fields } as StreamEvent
}

export const eventsOf: (payloads: readonly Payload[]) => StreamEvent[] = payloads.toEvents

export function reduceAll(events: readonly StreamEvent[], from = initialReducerState()) {
  return events.reduce<ReducerState>(reduce, from)
}

export function responseTo(turn: readonly Payload[]): ReducedResponse {
  return toResponse(reduceAll(eventsOf(turn)))
}

export const {
  itemCancelled: cancel,
  itemDelta: delta,
  itemDone: done,
  itemStart: open,
  message,
  responseDone: end,
} = payloads

export function start(fields: Fields<'response_start'> = {}): Payload {
  return payloads.responseStart({ created_at: 900, ...fields })
}

export const BROKEN = { code: 'BROKEN', message: 'it broke' }

export function fail(itemId: string, error = BROKEN): Payload {
  return payloads.itemError(itemId, error)
}

export function usage(total: number) {
  return payloads.tokenUsage(1, total - 1)
}

export function usageUpdate(total: number): Payload {
  return payloads.usageUpdate(usage(total))
}

export function breakOff(code = 'UPSTREAM_TRUNCATED'): Payload {
  return payloads.responseError({ code, message: 'cut off' })
}

export function abort(): Payload {
  return payloads.turnAborted('stop')
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
    message: `The event is out of order: item_delta for "${itemId}", which ${why}`,
  }
}
