import { promptItemId } from '@turnstream/core/internal/protocol/item-ids'
import type { MessageSnapshot } from '@turnstream/core/internal/protocol/stream-output'
import type { TurnView } from './view.ts'

export interface TextPart {
  readonly type: 'text'
  readonly text: string
}

/** An image or a file, as a data URL. */
export type AttachmentPart =
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }
  | {
      readonly type: 'file'
      readonly file: { readonly file_data: string; readonly filename?: string }
    }

export type MessageInput =
  | {
      readonly type: 'message'
      readonly origin: 'user'
      readonly content: string | readonly (TextPart | AttachmentPart)[]
    }
  | {
      readonly type: 'message'
      readonly origin: 'system'
      readonly content: string | readonly TextPart[]
    }

export interface ToolOutputInput {
  readonly type: 'function_call_output'
  readonly call_id: string
  readonly output: string
  readonly success: boolean
}

/** A tool that the client runs: a call to it ends the turn. */
export interface ClientTool {
  readonly name: string
  readonly description?: string
  /** A JSON Schema. */
  readonly parameters: Readonly<Record<string, unknown>>
}

/** What was said before, in place of the stored thread. */
export type HistoryInput =
  | MessageInput
  | ToolOutputInput
  | {
      readonly type: 'message'
      readonly origin: 'agent'
      readonly content: string | readonly TextPart[]
    }
  | {
      readonly type: 'function_call'
      readonly call_id: string
      readonly name: string
      readonly arguments: string
    }

/** How a turn is run. docs/api.md describes each field. */
export interface TurnSettings {
  readonly turnId?: string
  /** `<providerId>/<modelId>`, or a listed model. */
  readonly model?: string
  readonly providerId?: string
  readonly agentId?: string
  readonly tools?: readonly ClientTool[]
  readonly toolChoice?: 'auto' | 'none' | 'required' | { readonly name: string }
  readonly reasoningEffort?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max'
  readonly reasoningSummary?: 'none' | 'auto' | 'concise' | 'detailed'
  readonly thinkingBudget?: number
  readonly maxOutputTokens?: number
  readonly temperature?: number
  readonly topP?: number
  readonly stop?: readonly string[]
  readonly responseFormat?:
    | { readonly type: 'text' | 'json_object' }
    | {
        readonly type: 'json_schema'
        readonly name: string
        readonly schema: Readonly<Record<string, unknown>>
        readonly strict?: boolean
      }
  readonly parallelToolCalls?: boolean
  readonly topK?: number
  readonly seed?: number
  readonly frequencyPenalty?: number
  readonly presencePenalty?: number
  readonly logitBias?: Readonly<Record<string, number>>
  readonly verbosity?: 'low' | 'medium' | 'high'
  readonly serviceTier?: string
  readonly user?: string
  readonly promptCacheKey?: string
  readonly promptCache?: '5m' | '1h'
}

/** The body of a submit. Send either `prompt` or `input`. */
export interface SubmitRequest extends TurnSettings {
  /** One message of the user. */
  readonly prompt?: string
  readonly input?: readonly (MessageInput | ToolOutputInput)[]
  readonly history?: readonly HistoryInput[]
  /** A turn of the thread: it and all later ones are dropped. */
  readonly replaces?: string
  /** Default: a new thread. */
  readonly threadId?: string
}

/** The result of a tool that the client ran. */
export interface ToolAnswer {
  readonly callId: string
  /** Sent as JSON unless it is a string. */
  readonly output: unknown
  /** Default true. */
  readonly success?: boolean
}

export interface ApprovalAnswer {
  readonly approved: boolean
  readonly reason?: string
}

export interface ThreadList {
  readonly threads: readonly {
    readonly threadId: string
    readonly title?: string
    readonly metadata?: Readonly<Record<string, unknown>>
    /** In ms since the epoch. */
    readonly createdAt: number
    readonly updatedAt: number
  }[]
  /** Of the next page; undefined on the last. */
  readonly nextCursor?: string
}

/** The turn as the gateway will send it, with its messages under the ids that they will have. */
export const optimisticTurn = (
  request: SubmitRequest & { readonly turnId: string; readonly threadId: string },
): TurnView => {
  const { turnId, threadId, prompt = '', input } = request
  const messages = input?.filter((each) => each.type === 'message') ?? [
    { type: 'message', origin: 'user', content: prompt } as const,
  ]
  const items = messages.map((message, index): MessageSnapshot => {
    const texts = [message.content]
      .flat()
      .flatMap((part) =>
        typeof part === 'string' ? part : ((part as Partial<TextPart>).text ?? []),
      )
    return {
      ...message,
      turnId,
      threadId,
      itemId: promptItemId(turnId, index + 1),
      status: 'create',
      content: texts.join('\n'),
    }
  })
  return { turnId, threadId, status: 'running', items }
}

export const toInput = ({ callId, output, success = true }: ToolAnswer): ToolOutputInput => ({
  type: 'function_call_output',
  call_id: callId,
  output: typeof output === 'string' ? output : JSON.stringify(output),
  success,
})

/** `randomUUID` is missing on pages without TLS. */
export const newId = (): string => crypto.getRandomValues(new Uint32Array(4)).join('-')
