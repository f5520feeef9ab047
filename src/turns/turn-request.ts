import type { ProviderRequest } from '../adapters/provider.ts'
import type { Attachment } from '../protocol/output-item.ts'
import type { TraceContext } from '../protocol/stream-event.ts'

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
