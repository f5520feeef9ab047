import type { OutputItem } from '../protocol/output-item.ts'
import type { StreamEvent, StreamEventPayload } from '../protocol/stream-event.ts'
import type { TurnInput } from './turn-request.ts'

/** What was asked, as items of the turn. */
export function inputItems(runId: string, input: readonly TurnInput[]): OutputItem[] {
  let messages = 0
  return input.map((each, index) => {
    if (each.type === 'function_call_output') {
      const { call_id, output, success } = each
      return { type: each.type, id: inputOutputId(runId, index + 1), call_id, output, success }
    }
    messages += 1
    const id = messages === 1 ? `${runId}-user-prompt` : `${runId}-user-prompt-${messages}`
    return { type: each.type, id, content: each.content, origin: each.origin }
  })
}

/** The events of items that came whole. */
export function* inputEvents(items: readonly OutputItem[]): Generator<StreamEventPayload> {
  for (const item of items) {
    if (item.type === 'message') {
      const { id: item_id, type: item_type, origin } = item
      yield { type: 'item_start', item_id, item_type, origin }
    } else if (item.type === 'function_call_output') {
      const { id: item_id, type: item_type, call_id } = item
      yield { type: 'item_start', item_id, item_type, call_id }
    }
    yield { type: 'item_done', item_id: item.id, final_item: item }
  }
}

/**
 * Whether an event is for the StreamProcessor. What the client's tools answered belongs to a call of an
 * earlier turn, which shows nothing here; a vendor that gives the same id again would have it taken for
 * the answer to its new call.
 */
export function isForProcessor({ run_id, payload }: StreamEvent): boolean {
  if (payload.type !== 'item_start' && payload.type !== 'item_done') return true
  return !payload.item_id.startsWith(inputOutputId(run_id, ''))
}

function inputOutputId(runId: string, place: number | string): string {
  return `${runId}-input-${place}`
}
