import { MAX_RECORD_CHARS } from '../log/records.ts'
import type { TurnRecord } from '../log/turn-log.ts'
import type { ReducedResponse } from '../protocol/response.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import { isStreamEvent } from '../protocol/stream-event-guard.ts'
import { ResponseReducer } from '../reducer/reduce.ts'
import type { UnsettledItems } from './unsettled-items.ts'

/**
 * Reduces a turn while it is written, except its deltas: nearly all events are deltas, and the last event of an
 * item nearly always has its whole content. Where it has not, the item's text so far is reduced as one delta.
 */
export class TurnResponse {
  readonly #reducer = new ResponseReducer()
  readonly #unsettled: Pick<UnsettledItems, 'streamedText'>

  constructor(unsettled: Pick<UnsettledItems, 'streamedText'>) {
    this.#unsettled = unsettled
  }

  /** Takes an event that is not a delta, before `unsettled` does. */
  take(event: StreamEvent): void {
    if (!isStreamEvent(event)) return // readers of the log ignore it, too
    const itemId = itemWithoutContent(event)
    const text = itemId === undefined ? '' : this.#unsettled.streamedText(itemId)
    if (itemId !== undefined && text !== '') this.#reducer.apply(deltaBefore(event, itemId, text))
    this.#reducer.apply(event)
  }

  /** Undefined if it is too large for a store, whose readers then use the events. */
  toJson(): string | undefined {
    const json = JSON.stringify(this.#reducer.response)
    return json.length <= MAX_RECORD_CHARS ? json : undefined
  }
}

/** The item that the event ends without its content. */
function itemWithoutContent({ payload }: StreamEvent): string | undefined {
  switch (payload.type) {
    case 'item_error':
    case 'item_cancelled':
      return payload.item_id
    case 'item_done': {
      const { type } = payload.final_item
      return type === 'error' || type === 'cancelled' ? payload.item_id : undefined
    }
    default:
      return undefined
  }
}

function deltaBefore(event: StreamEvent, item_id: string, delta_content: string): StreamEvent {
  const type = 'item_delta'
  const event_id = `${event.event_id}:text`
  return { ...event, event_id, type, payload: { type, item_id, delta_content } }
}

/** Before its first event a Response knows nothing of its turn. */
export function withTurnIds(response: ReducedResponse, turn: TurnIds): ReducedResponse {
  if (response.turn_id !== '') return response
  const { turnId, runId, threadId, createdAt } = turn
  const created_at = response.created_at === 0 ? createdAt : response.created_at
  const updated_at = Math.max(response.updated_at, created_at)
  return { ...response, id: runId, turn_id: turnId, thread_id: threadId, created_at, updated_at }
}

type TurnIds = Pick<TurnRecord, 'turnId' | 'runId' | 'threadId' | 'createdAt'>
