import type { StreamEvent } from '../../src/index.ts'
import { EventEncoder } from '../../src/protocol/event-codec.ts'
import { eventIdsOf } from '../../src/protocol/ids.ts'

export const RUN = '0192f0c1-2345-7abc-9def-0123456789ab'
export const ITEM = 'msg_68d1c2f0a4b88190'
export const TIME = 1731700000123

/** What the ids of the run begin with; the counter follows. */
export const ID_PREFIX = eventIdsOf(RUN)().slice(0, -8)

export interface EventParts {
  runId?: string
  counter?: number
  timestamp?: number
  trace?: object
}

export interface Payload {
  type: string
  [field: string]: unknown
}

/** An event's JSON text as the adapters' stamp writes it. */
export function eventOf(payload: Payload, parts: EventParts = {}): string {
  const { runId = RUN, counter = 1, timestamp = TIME, trace = { traceparent: '' } } = parts
  return JSON.stringify({
    event_id: eventIdsOf(runId, counter - 1)(),
    timestamp,
    trace_context: trace,
    run_id: runId,
    type: payload.type,
    payload,
  })
}

export function deltaOf(text: string, parts: EventParts & { itemId?: string } = {}): string {
  const { itemId = ITEM, ...rest } = parts
  return eventOf({ type: 'item_delta', item_id: itemId, delta_content: text }, rest)
}

/** Deltas with counters from 1 on, each `step` milliseconds after the one before. */
export function deltasOf(texts: readonly string[], step = 7): string[] {
  return texts.map((text, at) => deltaOf(text, { counter: at + 1, timestamp: TIME + at * step }))
}

/** The event of a text. */
export function parsed(data: string): StreamEvent {
  return JSON.parse(data) as StreamEvent
}

export function textsOf(events: readonly StreamEvent[]): string[] {
  return events.map((event) => JSON.stringify(event))
}

export function linesOf(records: readonly string[], encoder = new EventEncoder()): string[] {
  return records.map((data) => encoder.encode(parsed(data)))
}

/** What a store does to a chunk: UTF-8, and back. */
export function stored(lines: readonly string[]): string {
  return Buffer.from(lines.join('\n'), 'utf8').toString('utf8')
}
