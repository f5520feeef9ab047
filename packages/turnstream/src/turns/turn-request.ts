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

/** What is stored of an item from a caller, in this order. */
const FIELDS: Record<HistoryItem['type'], readonly string[]> = {
  message: ['content', 'origin', 'name', 'attachments', 'provider_metadata'],
  reasoning: ['content', 'provider_metadata'],
  function_call: ['name', 'arguments', 'call_id', 'provider_metadata'],
  function_call_output: ['call_id', 'output', 'success', 'provider_metadata'],
}

function itemOf(id: string, item: HistoryItem): OutputItem {
  const given = new Map<string, unknown>(Object.entries(item))
  const fields = FIELDS[item.type]
    .map((name) => [name, given.get(name)] as const)
    .filter(([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0))
  return { type: item.type, id, ...Object.fromEntries(fields) } as OutputItem
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
