import { textOf } from '@turnstream/core/internal/items/text'
import type { UnsettledItems } from '@turnstream/core/internal/items/unsettled-items'
import type { TurnRecord } from '@turnstream/core/internal/log/turn-log'
import type { ReducedResponse, ResponseItem } from '@turnstream/core/internal/protocol/response'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import { ResponseReducer } from '@turnstream/core/internal/reducer/reduce'
import { MAX_RECORD_CHARS } from '../log/records.ts'

/** Each request of an agent repeats the whole conversation. More of it is stored only once, in the events. */
const MAX_HISTORY_CHARS = 16_384

/** Reduces a turn while it is written. The text of an item that ends without its content is reduced as one delta. */
export class TurnResponse {
  readonly #reducer = new ResponseReducer()
  readonly #unsettled: Pick<UnsettledItems, 'streamedText'>

  constructor(unsettled: Pick<UnsettledItems, 'streamedText'>) {
    this.#unsettled = unsettled
  }

  /** Takes an event other than a delta, before `unsettled` does. */
  apply(event: StreamEvent): void {
    if (!isStreamEvent(event)) return // readers of the log ignore it, too
    const itemId = itemWithoutContent(event)
    const text = itemId === undefined ? '' : this.#unsettled.streamedText(itemId)
    if (itemId !== undefined && text !== '') this.#reducer.apply(deltaBefore(event, itemId, text))
    this.#reducer.apply(event)
  }

  get items(): readonly ResponseItem[] {
    return this.#reducer.response.output_items
  }

  /** Undefined if it is too large to be stored, or fails. Readers then use the events. */
  toJson(onError: (error: unknown) => void): string | undefined {
    try {
      const { response } = this.#reducer
      const maxChars = response.history_given ? MAX_HISTORY_CHARS : MAX_RECORD_CHARS
      if (!isShorterThan(maxChars, response.output_items)) return undefined
      const json = JSON.stringify(response)
      return json.length <= maxChars ? json : undefined
    } catch (error) {
      onError(error)
      return undefined
    }
  }
}

/** Rules out, without encoding it, a response that is too large. */
function isShorterThan(maxChars: number, items: readonly ResponseItem[]): boolean {
  let chars = 0
  for (const item of items) {
    if (item.type === 'message') {
      for (const { data } of item.attachments ?? []) chars += data.length
    }
    chars += textOf(item).length
    if (chars > maxChars) return false
  }
  return true
}

function itemWithoutContent({ payload }: StreamEvent): string | undefined {
  if (payload.type === 'item_error' || payload.type === 'item_cancelled') return payload.item_id
  if (payload.type !== 'item_done') return undefined
  const { type } = payload.final_item
  return type === 'error' || type === 'cancelled' ? payload.item_id : undefined
}

function deltaBefore(event: StreamEvent, item_id: string, delta_content: string): StreamEvent {
  const type = 'item_delta'
  const event_id = `${event.event_id}:text`
  return { ...event, event_id, type, payload: { type, item_id, delta_content } }
}

/** Before its first event, a Response has no ids. */
export function withTurnIds(response: ReducedResponse, turn: TurnIds): ReducedResponse {
  if (response.turn_id !== '') return response
  const { turnId, runId, threadId, createdAt } = turn
  const created_at = response.created_at === 0 ? createdAt : response.created_at
  const updated_at = Math.max(response.updated_at, created_at)
  return { ...response, id: runId, turn_id: turnId, thread_id: threadId, created_at, updated_at }
}

type TurnIds = Pick<TurnRecord, 'turnId' | 'runId' | 'threadId' | 'createdAt'>
