import type { ProviderRequest } from '../adapters/provider.ts'
import { inputItemId, isInputItem } from '../protocol/item-marks.ts'
import type { Attachment, OutputItem } from '../protocol/output-item.ts'
import type { StreamEvent, StreamEventPayload, TraceContext } from '../protocol/stream-event.ts'

/** What a turn is asked with: what the user says, or what the tools of the client answered. */
export type TurnInput =
  | {
      readonly type: 'message'
      readonly origin: 'user' | 'system'
      readonly content: string
      /** Pictures, which are sent after the text. */
      readonly attachments?: readonly Attachment[]
    }
  | {
      readonly type: 'function_call_output'
      readonly call_id: string
      readonly output: string
      readonly success: boolean
    }

/** What was said before, where it is the client that keeps the thread: also by the agent, also its calls. */
export type HistoryItem =
  | TurnInput
  | { readonly type: 'message'; readonly origin: 'agent'; readonly content: string }
  | {
      readonly type: 'function_call'
      readonly call_id: string
      readonly name: string
      readonly arguments: string
    }

/** Everything of a provider's request that a client may choose; the input and the model are told apart. */
export type TurnSettings = Omit<ProviderRequest, 'model' | 'input'>

export interface Submission {
  /** The caller's ids; what is missing is made here. */
  readonly turnId?: string
  readonly runId?: string
  readonly threadId?: string
  readonly model?: string
  readonly providerId?: string
  /** The agent that answers: `agent_id` of `response_start`. */
  readonly agentId?: string
  /** Comes before the input. None of its calls is run. */
  readonly history?: readonly HistoryItem[]
  readonly input: readonly TurnInput[]
  readonly settings?: TurnSettings
  readonly traceContext?: TraceContext
}

export interface Submitted {
  readonly turnId: string
  readonly runId: string
  readonly threadId: string
}

/** What was asked, as items of the turn: what was said before, and then what is new. */
export function inputItems(
  runId: string,
  history: readonly HistoryItem[],
  input: readonly TurnInput[],
): OutputItem[] {
  const before = history.map((each, index) => itemOf(inputItemId(runId, index + 1), each))
  let messages = 0
  const asked = input.map((each, index) => {
    if (each.type === 'function_call_output') {
      return itemOf(inputItemId(runId, history.length + index + 1), each)
    }
    messages += 1
    return itemOf(
      messages === 1 ? `${runId}-user-prompt` : `${runId}-user-prompt-${messages}`,
      each,
    )
  })
  return [...before, ...asked]
}

function itemOf(id: string, item: HistoryItem): OutputItem {
  switch (item.type) {
    case 'function_call_output': {
      const { type, call_id, output, success } = item
      return { type, id, call_id, output, success }
    }
    case 'function_call': {
      const { type, call_id, name, arguments: text } = item
      return { type, id, name, arguments: text, call_id }
    }
    case 'message': {
      const { type, content, origin } = item
      const attachments = 'attachments' in item ? [...(item.attachments ?? [])] : []
      return { type, id, content, origin, ...(attachments.length > 0 && { attachments }) }
    }
  }
}

/** The events of items that came whole. */
export function* inputEvents(items: readonly OutputItem[]): Generator<StreamEventPayload> {
  for (const item of items) {
    if (item.type === 'message') {
      const { id: item_id, type: item_type, origin } = item
      yield { type: 'item_start', item_id, item_type, origin }
    } else if (item.type === 'function_call') {
      const { id: item_id, type: item_type, name, call_id } = item
      yield { type: 'item_start', item_id, item_type, name, call_id }
    } else if (item.type === 'function_call_output') {
      const { id: item_id, type: item_type, call_id } = item
      yield { type: 'item_start', item_id, item_type, call_id }
    }
    yield { type: 'item_done', item_id: item.id, final_item: item }
  }
}

/**
 * Whether an event is for the StreamProcessor. What was said before this turn is not shown in it; and what the
 * client's tools answered belongs to a call that shows nothing here: a vendor that gives the same id again
 * would have it taken for the answer to its new call.
 */
export function isForProcessor({ run_id, payload }: StreamEvent): boolean {
  if (payload.type !== 'item_start' && payload.type !== 'item_done') return true
  return !isInputItem(run_id, payload.item_id)
}
