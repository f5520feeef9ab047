import type { Attachment } from '../protocol/output-item.ts'
import type { TraceContext } from '../protocol/stream-event.ts'
import type { ProviderRequest, SettingName } from './provider-request.ts'

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

/** Earlier items of a thread that the client keeps. Those of the agent may have data for their vendor. */
export type HistoryItem =
  | TurnInput
  | ({ readonly provider_metadata?: Record<string, unknown> } & (
      | {
          readonly type: 'message'
          readonly origin: 'agent'
          readonly content: string
          readonly name?: string
        }
      | { readonly type: 'reasoning'; readonly content: string }
      | {
          readonly type: 'function_call'
          readonly call_id: string
          readonly name: string
          readonly arguments: string
        }
      | Extract<TurnInput, { type: 'function_call_output' }>
    ))

/** What a client may choose of a provider request, apart from input and model. */
export type SubmissionSettings = Omit<ProviderRequest, 'model' | 'input'>

/** The parameters of a request that each setting came from. */
export type SettingSources = Partial<Record<SettingName, readonly string[]>>

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
  /** Parameters that the response repeats in the caller's dialect: `parameters` of `response_start`. */
  readonly parameters?: Record<string, unknown>
  readonly traceContext?: TraceContext
  /** Deletes the content of the turn this long after its end, if before the retention. */
  readonly contentMs?: number
  /** Makes the settings optional. `Submitted` names the parameters of those that the provider lacks. */
  readonly settingSources?: SettingSources
}

/** A request of a vendor's API as a turn. */
export interface DecodedRequest {
  readonly submission: Submission
  readonly ignored: readonly string[]
}

/** Splits items into history, up to the last one of the agent, and new input. */
export function splitItems(items: readonly HistoryItem[]): {
  readonly history: HistoryItem[]
  readonly input: TurnInput[]
} {
  const last = items.findLastIndex((item) => !isInput(item))
  return { history: items.slice(0, last + 1), input: items.slice(last + 1).filter(isInput) }
}

function isInput(item: HistoryItem): item is TurnInput {
  return (
    item.type === 'function_call_output' || (item.type === 'message' && item.origin !== 'agent')
  )
}
