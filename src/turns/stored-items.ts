import { parseJsonSafe } from '../protocol/json.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import { isStreamEvent } from '../protocol/stream-event-guard.ts'
import { ResponseReducer } from '../reducer/response-reducer.ts'
import { withoutMark } from './registry-mark.ts'

/** The log `events` of a turn, record by record. */
export type StoredTurn = readonly string[]

/** As our own deltas say it. Inside a string it would be escaped, so it is found nowhere else in them. */
const DELTA = '"type":"item_delta","payload":{"type":"item_delta"'

/**
 * The items of an ended turn, as a provider is told of them. A call that never became whole is none. The
 * deltas of a finished item are in its last word, so they are read only where an item has none.
 */
export function storedItems(texts: StoredTurn): OutputItem[] {
  const rare = itemsOf(texts.filter((text) => !text.includes(DELTA)))
  const { items, unfinished } = rare.unfinished.size === 0 ? rare : itemsOf(texts)
  return items
    .filter(({ id, type }) => type !== 'function_call' || !unfinished.has(id))
    .map((item) => withoutMark(item))
}

function itemsOf(texts: StoredTurn): { items: OutputItem[]; unfinished: ReadonlySet<string> } {
  const reducer = new ResponseReducer()
  const unfinished = new Set<string>()
  for (const text of texts) {
    const event = parseJsonSafe(text)
    if (!isStreamEvent(event)) continue
    reducer.apply(event)
    if (event.type === 'item_start') unfinished.add(event.payload.item_id)
    else if (event.type === 'item_done') unfinished.delete(event.payload.item_id)
  }
  return { items: reducer.response.output_items, unfinished }
}
