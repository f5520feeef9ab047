import { isExecutedByProvider, isInputItem, isRefusal } from '../../protocol/item-marks.ts'
import type { ReducedResponse, ResponseItem } from '../../protocol/response.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import type { ChatCompletionsOptions } from './encode.ts'
import {
  abortError,
  type ChatCompletion,
  type ChatError,
  type ChatMessage,
  type ChatToolCall,
  COMPLETION_OBJECT,
  chatError,
  chatFinishReason,
  chatUsage,
  codedError,
} from './wire.ts'

export type ChatCompletionOptions = Omit<ChatCompletionsOptions, 'includeUsage'>

type FunctionCall = Extract<ResponseItem, { type: 'function_call' }>

/** Converts an ended response for a non-streaming client: the completion, or the error. */
export function toChatCompletion(
  response: ReducedResponse,
  options: ChatCompletionOptions,
): ChatCompletion | ChatError {
  const items = response.output_items.filter(
    ({ id, cancelled }) => cancelled === undefined && !isInputItem(response.id, id),
  )
  const calls = shownCalls(items)
  const error = errorOf(response, calls)
  if (error !== undefined) return chatError(error)
  const { id, created, model } = options
  const message = messageOf(items, calls, options)
  const given = {
    calls: calls.map((call) => call.arguments || '{}'),
    refusal: message.refusal !== null,
    isLegacy: options.legacyFunctions === true,
  }
  const finish_reason = chatFinishReason(response.finish_reason, given)
  return {
    id,
    object: COMPLETION_OBJECT,
    created,
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason }],
    ...(response.usage && { usage: chatUsage(response.usage) }),
  }
}

/** Returns the calls without an output, which the client must run. */
function shownCalls(items: readonly ResponseItem[]): FunctionCall[] {
  const answered = new Set<string>()
  for (const item of items) if (item.type === 'function_call_output') answered.add(item.call_id)
  return items
    .filter((item) => item.type === 'function_call')
    .filter((call) => !isExecutedByProvider(call.provider_metadata) && !answered.has(call.call_id))
}

function errorOf(
  response: ReducedResponse,
  calls: readonly FunctionCall[],
): ErrorObject | undefined {
  switch (response.status) {
    case 'complete':
      return calls.find(({ error }) => error !== undefined)?.error
    case 'aborted':
      return abortError()
    case 'error':
      return response.error ?? codedError('STREAM_ERROR', 'the response failed')
    case 'queued':
    case 'in_progress':
      return codedError('STREAM_ERROR', 'the response has not ended')
  }
}

function messageOf(
  items: readonly ResponseItem[],
  calls: readonly FunctionCall[],
  options: ChatCompletionOptions,
): ChatMessage {
  const texts = { content: '', refusal: '', reasoning: '' }
  const last = options.keepTextAfterToolCalls || !calls[0] ? items.length : items.indexOf(calls[0])
  for (const [at, item] of items.entries()) {
    if (item.type !== 'message' && item.type !== 'reasoning') continue
    if ((item.origin ?? 'agent') !== 'agent') continue
    if (item.type === 'reasoning') texts.reasoning += item.content
    else if (at < last)
      texts[isRefusal(item.provider_metadata) ? 'refusal' : 'content'] += item.content
  }
  const { content, refusal, reasoning } = texts
  const hasReasoning = reasoning !== '' && options.reasoning !== 'omit'
  return {
    role: 'assistant',
    content: content === '' && (calls.length > 0 || refusal !== '') ? null : content,
    refusal: refusal === '' ? null : refusal,
    ...(hasReasoning && { reasoning_content: reasoning }),
    ...callFields(calls.map(toolCall), options),
  }
}

/** The older form holds one call. */
function callFields(
  calls: ChatToolCall[],
  { legacyFunctions }: ChatCompletionOptions,
): Pick<ChatMessage, 'tool_calls' | 'function_call'> {
  const [first] = calls
  if (first === undefined) return {}
  return legacyFunctions ? { function_call: first.function } : { tool_calls: calls }
}

function toolCall({ id, call_id, name, arguments: text }: FunctionCall): ChatToolCall {
  return { id: call_id || id, type: 'function', function: { name, arguments: text || '{}' } }
}
