import { unreachable } from '../../protocol/errors.ts'
import { isRecord, parseJson, parseJsonObject } from '../../protocol/json.ts'
import type { Attachment, OutputItem } from '../../protocol/output-item.ts'
import { asFields, asList, type Fields } from '../fields.ts'
import { type HttpProviderOptions, httpProvider } from '../http-provider.ts'
import { vendorFields } from '../metadata.ts'
import type { ProviderRequest } from '../provider.ts'
import type { ModelClient } from '../response-events.ts'
import {
  type AgentItem,
  type Answer,
  type Item,
  invalidOption,
  joinUrl,
  type RequestOptions,
  stepsOf,
  toolChoiceOf,
  type VendorRequest,
} from '../vendor-request.ts'
import { translateAnthropicMessages } from './translate.ts'
import { NAMESPACE } from './wire.ts'

/** Anthropic's Messages API, or a compatible server. */
export function createAnthropicMessagesProvider(options: HttpProviderOptions = {}): ModelClient {
  return httpProvider(
    'anthropic',
    buildAnthropicMessagesRequest,
    translateAnthropicMessages,
    options,
  )
}

export const BASE_URL = 'https://api.anthropic.com'
export const API_VERSION = '2023-06-01'

/** The API has no default. More than most answers need, within the limit of its models. */
const DEFAULT_MAX_TOKENS = 8192

/** Minimum thinking budget of the API. */
const MIN_THINKING_TOKENS = 1024

/**
 * Thinking budgets in tokens. The highest, plus the default for the answer, stays below 32,000, the output limit of
 * some thinking models.
 */
const EFFORT_BUDGETS = { minimal: 1024, low: 2048, medium: 8192, high: 16_384 } as const

/** `POST /v1/messages`. Throws for options that the API does not support. */
export function buildAnthropicMessagesRequest(
  request: ProviderRequest,
  { baseUrl = BASE_URL, apiKey, headers }: RequestOptions = {},
): VendorRequest {
  const { system, messages } = toHistory(request.input)
  const budget = thinkingBudget(request)
  refuseContradictions(request, budget)
  const { stop = [] } = request
  return {
    url: joinUrl(baseUrl, '/v1/messages'),
    headers: {
      'anthropic-version': API_VERSION,
      ...(apiKey !== undefined && { 'x-api-key': apiKey }),
      ...headers,
    },
    body: {
      model: request.model,
      max_tokens: maxTokens(request, budget),
      ...(system.length > 0 && { system }),
      messages,
      ...tools(request),
      thinking: thinking(request, budget),
      output_config: outputConfig(request),
      temperature: request.temperature,
      top_p: request.topP,
      ...(stop.length > 0 && { stop_sequences: stop }),
      stream: true,
    },
  }
}

/** Undefined without thinking. */
function thinkingBudget({ thinkingBudget, reasoningEffort }: ProviderRequest): number | undefined {
  if (thinkingBudget === undefined) {
    return reasoningEffort === undefined || reasoningEffort === 'none'
      ? undefined
      : EFFORT_BUDGETS[reasoningEffort]
  }
  if (reasoningEffort !== undefined) {
    throw invalidOption('reasoningEffort', 'it conflicts with thinkingBudget; set only one')
  }
  if (!Number.isSafeInteger(thinkingBudget) || thinkingBudget < MIN_THINKING_TOKENS) {
    throw invalidOption('thinkingBudget', `it must be an integer from ${MIN_THINKING_TOKENS}`)
  }
  return thinkingBudget
}

/** The vendor's maximum includes both thinking and answer. */
function maxTokens({ maxOutputTokens }: ProviderRequest, budget: number | undefined): number {
  if (maxOutputTokens === undefined) return DEFAULT_MAX_TOKENS + (budget ?? 0)
  if (budget !== undefined && maxOutputTokens <= budget) {
    throw invalidOption('maxOutputTokens', `it must exceed the thinking budget of ${budget} tokens`)
  }
  return maxOutputTokens
}

/** The API refuses these with a 400 that does not name our parameter. */
function refuseContradictions(
  { temperature, topP, toolChoice }: ProviderRequest,
  budget: number | undefined,
): void {
  if (temperature !== undefined && (temperature < 0 || temperature > 1)) {
    throw invalidOption('temperature', 'it must be from 0 to 1')
  }
  if (budget === undefined) return
  if (temperature !== undefined && temperature !== 1) {
    throw invalidOption('temperature', 'it cannot be combined with thinking')
  }
  if (topP !== undefined && topP < 0.95) {
    throw invalidOption('topP', 'it must be at least 0.95 with thinking')
  }
  if (toolChoice === 'required' || typeof toolChoice === 'object') {
    throw invalidOption('toolChoice', 'a call cannot be forced with thinking')
  }
}

function thinking({ reasoningEffort }: ProviderRequest, budget: number | undefined) {
  if (budget !== undefined) return { type: 'enabled', budget_tokens: budget }
  return reasoningEffort === 'none' ? { type: 'disabled' } : undefined
}

function tools(request: ProviderRequest): Fields {
  const { tools = [], parallelToolCalls } = request
  const choice = toolChoiceOf(request)
  if (tools.length === 0) return {}
  const isSerial = parallelToolCalls === false && choice !== 'none'
  return {
    tools: tools.map(({ name, description, parameters, strict }) => {
      return { name, description, input_schema: { type: 'object', ...parameters }, strict }
    }),
    ...((choice !== undefined || isSerial) && {
      tool_choice: {
        ...choiceFields(choice ?? 'auto'),
        ...(isSerial && { disable_parallel_tool_use: true }),
      },
    }),
  }
}

