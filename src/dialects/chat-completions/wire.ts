/** The shapes that a client of the Chat Completions API reads, spelled as they travel. */

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
  | {
      index: number
      id: string
      type: 'function'
      function: { name: string; arguments: string }
    }
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

export interface ChatCompletion {
  id: string
  object: typeof COMPLETION_OBJECT
  created: number
  model: string
  choices: [{ index: 0; message: ChatMessage; logprobs: null; finish_reason: ChatFinishReason }]
  usage?: ChatUsage
}
