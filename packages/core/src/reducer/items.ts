import { ERROR_CODES, type ErrorCode, unreachable } from '../protocol/errors.ts'
import { isPromptItem } from '../protocol/item-ids.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { ResponseItem } from '../protocol/response.ts'
import type { StartedItem } from '../protocol/started-items.ts'
import type { ErrorObject, ItemType, StreamEventPayload } from '../protocol/stream-event.ts'
import { OrderedMap } from './ordered-map.ts'

/** `done`: final content. `failed`: ended in an error or cancelled. */
type Entry =
  | { readonly phase: 'open'; readonly started: OpenItem; readonly added: string }
  | { readonly phase: 'done' | 'failed'; readonly item: ResponseItem }

/** Item types that `item_start` can open. */
type OpenItem = Extract<ResponseItem, { type: ItemType }>

/** The items of a turn by id. Functions that change nothing return the same map. */
export type Items = OrderedMap<Entry>

export const NO_ITEMS: Items = OrderedMap.empty

export function startItem(items: Items, payload: StreamEventPayload<'item_start'>): Items {
  if (items.get(payload.item_id)) return items
  return items.set(payload.item_id, { phase: 'open', started: newItem(payload), added: '' })
}

/** Returns an open item. */
export function startedOf(items: Items, itemId: string): StartedItem | undefined {
  const entry = items.get(itemId)
  return entry?.phase === 'open' ? grown(entry.started, entry.added) : undefined
}

/**
 * Deltas are stored beside the item until it is read: copying the item for each one would double the cost of an
 * event. Text grows by `+`, which engines store as a rope, so a delta costs the same in a long text.
 */
export function growItem(items: Items, payload: StreamEventPayload<'item_delta'>): Items {
  const entry = items.get(payload.item_id)
  if (entry?.phase !== 'open') return reportStrayDelta(items, payload.item_id)
  const { started, added } = entry
  return items.set(payload.item_id, {
    phase: 'open',
    started,
    added: added + payload.delta_content,
  })
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

function newItem(payload: StreamEventPayload<'item_start'>): OpenItem {
  const { item_id: id, item_type: type, initial_content: content = '', call_id = '' } = payload
  const metadata = payload.provider_metadata && { provider_metadata: payload.provider_metadata }
  switch (type) {
    case 'message':
    case 'reasoning':
      return { type, id, content, origin: originOf(payload), ...metadata }
    case 'function_call': {
      const { name = '', arguments: text = content } = payload
      return { type, id, name, arguments: text, call_id, ...metadata }
    }
    case 'function_call_output':
      return { type, id, call_id, output: content, success: false, ...metadata }
    case 'error':
      return { type, id, code: payload.code ?? '', message: content, ...metadata }
    default:
      return unreachable(type)
  }
}

function originOf({ item_id, item_type, origin = 'agent' }: StreamEventPayload<'item_start'>) {
  return item_type === 'message' && isPromptItem(item_id) ? 'user' : origin
}

function itemOf(entry: Entry): ResponseItem {
  if (entry.phase !== 'open') return entry.item
  return entry.added === '' ? entry.started : grown(entry.started, entry.added)
}

function grown(item: OpenItem, added: string): OpenItem {
  switch (item.type) {
    case 'message':
    case 'reasoning':
      return { ...item, content: item.content + added }
    case 'function_call':
      return { ...item, arguments: item.arguments + added }
    case 'function_call_output':
      return { ...item, output: item.output + added }
    case 'error':
      return { ...item, message: item.message + added }
    default:
      return unreachable(item)
  }
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
