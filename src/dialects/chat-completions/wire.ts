/** The shapes that a client of the Chat Completions API reads, and how the end of a turn reads in them. */

import { ERROR_CODES, type ErrorCode } from '../../protocol/errors.ts'
import { parseJsonSafe } from '../../protocol/json.ts'
import type { ErrorObject, Usage } from '../../protocol/stream-event.ts'

/** The data of the last frame of a stream. */
export const DONE = '[DONE]'

export const CHUNK_OBJECT = 'chat.completion.chunk'
export const COMPLETION_OBJECT = 'chat.completion'

export type ChatFinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter'

export interface ChatUsage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details?: { cached_tokens: number }
  completion_tokens_details?: { reasoning_tokens: number }
}

/** A call opens with its id, type and name; what follows are pieces of its arguments. */
export type ChatToolCallDelta =
  | (ChatToolCall & { index: number })
  | { index: number; function: { arguments: string } }

/** The fields of a delta that hold text. `reasoning_content` is an extension that many clients read. */
export type ChatTextField = 'content' | 'reasoning_content' | 'refusal'

export type ChatDelta =
  | { role: 'assistant'; content: '' }
  | { [Field in ChatTextField]?: string }
  | { tool_calls: [ChatToolCallDelta] }

export interface ChatChunkChoice {
  index: 0
  delta: ChatDelta
  logprobs: null
  finish_reason: ChatFinishReason | null
}

/** What every chunk of a stream has in common. */
export interface ChatChunkHead {
  id: string
  object: typeof CHUNK_OBJECT
  created: number
  model: string
}

/** `usage` is there only when it was asked for: null, except in the one chunk that has no choices. */
export interface ChatChunk extends ChatChunkHead {
  choices: [] | [ChatChunkChoice]
  usage?: ChatUsage | null
}

/** In place of a completion, and in a stream in place of the chunks that would have followed. */
export interface ChatError {
  error: { message: string; type: string; param: null; code: string }
}

export type ChatFrame = ChatChunk | ChatError

export interface ChatToolCall {
  id: string
  type: 'function'
  function: { name: string; arguments: string }
}

export interface ChatMessage {
  role: 'assistant'
  content: string | null
  refusal: string | null
  reasoning_content?: string
  tool_calls?: ChatToolCall[]
}

export interface ChatCompletion extends Omit<ChatChunkHead, 'object'> {
  object: typeof COMPLETION_OBJECT
  choices: [{ index: 0; message: ChatMessage; logprobs: null; finish_reason: ChatFinishReason }]
  usage?: ChatUsage
}

/** What the client was given, as far as it decides how the answer is said to have ended. */
interface Given {
  /** The arguments of each call. */
  calls: readonly string[]
  refusal: boolean
}

/**
 * The finish reason follows from what was given, not from what the provider says: with a call it is
 * `tool_calls`, or clients would not run it, unless the answer was cut off inside the arguments.
 */
export function chatFinishReason(
  reason: string | null | undefined,
  given: Given,
): ChatFinishReason {
  const ending = withoutCalls(reason, given.refusal)
  if (given.calls.length === 0) return ending
  return ending === 'stop' || given.calls.every(isJson) ? 'tool_calls' : ending
}

function withoutCalls(reason: string | null | undefined, refusal: boolean): ChatFinishReason {
  switch (reason) {
    case 'length':
    case 'content_filter':
      return reason
    case 'refusal':
      // A refusal in words ends with `stop`, as OpenAI's do. Without words the client must not take
      // for an answer what is none.
      return refusal ? 'stop' : 'content_filter'
    default:
      return 'stop'
  }
}

function isJson(text: string): boolean {
  return parseJsonSafe(text) !== text
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

export function chatError({ code, message }: ErrorObject): ChatError {
  return { error: { message, type: errorType(code), param: null, code } }
}

/** A turn that was stopped is no answer: a client that kept it would keep half of one. */
export function abortError(reason = ''): ErrorObject {
  const why = reason === '' ? '' : `: ${reason}`
  return { code: 'ABORTED' satisfies ErrorCode, message: `The turn was stopped${why}` }
}

export function codedError(code: ErrorCode, detail: string): ErrorObject {
  return { code, message: `${ERROR_CODES[code].summary}: ${detail}` }
}

const TYPES_BY_STATUS: Record<string, string> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
}

/** Whose fault it was, where the code tells how the provider answered, as `HTTP_429` does. */
function errorType(code: string): string {
  const status = /^HTTP_(4\d\d)$/.exec(code)?.[1]
  if (status === undefined) return 'server_error'
  return TYPES_BY_STATUS[status] ?? 'invalid_request_error'
}
