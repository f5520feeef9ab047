import { parseJson } from '../../protocol/decode.ts'
import { unreachable } from '../../protocol/errors.ts'
import { isRecord, parseJsonObject } from '../../protocol/json.ts'
import type { Attachment, OutputItem } from '../../protocol/output-item.ts'
import { asFields, asList, type Fields } from '../fields.ts'
import { type HttpProviderOptions, httpProvider } from '../http-provider.ts'
import { vendorFields } from '../metadata.ts'
import type { Provider, ProviderRequest } from '../provider.ts'
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

/** Anthropic's Messages API, or a server that speaks it. */
export function createAnthropicMessagesProvider(options: HttpProviderOptions = {}): Provider {
  return httpProvider(
    'anthropic',
    buildAnthropicMessagesRequest,
    translateAnthropicMessages,
    options,
  )
}

export const BASE_URL = 'https://api.anthropic.com'
export const API_VERSION = '2023-06-01'

/** The API has no default. More than most answers need, and no more than its models can write. */
const DEFAULT_MAX_TOKENS = 8192

/** The least that the API accepts as a budget for thinking. */
const MIN_THINKING_TOKENS = 1024

/**
 * Tokens that a model may think for. The highest, with the default for the answer on top of it, stays
 * below 32,000, which is all that some of the thinking models can write.
 */
const EFFORT_BUDGETS = { minimal: 1024, low: 2048, medium: 8192, high: 16_384 } as const

/** `POST /v1/messages`. Throws when the API cannot do what is requested. */
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

/** Undefined when the model is not asked to think. */
function thinkingBudget({ thinkingBudget, reasoningEffort }: ProviderRequest): number | undefined {
  if (thinkingBudget === undefined) {
    return reasoningEffort === undefined || reasoningEffort === 'none'
      ? undefined
      : EFFORT_BUDGETS[reasoningEffort]
  }
  if (reasoningEffort !== undefined) {
    throw invalidOption('reasoningEffort', 'it sets the budget that thinkingBudget sets, too')
  }
  if (!Number.isSafeInteger(thinkingBudget) || thinkingBudget < MIN_THINKING_TOKENS) {
    throw invalidOption('thinkingBudget', `it must be a whole number from ${MIN_THINKING_TOKENS}`)
  }
  return thinkingBudget
}

/** What the vendor calls its maximum holds the thinking and the answer. */
function maxTokens({ maxOutputTokens }: ProviderRequest, budget: number | undefined): number {
  if (maxOutputTokens === undefined) return DEFAULT_MAX_TOKENS + (budget ?? 0)
  if (budget !== undefined && maxOutputTokens <= budget) {
    throw invalidOption('maxOutputTokens', `it must be more than the ${budget} tokens for thinking`)
  }
  return maxOutputTokens
}

/** The API answers these with a 400 that does not name our parameter. */
function refuseContradictions(
  { temperature, topP, toolChoice }: ProviderRequest,
  budget: number | undefined,
): void {
  if (temperature !== undefined && (temperature < 0 || temperature > 1)) {
    throw invalidOption('temperature', 'it must be from 0 to 1')
  }
  if (budget === undefined) return
  if (temperature !== undefined && temperature !== 1) {
    throw invalidOption('temperature', 'it cannot be changed while the model thinks')
  }
  if (topP !== undefined && topP < 0.95) {
    throw invalidOption('topP', 'it cannot be less than 0.95 while the model thinks')
  }
  if (toolChoice === 'required' || typeof toolChoice === 'object') {
    throw invalidOption('toolChoice', 'no call can be forced while the model thinks')
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
    throw invalidOption('responseFormat', 'JSON needs a schema here')
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
 * A thread as the Messages API wants it. What one side says in a row is one message. The results of calls stand at the head of the user's
 * next one, because the vendor accepts no other place.
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
        say(messages, 'user', [...textBlocks(step.text), ...step.images.map(imageBlock)])
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

/** The result of a tool that the vendor ran, as it came. */
function executedResultBlock(item: Item<'function_call_output'>): Fields {
  const rest = asFields(vendorFields(NAMESPACE, item)?.['block'])
  return { ...rest, tool_use_id: toolUseId(item.call_id), content: resultContent(item) }
}

function textBlocks(text: string): Fields[] {
  return text === '' ? [] : [{ type: 'text', text }]
}

function imageBlock({ media_type, data }: Attachment): Fields {
  return { type: 'image', source: { type: 'base64', media_type, data } }
}

/** As the vendor wrote it, block by block, unless the text is no longer what it was. */
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

/** Only what this vendor signed is of use to it. */
function reasoningBlocks(item: Item<'reasoning'>): Fields[] {
  const { signature, block } = vendorFields(NAMESPACE, item) ?? {}
  if (isRecord(block)) return [block]
  return typeof signature === 'string'
    ? [{ type: 'thinking', thinking: item.content, signature }]
    : []
}

/** The vendor takes objects only, and advises to wrap what is none in this way. */
function inputOf(json: string): Fields {
  if (json.trim() === '') return {}
  return parseJsonObject(json) ?? { INVALID_JSON: json }
}

function resultContent({ call_id, output }: Item<'function_call_output'>): unknown {
  const json = parseJson(output)
  if (json.ok) return json.value
  throw invalidOption('input', `the output of ${call_id} is not as it came`)
}

/** The ids of other vendors may have characters that this one refuses. */
function toolUseId(callId: string): string {
  return callId.replace(/[^a-zA-Z0-9_-]/g, (char) => `_${char.charCodeAt(0).toString(16)}`)
}
