import { TurnstreamError } from '../../protocol/errors.ts'
import type { HttpProviderOptions } from '../http-provider.ts'
import type { ProviderRequest, VendorRequest } from '../provider.ts'
import { toolChoiceOf } from '../tool-choice.ts'
import { contentsOf } from './contents.ts'
import type { Fields } from './metadata.ts'

export const BASE_URL = 'https://generativelanguage.googleapis.com'

/** Tokens to think for, as the vendor itself reads these words where it speaks Chat Completions. */
const EFFORT_BUDGETS = { none: 0, minimal: 1024, low: 1024, medium: 8192, high: 24_576 } as const

export type GeminiRequestOptions = Pick<HttpProviderOptions, 'baseUrl' | 'apiKey' | 'headers'>

/** `POST /v1beta/models/{model}:streamGenerateContent`. Throws when the API cannot do what is asked. */
export function buildGeminiRequest(
  request: ProviderRequest,
  { baseUrl = BASE_URL, apiKey, headers }: GeminiRequestOptions = {},
): VendorRequest {
  if (request.parallelToolCalls === false) {
    throw refusal('parallelToolCalls', 'Gemini cannot be kept from making several calls at once')
  }
  const { system, contents } = contentsOf(request.input)
  const generationConfig = generationConfigOf(request)
  return {
    url: `${baseUrl.replace(/\/+$/, '')}/v1beta/${modelPath(request.model)}:streamGenerateContent?alt=sse`,
    headers: { ...(apiKey !== undefined && { 'x-goog-api-key': apiKey }), ...headers },
    body: {
      contents,
      ...(system.length > 0 && { systemInstruction: { parts: system } }),
      ...toolFields(request),
      ...(Object.keys(generationConfig).length > 0 && { generationConfig }),
    },
  }
}

/**
 * Models of one's own have a collection of their own, which is part of the name. A name is no way to another
 * place, also for a proxy that reads it once more than it should.
 */
function modelPath(model: string): string {
  const path = model.includes('/') ? model : `models/${model}`
  const parts = path.split('/')
  if (parts.some((part) => /^\.{0,2}$/.test(part)) || NO_PART_OF_A_NAME.test(model)) {
    throw refusal('model', 'no model has such a name')
  }
  return parts.map(encodeURIComponent).join('/')
}

const NO_PART_OF_A_NAME = /[\\%?#\p{Cc}\p{Surrogate}]/u

function toolFields(request: ProviderRequest): Fields {
  const { tools = [] } = request
  const choice = toolChoiceOf(request)
  if (tools.length === 0) return {}
  if (tools.some(({ strict }) => strict)) {
    throw refusal('tools', 'Gemini holds no call to its schema, so that none can be strict')
  }
  const functionDeclarations = tools.map(({ name, description, parameters }) => ({
    name,
    ...(description !== undefined && { description }),
    parametersJsonSchema: parameters,
  }))
  return {
    tools: [{ functionDeclarations }],
    ...(choice !== undefined && { toolConfig: { functionCallingConfig: callingConfig(choice) } }),
  }
}

function callingConfig(choice: NonNullable<ProviderRequest['toolChoice']>): Fields {
  if (typeof choice === 'object') return { mode: 'ANY', allowedFunctionNames: [choice.name] }
  return { mode: ({ auto: 'AUTO', none: 'NONE', required: 'ANY' } as const)[choice] }
}

function generationConfigOf(request: ProviderRequest): Fields {
  const { maxOutputTokens, temperature, topP, stop } = request
  const budget = thinkingBudgetOf(request)
  return {
    ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(stop !== undefined && stop.length > 0 && { stopSequences: [...stop] }),
    ...(budget !== undefined && {
      thinkingConfig: { thinkingBudget: budget, includeThoughts: budget !== 0 },
    }),
    ...formatFields(request.responseFormat),
  }
}

function thinkingBudgetOf(request: ProviderRequest): number | undefined {
  const { reasoningEffort, thinkingBudget } = request
  if (reasoningEffort === undefined) return thinkingBudget
  if (thinkingBudget !== undefined) {
    throw refusal('reasoningEffort', 'it sets the budget that thinkingBudget sets, too')
  }
  return EFFORT_BUDGETS[reasoningEffort]
}

/** Answers in a schema are always strict here, and their schema needs no name. */
function formatFields(format: ProviderRequest['responseFormat']): Fields {
  if (format === undefined || format.type === 'text') return {}
  return {
    responseMimeType: 'application/json',
    ...(format.type === 'json_schema' && { responseJsonSchema: format.schema }),
  }
}

function refusal(parameter: string, reason: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', `${parameter}: ${reason}`)
}
