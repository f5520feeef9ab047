import { TurnstreamError } from '../../protocol/errors.ts'
import type { HttpProviderOptions } from '../http-provider.ts'
import type { ProviderRequest, VendorRequest } from '../provider.ts'
import { toHistory } from './history.ts'

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

type Fields = Record<string, unknown>

export type AnthropicRequestOptions = Pick<HttpProviderOptions, 'baseUrl' | 'apiKey' | 'headers'>

/** `POST /v1/messages`. Throws when the request asks for something that the API cannot do. */
export function buildAnthropicMessagesRequest(
  request: ProviderRequest,
  { baseUrl = BASE_URL, apiKey, headers }: AnthropicRequestOptions = {},
): VendorRequest {
  const { system, messages } = toHistory(request.input)
  const budget = thinkingBudget(request)
  refuseContradictions(request, budget)
  const { model, temperature, topP, stop } = request
  return {
    url: `${baseUrl.replace(/\/+$/, '')}/v1/messages`,
    headers: {
      'anthropic-version': API_VERSION,
      ...(apiKey !== undefined && { 'x-api-key': apiKey }),
      ...headers,
    },
    body: {
      model,
      max_tokens: maxTokens(request, budget),
      ...(system.length > 0 && { system }),
      messages,
      ...tools(request),
      ...thinking(request, budget),
      ...outputConfig(request),
      ...(temperature !== undefined && { temperature }),
      ...(topP !== undefined && { top_p: topP }),
      ...(stop !== undefined && stop.length > 0 && { stop_sequences: stop }),
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
    throw refusal('reasoningEffort', 'it sets the budget that thinkingBudget sets, too')
  }
  if (!Number.isSafeInteger(thinkingBudget) || thinkingBudget < MIN_THINKING_TOKENS) {
    throw refusal('thinkingBudget', `it must be a whole number from ${MIN_THINKING_TOKENS}`)
  }
  return thinkingBudget
}

/** What the vendor calls its maximum holds the thinking and the answer. */
function maxTokens({ maxOutputTokens }: ProviderRequest, budget: number | undefined): number {
  if (maxOutputTokens === undefined) return DEFAULT_MAX_TOKENS + (budget ?? 0)
  if (budget !== undefined && maxOutputTokens <= budget) {
    throw refusal('maxOutputTokens', `it must be more than the ${budget} tokens for thinking`)
  }
  return maxOutputTokens
}

/** The API answers these with a 400 that does not name our parameter. */
function refuseContradictions(
  { temperature, topP, toolChoice }: ProviderRequest,
  budget: number | undefined,
): void {
  if (temperature !== undefined && (temperature < 0 || temperature > 1)) {
    throw refusal('temperature', 'it must be from 0 to 1')
  }
  if (budget === undefined) return
  if (temperature !== undefined && temperature !== 1) {
    throw refusal('temperature', 'it cannot be changed while the model thinks')
  }
  if (topP !== undefined && topP < 0.95) {
    throw refusal('topP', 'it cannot be less than 0.95 while the model thinks')
  }
  if (toolChoice === 'required' || typeof toolChoice === 'object') {
    throw refusal('toolChoice', 'no call can be forced while the model thinks')
  }
}

function thinking({ reasoningEffort }: ProviderRequest, budget: number | undefined): Fields {
  if (budget !== undefined) return { thinking: { type: 'enabled', budget_tokens: budget } }
  return reasoningEffort === 'none' ? { thinking: { type: 'disabled' } } : {}
}

function tools(request: ProviderRequest): Fields {
  const { tools = [], toolChoice, parallelToolCalls } = request
  if (tools.length === 0) {
    if (toolChoice === undefined || toolChoice === 'auto' || toolChoice === 'none') return {}
    throw refusal('toolChoice', 'there are no tools to choose from')
  }
  const choice = toolChoiceOf(request)
  const isSerial = parallelToolCalls === false && toolChoice !== 'none'
  return {
    tools: tools.map(({ name, description, parameters, strict }) => ({
      name,
      ...(description !== undefined && { description }),
      input_schema: { type: 'object', ...parameters },
      ...(strict !== undefined && { strict }),
    })),
    ...((choice !== undefined || isSerial) && {
      tool_choice: {
        ...(choice ?? { type: 'auto' }),
        ...(isSerial && { disable_parallel_tool_use: true }),
      },
    }),
  }
}

function toolChoiceOf({ tools = [], toolChoice }: ProviderRequest): Fields | undefined {
  if (toolChoice === undefined) return undefined
  if (toolChoice === 'required') return { type: 'any' }
  if (typeof toolChoice === 'string') return { type: toolChoice }
  const { name } = toolChoice
  if (tools.some((tool) => tool.name === name)) return { type: 'tool', name }
  throw refusal('toolChoice', `there is no tool ${name}`)
}

function outputConfig({ responseFormat }: ProviderRequest): Fields {
  if (responseFormat === undefined || responseFormat.type === 'text') return {}
  if (responseFormat.type === 'json_object') {
    throw refusal('responseFormat', 'JSON needs a schema here')
  }
  const { schema } = responseFormat
  return { output_config: { format: { type: 'json_schema', schema } } }
}

function refusal(parameter: string, reason: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', `${parameter}: ${reason}`)
}
