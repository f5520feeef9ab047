import type { ErrorObject, StreamEvent } from '../../protocol/stream-event.ts'
import { type AnswerItem, AnswerReader, abortError, codedError } from '../answer.ts'
import { AnswerItems } from '../answer-items.ts'
import { chatError } from './errors.ts'
import {
  type ChatCompletion,
  type ChatError,
  type ChatMessage,
  COMPLETION_OBJECT,
  chatFinishReason,
  chatUsage,
  toToolCall,
} from './wire.ts'
import type { ChatCompletionsOptions } from './write-chunks.ts'

export type ChatCompletionOptions = Omit<ChatCompletionsOptions, 'includeUsage'>

/** Converts the events of a response for a non-streaming client: the completion, or the error. */
export function toChatCompletion(
  events: Iterable<StreamEvent>,
  options: ChatCompletionOptions,
): ChatCompletion | ChatError {
  const answer = new AnswerItems()
  const reader = new AnswerReader(answer)
  for (const event of events) reader.apply(event)
  const result = chatCompletion(answer, options)
  return 'object' in result ? result : chatError(result)
}

export function chatCompletion(
  { items, ended }: AnswerItems,
  options: ChatCompletionOptions,
): ChatCompletion | ErrorObject {
  if (ended === undefined) return codedError('STREAM_ERROR', 'the response has not ended')
  if (ended.kind === 'failed') return ended.error
  if (ended.kind === 'cancelled') return abortError()
  const { id, created, model } = options
  const calls = items.filter(({ kind }) => kind === 'call')
  const message = messageOf(items, calls, options)
  const given = {
    calls: calls.map(({ text }) => text),
    refusal: message.refusal !== null,
    isLegacy: options.legacyFunctions === true,
  }
  const finish_reason = chatFinishReason(ended.finishReason, given)
  return {
    id,
    object: COMPLETION_OBJECT,
    created,
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason }],
    ...(ended.usage && { usage: chatUsage(ended.usage) }),
  }
}

function messageOf(
  items: readonly AnswerItem[],
  calls: readonly AnswerItem[],
  options: ChatCompletionOptions,
): ChatMessage {
  const texts = { text: '', refusal: '', reasoning: '' }
  const last = options.keepTextAfterToolCalls || !calls[0] ? items.length : items.indexOf(calls[0])
  for (const [at, { kind, text }] of items.entries()) {
    if (kind !== 'call' && (kind === 'reasoning' || at < last)) texts[kind] += text
  }
  const { text: content, refusal, reasoning } = texts
  const hasReasoning = reasoning !== '' && options.reasoning !== 'omit'
  return {
    role: 'assistant',
    content: content === '' && (calls.length > 0 || refusal !== '') ? null : content,
    refusal: refusal === '' ? null : refusal,
    ...(hasReasoning && { reasoning_content: reasoning }),
    ...callFields(calls, options),
  }
}

function callFields(
  calls: readonly AnswerItem[],
  { legacyFunctions, customTools = [] }: ChatCompletionOptions,
): Pick<ChatMessage, 'tool_calls' | 'function_call'> {
  const [first] = calls
  if (first === undefined) return {}
  if (legacyFunctions) return { function_call: { name: first.name, arguments: first.text } }
  const custom = new Set(customTools)
  return { tool_calls: calls.map((call) => toToolCall(call, call.text, custom.has(call.name))) }
}
