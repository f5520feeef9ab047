import { initialText, itemSoFar, withPromptOrigin } from '../items/open-items.ts'
import { ERROR_CODES, type ErrorCode } from '../protocol/errors.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { ResponseItem } from '../protocol/response.ts'
import type { ErrorObject, StreamEventPayload } from '../protocol/stream-event.ts'
import type { StartedItem } from '../protocol/stream-event-guard.ts'
import { OrderedMap } from './ordered-map.ts'

/** `done`: final content. `failed`: ended in an error or cancelled. */
type Entry =
  | { readonly phase: 'open'; readonly start: Start; readonly text: string }
  | { readonly phase: 'done' | 'failed'; readonly item: ResponseItem }

type Start = StreamEventPayload<'item_start'>

/** The items of a turn by id. Functions that change nothing return the same map. */
export type Items = OrderedMap<Entry>

export const NO_ITEMS: Items = OrderedMap.empty

export function startItem(items: Items, payload: Start): Items {
  if (items.get(payload.item_id)) return items
  const start = withPromptOrigin(payload)
  return items.set(payload.item_id, { phase: 'open', start, text: initialText(start) })
}

export function startedOf(items: Items, itemId: string): StartedItem | undefined {
  const entry = items.get(itemId)
  return entry?.phase === 'open' ? itemSoFar(entry.start, entry.text) : undefined
}

/**
 * The item is made when it is read: making it for each delta would double the cost of an event. Text grows by `+`, which engines store as a rope, so a delta costs the same in a long text.
 */
export function growItem(items: Items, payload: StreamEventPayload<'item_delta'>): Items {
  const entry = items.get(payload.item_id)
  if (entry?.phase !== 'open') return reportStrayDelta(items, payload.item_id)
  const { start, text } = entry
  return items.set(payload.item_id, { phase: 'open', start, text: text + payload.delta_content })
}

export function finishItem(items: Items, payload: StreamEventPayload<'item_done'>): Items {
  const { item_id, final_item: final } = payload
  const entry = items.get(item_id)
  if (entry && entry.phase !== 'open') return items
  const phase = final.type === 'error' || final.type === 'cancelled' ? 'failed' : 'done'
  const item = entry ? finished(itemOf(entry), final) : final
  const { finish_reason, answers } = payload
  if (!finish_reason && answers === undefined) return items.set(item_id, { phase, item })
  const more = {
    ...(finish_reason && { finish_reason }),
    ...(answers !== undefined && { answers: { item_id: answers.item_id } }),
  }
  return items.set(item_id, { phase, item: { ...item, ...more } })
}

/** Also applies to items that are done: a call with complete arguments may still fail to run. */
export function failItem(items: Items, payload: StreamEventPayload<'item_error'>): Items {
  const { item_id, error } = payload
  const entry = items.get(item_id)
  if (entry?.phase === 'failed') return items
  const item = entry ? { ...itemOf(entry), error } : errorItem(item_id, error)
  return items.set(item_id, { phase: 'failed', item })
}

export function cancelItem(items: Items, payload: StreamEventPayload<'item_cancelled'>): Items {
  const { item_id, reason } = payload
  const entry = items.get(item_id)
  if (entry?.phase === 'failed') return items
  const cancelled = reason === undefined ? {} : { reason }
  const item: ResponseItem = entry
    ? { ...itemOf(entry), cancelled }
    : { type: 'cancelled', id: item_id, ...cancelled }
  return items.set(item_id, { phase: 'failed', item })
}

/** Returns the current items. An ended item is the same object every time. */
export function listItems(items: Items): ResponseItem[] {
  return items.values().map(itemOf)
}

function itemOf(entry: Entry): ResponseItem {
  return entry.phase === 'open' ? itemSoFar(entry.start, entry.text) : entry.item
}

/** Returns the final state of a started item. A `final` that only describes a failure keeps the content. */
function finished(item: ResponseItem, final: OutputItem): ResponseItem {
  const provider_metadata = final.provider_metadata ?? item.provider_metadata
  const metadata = provider_metadata && { provider_metadata }
  if (final.type === 'cancelled') return { ...item, ...metadata, cancelled: outcomeOf(final) }
  if (final.type === 'error' && item.type !== 'error') {
    return { ...item, ...metadata, error: outcomeOf(final) }
  }
  return { ...final, ...metadata }
}

/** Returns a final item without the fields that every item has. */
function outcomeOf<Final extends OutputItem>(final: Final) {
  const { type: _type, id: _id, provider_metadata: _metadata, ...outcome } = final
  return outcome
}

function errorItem(id: string, error: ErrorObject): ResponseItem {
  const details = 'details' in error ? { details: error.details } : undefined
  return { type: 'error', id, code: error.code, message: error.message, ...details }
}

/** Reports at most one sequence error per item. */
function reportStrayDelta(items: Items, itemId: string): Items {
  const id = `${itemId}:sequence-error`
  if (items.get(id)) return items
  const code: ErrorCode = 'STREAM_SEQUENCE_ERROR'
  const why = items.get(itemId) ? 'has ended' : 'was not started'
  const message = `${ERROR_CODES[code].summary}: item_delta for "${itemId}", which ${why}`
  return items.set(id, { phase: 'failed', item: { type: 'error', id, code, message } })
}
