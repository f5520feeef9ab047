import { eventIdsOf } from '@turnstream/core/internal/protocol/ids'
import { parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import { outputKey } from '@turnstream/core/internal/protocol/output-codec'
import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import { type TextRecord } from './append.ts'
import { payloads } from './payloads.ts'

/** An arbitrary time: record contents do not depend on the store's clock. */
const MADE_AT = 1_700_000_000_000

export function eventText(runId: string, seq: number, payload: { type: string }): string {
  return JSON.stringify({
    event_id: eventIdsOf(runId, seq - 1)(),
    timestamp: MADE_AT + seq * 7,
    trace_context: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
    run_id: runId,
    type: payload.type,
    payload,
  })
}

export function delta(runId: string, seq: number, text = `word ${seq} `): string {
  return eventText(runId, seq, payloads.itemDelta(`${runId}:1`, text))
}

export function responseDone(runId: string, seq: number): string {
  return eventText(runId, seq, payloads.responseDone({ response_id: runId }))
}

/** Returns the records from `first` to `last`; the last one ends the turn. */
export function eventsUpTo(runId: string, last: number, first = 1): TextRecord[] {
  return counted(first, last, (seq) =>
    seq === last ? responseDone(runId, seq) : delta(runId, seq),
  )
}

export function deltas(runId: string, first: number, last: number): TextRecord[] {
  return counted(first, last, (seq) => delta(runId, seq))
}

export function counted(first: number, last: number, text: (seq: number) => string): TextRecord[] {
  const texts = Array.from({ length: last - first + 1 }, (_, index) => text(first + index))
  return numbered(texts, first)
}

/** Makes consecutive records of texts. */
export function numbered(texts: readonly string[], first = 1): TextRecord[] {
  return texts.map((data, index) => ({ seq: first + index, data }))
}

export function message(turnId: string, itemId: string, content: string): string {
  const ids = { turnId, threadId: 'thread', itemId }
  return JSON.stringify({ type: 'message', ...ids, status: 'update', content, origin: 'assistant' })
}

export function turnStarted(turnId: string): string {
  return JSON.stringify({ type: 'turn_started', turnId, threadId: 'thread' })
}

export function turnComplete(turnId: string): string {
  return JSON.stringify({ type: 'turn_complete', turnId, threadId: 'thread', status: 'complete' })
}

/** The records of `processed` for items updated in this order, from `turn_started` to `turn_complete`. */
export function outputsOf(turnId: string, updates: string, first = 1): TextRecord[] {
  const texts = updates
    .split('')
    .map((item, index) => message(turnId, item, `${item} ${index + 1}`))
  const all = [turnStarted(turnId), ...texts, turnComplete(turnId)]
  return numbered(all, first)
}

/** Returns the newest record of every key in order of first appearance. */
export function newestOf<T extends { readonly data: string }>(outputs: readonly T[]): T[] {
  const newest = new Map<string, T>()
  for (const output of outputs) {
    newest.set(outputKey(parseJsonSafe(output.data) as StreamOutput), output)
  }
  return [...newest.values()]
}

/** Six records of each log. The last one ends it. */
export const SIX = { events: eventsUpTo('turn', 6), processed: outputsOf('turn', 'abca') }

/** What a reader of the complete log gets. */
export const STATE = {
  events: SIX.events.map(({ data }) => data),
  processed: newestOf(SIX.processed).map(({ data }) => data),
}
