import type { OutputItem } from './output-item.ts'
import type { ErrorObject, StreamEventPayload, Usage } from './stream-event.ts'

/** The complete result of a turn, reduced from its StreamEvents. */
export interface ReducedResponse
  extends Omit<StreamEventPayload<'response_start'>, 'type' | 'response_id' | 'parameters'> {
  id: string
  updated_at: number
  status: ResponseStatus
  output_items: ResponseItem[]
  usage?: Usage
  finish_reason: string | null
  provider_finish_reason?: string | null
  error: ErrorObject | null
}

/** @deprecated Use `ReducedResponse`. */
export type Response = ReducedResponse

export type ResponseStatus = 'queued' | 'in_progress' | 'complete' | 'error' | 'aborted'

/** An item with its outcome. It keeps its position and content when it fails or is cancelled. */
export type ResponseItem = OutputItem & {
  error?: ErrorObject
  cancelled?: { reason?: string }
  /** Why its text ended early, from `item_done`. */
  finish_reason?: string | null
  /** The call of an earlier turn that this output completes, from `item_done`. */
  answers?: { item_id: string }
}

/** What a model client yields while a response is generated: the default type of ResponseStream. */
export type ResponseEvent =
  | { type: 'Created' }
  | { type: 'OutputItemDone'; item: OutputItem }
  | { type: 'Completed'; responseId: string; tokenUsage?: Usage }
  | { type: 'OutputTextDelta'; delta: string }
  | { type: 'ReasoningSummaryDelta'; delta: string }
  | { type: 'ReasoningContentDelta'; delta: string }
  | { type: 'ReasoningSummaryPartAdded' }
  | { type: 'WebSearchCallBegin'; callId: string }
  | { type: 'RateLimits'; snapshot: Record<string, unknown> }
