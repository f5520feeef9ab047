import type {
  ProviderRequest,
  ToolDefinition,
} from '@turnstream/core/internal/formats/provider-request'
import { promptItemId } from '@turnstream/core/internal/protocol/item-ids'
import type { FunctionCall } from '@turnstream/core/internal/protocol/output-item'
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

interface MessageOf<Origin, Part> {
  readonly type: 'message'
  readonly origin: Origin
  readonly content: string | readonly Part[]
}

export type MessageInput =
  | MessageOf<'user', TextPart | AttachmentPart>
  | MessageOf<'system', TextPart>

export interface ToolOutputInput {
  readonly type: 'function_call_output'
  readonly call_id: string
  readonly output: string
  readonly success: boolean
}

/** A tool that the client runs: a call to it ends the turn. */
export type ClientTool = Readonly<Omit<ToolDefinition, 'strict'>>

/** What was said before, in place of the stored thread. */
export type HistoryInput =
  | MessageInput
  | ToolOutputInput
  | MessageOf<'agent', TextPart>
  | Readonly<Pick<FunctionCall, 'type' | 'call_id' | 'name' | 'arguments'>>

/** How a turn is run. docs/api.md describes each field. */
export interface TurnSettings
  extends Readonly<Omit<ProviderRequest, 'model' | 'input' | 'tools' | 'thinking'>> {
  readonly turnId?: string
  /** `<providerId>/<modelId>`, or a listed model. */
  readonly model?: string
  readonly providerId?: string
  readonly agentId?: string
  readonly tools?: readonly ClientTool[]
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
