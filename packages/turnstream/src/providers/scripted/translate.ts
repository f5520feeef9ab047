import {
  isTerminal,
  ResponseWriter,
  type TranslationContext,
} from '@turnstream/core/internal/formats/translation'
import { outputItemIds } from '@turnstream/core/internal/protocol/item-ids'
import type {
  ErrorObject,
  StreamEvent,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'

/** Replays a recorded turn with the ids of the current run. A missing end is reported as such. */
export function replayRecording(context: TranslationContext) {
  const writer = new ResponseWriter(context)
  const items = new Map<string, string>()
  const { nextItemId = outputItemIds(context.runId) } = context
  let isOver = false

  function itemId(recorded: string): string {
    const id = items.get(recorded) ?? nextItemId()
    items.set(recorded, id)
    return id
  }

  return {
    replay({ payload }: StreamEvent): readonly StreamEventPayload[] {
      if (isOver) return []
      if (payload.type === 'response_start') {
        writer.start(payload.model_id)
        return writer.drain()
      }
      isOver = isTerminal(payload)
      return [replaceIds(payload, context, itemId)]
    },
    end(fault?: ErrorObject): readonly StreamEventPayload[] {
      if (isOver) return []
      isOver = true
      writer.endInput(fault)
      return writer.drain()
    },
  }
}

function replaceIds(
  payload: StreamEventPayload,
  { runId, turnId }: TranslationContext,
  itemId: (recorded: string) => string,
): StreamEventPayload {
  if (payload.type === 'item_done') {
    const id = itemId(payload.item_id)
    return { ...payload, item_id: id, final_item: { ...payload.final_item, id } }
  }
  if ('item_id' in payload) return { ...payload, item_id: itemId(payload.item_id) }
  if ('response_id' in payload) return { ...payload, response_id: runId }
  return payload.type === 'turn_aborted_by_user' ? { ...payload, turn_id: turnId } : payload
}
