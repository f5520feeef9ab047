import type { ProviderRequest } from '@turnstream/core/internal/formats/provider-request'
import { inputItemId, promptItemId } from '@turnstream/core/internal/protocol/item-ids'
import type { Attachment, OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type {
  AnsweredCall,
  StreamEventPayload,
  TraceContext,
} from '@turnstream/core/internal/protocol/stream-event'
import type { SettingSources } from './fitted-submission.ts'

/** New input of a turn: the user's message, or results of the client's tools. */
export type TurnInput =
  | {
      readonly type: 'message'
      readonly origin: 'user' | 'system'
      readonly content: string
      /** Of the author, for providers that know names. */
      readonly name?: string
      /** Images and files, sent after the text. */
      readonly attachments?: readonly Attachment[]
    }
  | {
      readonly type: 'function_call_output'
      readonly call_id: string
      readonly output: string
      readonly success: boolean
    }

/**
 * Earlier messages, reasoning, calls and outputs, for clients that keep the thread themselves. Items of the agent may
 * have the metadata that their vendor wants back.
 */
export type HistoryItem =
  | TurnInput
  | {
      readonly type: 'message'
      readonly origin: 'agent'
      readonly content: string
      readonly name?: string
      readonly provider_metadata?: Record<string, unknown>
    }
  | {
      readonly type: 'reasoning'
      readonly content: string
      readonly provider_metadata?: Record<string, unknown>
    }
  | {
      readonly type: 'function_call'
      readonly call_id: string
      readonly name: string
      readonly arguments: string
      readonly provider_metadata?: Record<string, unknown>
    }
  | {
      readonly type: 'function_call_output'
      readonly call_id: string
      readonly output: string
      readonly success: boolean
      readonly provider_metadata?: Record<string, unknown>
    }

/** What a client may choose of a provider request, apart from input and model. */
export type SubmissionSettings = Omit<ProviderRequest, 'model' | 'input'>

export interface Submission {
  /** Ids chosen by the caller; missing ones are generated. */
  readonly turnId?: string
  readonly runId?: string
  readonly threadId?: string
  readonly model?: string
  readonly providerId?: string
  /** The agent that answers: `agent_id` of `response_start`. */
  readonly agentId?: string
  /** A turn of the thread. It and all later ones leave the thread's history. */
  readonly replaces?: string
  /** Precedes the input in place of the stored thread, even if empty. None of its calls is run. */
  readonly history?: readonly HistoryItem[]
  readonly input: readonly TurnInput[]
  readonly settings?: SubmissionSettings
  /** Whether the model is offered the tools of the server. True by default. */
  readonly serverTools?: boolean
  readonly traceContext?: TraceContext
  /** Deletes the content of the turn this long after its end, if before the retention. */
  readonly contentMs?: number
  /**
   * Makes the settings optional: those that the chosen provider does not have are left out, and `Submitted` names the
   * parameters that they came from.
   */
  readonly settingSources?: SettingSources
  /** Parameters that the response repeats in the caller's dialect: `parameters` of `response_start`. */
  readonly parameters?: Record<string, unknown>
}

/** What `response_start` repeats of a submission. */
export type TurnDetails = Pick<Submission, 'agentId' | 'replaces' | 'parameters'>

export interface Submitted {
  readonly turnId: string
  readonly runId: string
  readonly threadId: string
  /** The parameters of optional settings that the provider does not have, if any. */
  readonly ignored?: readonly string[]
}

/** Returns history and new input as items of the turn. */
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
    return itemOf(promptItemId(runId, messages), each)
  })
  return [...before, ...asked]
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

/** Yields the events of complete items. */
export function* inputEvents(
  items: readonly OutputItem[],
  answered: AnsweredCalls,
): Generator<StreamEventPayload> {
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
    const answers = answered.get(item.id)
    yield { type: 'item_done', item_id: item.id, final_item: item, ...(answers && { answers }) }
  }
}
