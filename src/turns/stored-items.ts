import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import { START } from '../log/offsets.ts'
import type { EventRecord, Tail, TurnLog, TurnRecord } from '../log/turn-log.ts'
import { isRecord, parseJsonSafe } from '../protocol/json.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import { isStreamEvent } from '../protocol/stream-event-guard.ts'
import { ResponseReducer } from '../reducer/response-reducer.ts'

export interface StoredItems {
  readonly items: readonly OutputItem[]
  /** As JSON. */
  readonly bytes: number
}

/**
 * The items of an ended turn. Undefined when they take more than `maxBytes`, of which hardly more is ever read
 * into memory.
 */
export async function readStoredItems(
  log: TurnLog,
  turn: TurnRecord,
  maxBytes: number,
  signal: AbortSignal,
): Promise<StoredItems | undefined> {
  const { turnId, responseBytes } = turn
  if (responseBytes === undefined) return reduceEvents(log, turnId, maxBytes, signal)
  if (responseBytes > maxBytes) return undefined
  const text = await log.getResponse(turnId)
  // Deleted since it was listed.
  if (text === undefined) return { items: [], bytes: 0 }
  const response = parseJsonSafe(text)
  if (!isRecord(response) || !Array.isArray(response['output_items'])) {
    return reduceEvents(log, turnId, maxBytes, signal)
  }
  return { items: response['output_items'] as OutputItem[], bytes: responseBytes }
}

/**
 * For turns that were sealed without a Response. The content of a finished item is in its `item_done`, so
 * deltas are read only if an item has none, in a second pass.
 */
async function reduceEvents(
  log: TurnLog,
  turnId: string,
  maxBytes: number,
  signal: AbortSignal,
): Promise<StoredItems | undefined> {
  const read = () => log.tail(turnId, 'events', START, signal)
  const finished = await reducePass(read(), maxBytes)
  if (finished === undefined || finished.unfinished.size === 0) return finished
  return reducePass(read(), maxBytes, finished.unfinished)
}

async function reducePass(
  tail: Tail<EventRecord>,
  maxBytes: number,
  grown: ReadonlySet<string> = new Set(),
): Promise<(StoredItems & { readonly unfinished: ReadonlySet<string> }) | undefined> {
  const reducer = new ResponseReducer()
  const unfinished = new Set<string>()
  let bytes = 0
  for await (const record of tail) {
    if (isSliceOver()) await nextSlice()
    if (!('event' in record)) continue
    const { event } = record
    if (!isNeeded(event, grown) || !isStreamEvent(event)) continue
    bytes += event.type === 'item_delta' ? event.payload.delta_content.length : record.data.length
    if (bytes > maxBytes) return undefined
    reducer.apply(event)
    if (event.type === 'item_start') unfinished.add(event.payload.item_id)
    else if (event.type === 'item_done') unfinished.delete(event.payload.item_id)
  }
  return { items: reducer.response.output_items, bytes, unfinished }
}

function isNeeded(event: StreamEvent, grown: ReadonlySet<string>): boolean {
  return event.type !== 'item_delta' || grown.has(event.payload.item_id)
}
