import { isRecord, parseJsonObject } from '../../protocol/json.ts'
import type { Attachment, OutputItem } from '../../protocol/output-item.ts'
import { asList, type Fields, isEmpty } from '../fields.ts'
import { type HttpProviderOptions, httpProvider } from '../http-provider.ts'
import { vendorFields } from '../metadata.ts'
import type { ProviderRequest } from '../provider.ts'
import type { ModelClient } from '../response-events.ts'
import {
  type AgentItem,
  type Answer,
  invalidOption,
  joinUrl,
  type RequestOptions,
  type Step,
  stepsOf,
  toolChoiceOf,
  type VendorRequest,
} from '../vendor-request.ts'
import { translateGemini } from './translate.ts'
import { NAMESPACE } from './wire.ts'

/** Google's Gemini models. */
export function createGeminiProvider(options: HttpProviderOptions = {}): ModelClient {
  return httpProvider('gemini', buildGeminiRequest, translateGemini, options)
}

export const BASE_URL = 'https://generativelanguage.googleapis.com'

/** Thinking budgets in tokens, as in the vendor's own Chat Completions API. */
const EFFORT_BUDGETS = { none: 0, minimal: 1024, low: 1024, medium: 8192, high: 24_576 } as const

/** `POST /v1beta/models/{model}:streamGenerateContent`. Throws for options that the API does not support. */
export function buildGeminiRequest(
  request: ProviderRequest,
  { baseUrl = BASE_URL, apiKey, headers }: RequestOptions = {},
): VendorRequest {
  if (request.parallelToolCalls === false) {
    throw invalidOption('parallelToolCalls', 'Gemini cannot disable parallel calls')
  }
  const { system, contents } = contentsOf(request.input)
  const generationConfig = generationConfigOf(request)
  return {
    url: joinUrl(baseUrl, `/v1beta/${modelPath(request.model)}:streamGenerateContent?alt=sse`),
    headers: { ...(apiKey !== undefined && { 'x-goog-api-key': apiKey }), ...headers },
    body: {
      contents,
      ...(system.length > 0 && { systemInstruction: { parts: system } }),
      ...toolFields(request),
      ...(!isEmpty(generationConfig) && { generationConfig }),
    },
  }
}

/**
 * Tuned models have their own collection, which is part of the name. A name must not lead to another path, even if a
 * proxy decodes it twice.
 */
function modelPath(model: string): string {
  const path = model.includes('/') ? model : `models/${model}`
  const parts = path.split('/')
  if (parts.some((part) => /^\.{0,2}$/.test(part)) || NO_PART_OF_A_NAME.test(model)) {
    throw invalidOption('model', 'it is not a valid model name')
  }
  return parts.map(encodeURIComponent).join('/')
}

const NO_PART_OF_A_NAME = /[\\%?#\p{Cc}\p{Surrogate}]/u

function toolFields(request: ProviderRequest): Fields {
  const { tools = [] } = request
  const choice = toolChoiceOf(request)
  if (tools.length === 0) return {}
  if (tools.some(({ strict }) => strict)) {
    throw invalidOption('tools', 'Gemini does not support strict schemas')
  }
  const functionDeclarations = tools.map(({ name, description, parameters }) => {
    return { name, description, parametersJsonSchema: parameters }
  })
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
    throw invalidOption('reasoningEffort', 'it conflicts with thinkingBudget; set only one')
  }
  return EFFORT_BUDGETS[reasoningEffort]
}

/** Schemas are always strict here, and need no name. */
function formatFields(format: ProviderRequest['responseFormat']): Fields {
  if (format === undefined || format.type === 'text') return {}
  return {
    responseMimeType: 'application/json',
    ...(format.type === 'json_schema' && { responseJsonSchema: format.schema }),
  }
}

interface Contents {
  system: Fields[]
  contents: { role: 'user' | 'model'; parts: Fields[] }[]
}

/** Converts a thread to contents of user and model, each a list of parts. */
function contentsOf(input: readonly OutputItem[]): Contents {
  const steps = stepsOf(input, { namespace: NAMESPACE, responseField: 'responseId' })
  const system = steps.flatMap((step) => (step.from === 'system' ? [{ text: step.text }] : []))
  const contents: Contents['contents'] = []
  for (const step of steps) {
    const parts = partsOf(step)
    if (parts.length === 0) continue
    const role = step.from === 'agent' ? 'model' : 'user'
    const last = contents.at(-1)
    if (last?.role === role) last.parts.push(...parts)
    else contents.push({ role, parts })
  }
  return { system, contents }
}

function partsOf(step: Step): Fields[] {
  switch (step.from) {
    case 'system':
      return []
    case 'user':
      return userParts(step)
    case 'tools':
      return step.answers.map(functionResponse)
    case 'agent':
      return step.items.flatMap(agentParts)
  }
}

function userParts({ text, attachments }: Extract<Step, { text: string }>): Fields[] {
  const parts = attachments.map(inlineData)
  return text === '' && parts.length > 0 ? parts : [{ text }, ...parts]
}

function inlineData({ media_type, data }: Attachment): Fields {
  if (media_type === 'image/gif') throw invalidOption('input', 'Gemini does not accept GIF images')
  return { inlineData: { mimeType: media_type, data } }
}

function agentParts(item: AgentItem): Fields[] {
  const own = vendorFields(NAMESPACE, item)
  const { thoughtSignature, attachments, executableCode, codeExecutionResult } = own ?? {}
  const signed = typeof thoughtSignature === 'string' ? { thoughtSignature } : {}
  switch (item.type) {
    case 'message': {
      const kept = asList(attachments).filter(isRecord)
      return item.content === '' && isEmpty(signed)
        ? kept
        : [{ text: item.content, ...signed }, ...kept]
    }
    // Skips the reasoning of other vendors.
    case 'reasoning':
      return own === undefined ? [] : [{ text: item.content, thought: true, ...signed }]
    case 'function_call':
      if (isRecord(executableCode)) return [{ executableCode, ...signed }]
      return [{ functionCall: functionCall(item, own), ...signed }]
    case 'function_call_output':
      return isRecord(codeExecutionResult) ? [{ codeExecutionResult, ...signed }] : []
  }
}

function functionCall(call: Answer['call'], own: Fields | undefined): Fields {
  return { ...idOf(own), name: call.name, args: argsOf(call.arguments) }
}

/** Only ids from the vendor: it does not know ours. */
function idOf(own: Fields | undefined): Fields {
  return typeof own?.['id'] === 'string' ? { id: own['id'] } : {}
}

/** The vendor takes only objects; other vendors may call tools with plain text. */
function argsOf(json: string): Fields {
  return parseJsonObject(json) ?? (json.trim() === '' ? {} : { input: json })
}

function functionResponse({ call, output, success }: Answer): Fields {
  const response = success ? (parseJsonObject(output) ?? { output }) : { error: output }
  const id = idOf(vendorFields(NAMESPACE, call))
  return { functionResponse: { ...id, name: call.name, response } }
}