function choiceFields(choice: NonNullable<ProviderRequest['toolChoice']>): Fields {
  if (typeof choice === 'object') return { type: 'tool', name: choice.name }
  return { type: choice === 'required' ? 'any' : choice }
}

function outputConfig({ responseFormat }: ProviderRequest): Fields | undefined {
  if (responseFormat === undefined || responseFormat.type === 'text') return undefined
  if (responseFormat.type === 'json_object') {
    throw invalidOption('responseFormat', 'JSON output requires a schema')
  }
  return { format: { type: 'json_schema', schema: responseFormat.schema } }
}

interface Message {
  role: 'user' | 'assistant'
  content: Fields[]
}

interface History {
  system: Fields[]
  messages: Message[]
}

/**
 * Converts a thread to messages. Consecutive items of one side form one message. Tool results come first in the next
 * user message, the only place the vendor accepts.
 */
export function toHistory(input: readonly OutputItem[]): History {
  const system: Fields[] = []
  const messages: Message[] = []
  for (const step of stepsOf(input, { namespace: NAMESPACE, responseField: 'message_id' })) {
    switch (step.from) {
      case 'system':
        system.push(...textBlocks(step.text))
        break
      case 'user':
        say(messages, 'user', [...textBlocks(step.text), ...step.attachments.map(attachmentBlock)])
        break
      case 'tools':
        say(messages, 'user', step.answers.map(resultBlock))
        break
      case 'agent':
        say(messages, 'assistant', step.items.flatMap(agentBlocks))
        break
      default:
        unreachable(step)
    }
  }
  return { system, messages }
}

function say(messages: Message[], role: Message['role'], blocks: readonly Fields[]): void {
  const last = messages.at(-1)
  if (last?.role === role) last.content.push(...blocks)
  else if (blocks.length > 0) messages.push({ role, content: [...blocks] })
}

function resultBlock({ call, output, success }: Answer): Fields {
  return {
    type: 'tool_result',
    tool_use_id: toolUseId(call.call_id),
    ...(output !== '' && { content: output }),
    ...(!success && { is_error: true }),
  }
}

function agentBlocks(item: AgentItem): Fields[] {
  switch (item.type) {
    case 'message':
      return messageBlocks(item)
    case 'reasoning':
      return reasoningBlocks(item)
    case 'function_call':
      return [callBlock(item)]
    case 'function_call_output':
      return [executedResultBlock(item)]
    default:
      return unreachable(item)
  }
}

function callBlock(item: Item<'function_call'>): Fields {
  const { call_id, name, arguments: args } = item
  const block = vendorFields(NAMESPACE, item)?.['block']
  const rest = isRecord(block) ? block : { type: 'tool_use' }
  return { ...rest, id: toolUseId(call_id), name, input: inputOf(args) }
}

/** The result of a vendor-run tool, unchanged. */
function executedResultBlock(item: Item<'function_call_output'>): Fields {
  const rest = asFields(vendorFields(NAMESPACE, item)?.['block'])
  return { ...rest, tool_use_id: toolUseId(item.call_id), content: resultContent(item) }
}

function textBlocks(text: string): Fields[] {
  return text === '' ? [] : [{ type: 'text', text }]
}

function attachmentBlock({ type, media_type, data, filename }: Attachment): Fields {
  const source = { type: 'base64', media_type, data }
  if (type === 'image') return { type, source }
  if (media_type !== 'application/pdf') {
    throw invalidOption('input', `Anthropic accepts PDF files only, not ${media_type}`)
  }
  return { type: 'document', source, ...(filename !== undefined && { title: filename }) }
}

/** The vendor's original blocks, unless the text has changed. */
function messageBlocks(item: Item<'message'>): Fields[] {
  const { content } = item
  const { block, blocks } = vendorFields(NAMESPACE, item) ?? {}
  if (isRecord(block)) return [block]
  const cuts = asList(blocks).filter(isCut)
  const length = cuts.reduce((sum, cut) => sum + cut.length, 0)
  if (cuts.length === 0 || length !== content.length) return textBlocks(content)
  let start = 0
  return cuts.flatMap(({ length, citations }) => {
    const text = content.slice(start, (start += length))
    // The vendor refuses empty text, even its own.
    return text === ''
      ? []
      : [{ type: 'text', text, ...(citations !== undefined && { citations }) }]
  })
}

function isCut(value: unknown): value is { length: number; citations?: unknown } {
  return isRecord(value) && Number.isSafeInteger(value['length'])
}

/** The vendor accepts only reasoning that it signed. */
function reasoningBlocks(item: Item<'reasoning'>): Fields[] {
  const { signature, block } = vendorFields(NAMESPACE, item) ?? {}
  if (isRecord(block)) return [block]
  return typeof signature === 'string'
    ? [{ type: 'thinking', thinking: item.content, signature }]
    : []
}

/** The vendor takes only objects, and recommends wrapping other values like this. */
function inputOf(json: string): Fields {
  if (json.trim() === '') return {}
  return parseJsonObject(json) ?? { INVALID_JSON: json }
}

function resultContent({ call_id, output }: Item<'function_call_output'>): unknown {
  const json = parseJson(output)
  if (json.ok) return json.value
  throw invalidOption('input', `the output of ${call_id} was modified`)
}

/** Ids of other vendors may contain characters that this one refuses. */
function toolUseId(callId: string): string {
  return callId.replace(/[^a-zA-Z0-9_-]/g, (char) => `_${char.charCodeAt(0).toString(16)}`)
}
