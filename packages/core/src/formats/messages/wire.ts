/** The wire format of Anthropic's Messages API. */

import type { Usage } from '../../protocol/stream-event.ts'

export type MessagesBlock =
  | { type: 'text'; text: string }
  | { type: 'thinking'; thinking: string; signature: string }
  | { type: 'redacted_thinking'; data: string }
  | { type: 'tool_use'; id: string; name: string; input: Record<string, unknown> }

export type MessagesDelta =
  | { type: 'text_delta'; text: string }
  | { type: 'thinking_delta'; thinking: string }
  | { type: 'signature_delta'; signature: string }
  | { type: 'input_json_delta'; partial_json: string }

export type MessagesStopReason =
  | 'end_turn'
  | 'max_tokens'
  | 'pause_turn'
  | 'refusal'
  | 'stop_sequence'
  | 'tool_use'

export interface MessagesUsage {
  input_tokens: number
  output_tokens: number
  cache_creation_input_tokens: number
  cache_read_input_tokens: number
}

export interface MessagesObject {
  id: string
  type: 'message'
  role: 'assistant'
  model: string
  content: MessagesBlock[]
  stop_reason: MessagesStopReason | null
  stop_sequence: string | null
  usage: MessagesUsage
}

export interface MessagesError {
  type: 'error'
  error: { type: string; message: string; details?: object }
  /** Of an HTTP response. A stream has none: it is the same in every process. */
  request_id: string | null
}

export type MessagesEvent =
  | { type: 'message_start'; message: MessagesObject }
  | { type: 'content_block_start'; index: number; content_block: MessagesBlock }
  | { type: 'content_block_delta'; index: number; delta: MessagesDelta }
  | { type: 'content_block_stop'; index: number }
  | {
      type: 'message_delta'
      delta: { stop_reason: MessagesStopReason; stop_sequence: string | null }
      usage: MessagesUsage
    }
  | { type: 'message_stop' }
  | MessagesError

/** The API counts cache reads and writes separately from the input. */
export function messagesUsage(usage: Usage): MessagesUsage {
  const { cached_tokens: read = 0, cache_write_tokens: written = 0 } = usage
  return {
    input_tokens: Math.max(0, usage.prompt_tokens - read - written),
    output_tokens: usage.completion_tokens,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
  }
}
