import type { HistoryItem, TurnInput } from '@turnstream/core/internal/formats/submission'
import { inputItemId, promptItemId } from '@turnstream/core/internal/protocol/item-ids'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type {
  AnsweredCall,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'

export interface Submitted {
  readonly turnId: string
  readonly runId: string
  readonly threadId: string
  /** The parameters of optional settings that the provider does not have, if any. */
  readonly ignored?: readonly string[]
}

export function inputItems(
  runId: string,
  history: readonly HistoryItem[],
  input: readonly TurnInput[],
): OutputItem[] {
  const before = history.map((each, index) => itemOf(inputItemId(runId, index + 1), each))
  let messages = 0
  const after = input.map((each, index) => {
    const place = history.length + index + 1
    const isOutput = each.type === 'function_call_output'
    return itemOf(isOutput ? inputItemId(runId, place) : promptItemId(runId, ++messages), each)
  })
  return [...before, ...after]
}

function itemOf(id: string, item: HistoryItem): OutputItem {
  switch (item.type) {
    case 'function_call_output': {
      const { type, call_id, output, success } = item
      return { type, id, call_id, output, success, ...metadataOf(item) }
    }
    case 'function_call': {
      const { type, call_id, name, arguments: text } = item
      return { type, id, name, arguments: text, call_id, ...metadataOf(item) }
    }
    case 'reasoning': {
      const { type, content } = item
      return { type, id, content, ...metadataOf(item) }
    }
    case 'message': {
      const { type, content, origin, name } = item
      const attachments = 'attachments' in item ? [...(item.attachments ?? [])] : []
      const given = {
        ...(name !== undefined && { name }),
        ...(attachments.length > 0 && { attachments }),
      }
      return { type, id, content, origin, ...given, ...metadataOf(item) }
    }
  }
}

function metadataOf(item: HistoryItem): Pick<OutputItem, 'provider_metadata'> {
  const metadata = 'provider_metadata' in item ? item.provider_metadata : undefined
  return metadata === undefined ? {} : { provider_metadata: metadata }
}

/** The calls of earlier turns that a turn's input answers, by the item id of the output. */
export type AnsweredCalls = ReadonlyMap<string, AnsweredCall>

export function* inputEvents(
  items: readonly OutputItem[],
  answered: AnsweredCalls,
): Generator<StreamEventPayload> {
  for (const item of items) {
    const type = 'item_start'
    const { id: item_id } = item
    if (item.type === 'message') {
      yield { type, item_id, item_type: item.type, origin: item.origin }
    } else if (item.type === 'function_call') {
      yield { type, item_id, item_type: item.type, name: item.name, call_id: item.call_id }
    } else if (item.type === 'function_call_output') {
      yield { type, item_id, item_type: item.type, call_id: item.call_id }
    }
    const answers = answered.get(item.id)
    yield { type: 'item_done', item_id, final_item: item, ...(answers && { answers }) }
  }
}
