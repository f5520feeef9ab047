/** The Chat Completions wire format, and how a turn ends in it. */

import type { Usage } from '../../protocol/stream-event.ts'
import { type AnswerItem, isJson } from '../answer.ts'
import { customInput } from '../custom-tools.ts'

export const CHUNK_OBJECT = 'chat.completion.chunk'
export const COMPLETION_OBJECT = 'chat.completion'

export type ChatFinishReason = 'stop' | 'length' | 'tool_calls' | 'function_call' | 'content_filter'

export interface ChatUsage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details?: { cached_tokens: number }
  completion_tokens_details?: { reasoning_tokens: number }
}

/** A call starts with its id, type and name; fragments of its arguments follow. */
export type ChatToolCallDelta =
  | (ChatToolCall & { index: number })
  | { index: number; function: { arguments: string } }
  | { index: number; custom: { input: string } }

/** Delta fields that hold text. `reasoning_content` is an extension that many clients read. */
export type ChatTextField = 'content' | 'reasoning_content' | 'refusal'

export type ChatDelta =
  | { role: 'assistant'; content: '' }
  | { [Field in ChatTextField]?: string }
  | { tool_calls: [ChatToolCallDelta] }
  | { function_call: { name?: string; arguments: string } }

export interface ChatChunkChoice {
  index: 0
  delta: ChatDelta
  logprobs: null
  finish_reason: ChatFinishReason | null
}

/** Fields of every chunk of a stream. */
export interface ChatChunkHead {
  id: string
  object: typeof CHUNK_OBJECT
  created: number
  model: string
}

/** `usage` is present only on request: null, except in the one chunk without choices. */
export interface ChatChunk extends ChatChunkHead {
  choices: [] | [ChatChunkChoice]
  usage?: ChatUsage | null
}

/** Replaces the completion or, in a stream, the remaining chunks. */
export interface ChatError {
  error: { message: string; type: string; param: null; code: string }
}

export type ChatFrame = ChatChunk | ChatError

export interface ChatFunctionCall {
  id: string
  type: 'function'
  function: { name: string; arguments: string }
}

export interface ChatCustomCall {
  id: string
  type: 'custom'
  custom: { name: string; input: string }
}

export type ChatToolCall = ChatFunctionCall | ChatCustomCall

export interface ChatMessage {
  role: 'assistant'
  content: string | null
  refusal: string | null
  reasoning_content?: string
  tool_calls?: ChatToolCall[]
  /** The only call of an answer to a request with `functions`. */
  function_call?: ChatFunctionCall['function']
}

export interface ChatCompletion extends Omit<ChatChunkHead, 'object'> {
  object: typeof COMPLETION_OBJECT
  choices: [{ index: 0; message: ChatMessage; logprobs: null; finish_reason: ChatFinishReason }]
  usage?: ChatUsage
}

export function toToolCall(
  { callId: id, name }: Pick<AnswerItem, 'callId' | 'name'>,
  args: string,
  isCustom: boolean,
): ChatToolCall {
  return isCustom
    ? { id, type: 'custom', custom: { name, input: customInput(args) } }
    : { id, type: 'function', function: { name, arguments: args } }
}

/** What the client received, as far as it determines the finish reason. */
interface Given {
  calls: readonly string[]
  refusal: boolean
  /** Whether calls are sent as `function_call`. */
  isLegacy: boolean
}

/**
 * The finish reason follows from what was sent, not from the provider's word. With a call it is `tool_calls`,
 * or clients would not run it, unless the arguments were cut off.
 */
export function chatFinishReason(
  reason: string | null | undefined,
  given: Given,
): ChatFinishReason {
  const ending = withoutCalls(reason, given.refusal)
  if (given.calls.length === 0) return ending
  if (ending !== 'stop' && !given.calls.every(isJson)) return ending
  return given.isLegacy ? 'function_call' : 'tool_calls'
}

function withoutCalls(reason: string | null | undefined, refusal: boolean): ChatFinishReason {
  switch (reason) {
    case 'length':
    case 'content_filter':
      return reason
    case 'refusal':
      // A refusal with text ends with `stop`, as at OpenAI. Without text the client must not take it for an
      // answer.
      return refusal ? 'stop' : 'content_filter'
    default:
      return 'stop'
  }
}

export function chatUsage(usage: Usage): ChatUsage {
  const { prompt_tokens, completion_tokens, total_tokens, cached_tokens, reasoning_tokens } = usage
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens,
    ...(cached_tokens !== undefined && { prompt_tokens_details: { cached_tokens } }),
    ...(reasoning_tokens !== undefined && { completion_tokens_details: { reasoning_tokens } }),
  }
}
