/** The wire format of Anthropic's Messages API. */

import type { ErrorObject, Usage } from '../../protocol/stream-event.ts'

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

/** Anthropic's types for our codes and vendors' codes, also of HTTP errors. All others are an `api_error`. */
const TYPES: Record<string, string> = {
  HTTP_400: 'invalid_request_error',
  HTTP_402: 'billing_error',
  HTTP_404: 'not_found_error',
  HTTP_408: 'timeout_error',
  HTTP_413: 'request_too_large',
  HTTP_415: 'invalid_request_error',
  HTTP_422: 'invalid_request_error',
  HTTP_429: 'rate_limit_error',
  HTTP_503: 'overloaded_error',
  HTTP_504: 'timeout_error',
  HTTP_529: 'overloaded_error',
  MODEL_UNKNOWN: 'not_found_error',
  OPTION_INVALID: 'invalid_request_error',
  TURN_ITEM_LIMIT: 'invalid_request_error',
  TURN_ROUND_LIMIT: 'invalid_request_error',
  TURN_TEXT_LIMIT: 'invalid_request_error',
  TURN_TIME_LIMIT: 'timeout_error',
  UPSTREAM_TIMEOUT: 'timeout_error',
  billing_error: 'billing_error',
  context_length_exceeded: 'invalid_request_error',
  cyber_policy: 'invalid_request_error',
  inference_hook_denied: 'invalid_request_error',
  insufficient_quota: 'billing_error',
  invalid_prompt: 'invalid_request_error',
  invalid_request_error: 'invalid_request_error',
  misalignment_policy_violation: 'invalid_request_error',
  model_not_found: 'not_found_error',
  not_found_error: 'not_found_error',
  overloaded_error: 'overloaded_error',
  rate_limit_error: 'rate_limit_error',
  rate_limit_exceeded: 'rate_limit_error',
  request_too_large: 'request_too_large',
  server_is_overloaded: 'overloaded_error',
  slow_down: 'overloaded_error',
  timeout_error: 'timeout_error',
  usage_not_included: 'billing_error',
}

/** Undefined for an `api_error`. */
export function messagesErrorType(code: string): string | undefined {
  return Object.hasOwn(TYPES, code) ? TYPES[code] : undefined
}

export function messagesError({ code, message }: ErrorObject): MessagesError {
  const type = messagesErrorType(code) ?? 'api_error'
  return { type: 'error', error: { type, message }, request_id: null }
}
