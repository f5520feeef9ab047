import { TurnstreamError } from '../../protocol/errors.ts'
import type { HttpProviderOptions } from '../http-provider.ts'
import type { ProviderRequest, VendorRequest } from '../provider.ts'
import type { Fields } from './ending.ts'
import { toInput } from './history.ts'

export const BASE_URL = 'https://api.openai.com/v1'

/** Models that do not reason; the API refuses to be asked for their reasoning. */
const WITHOUT_REASONING = /(?:^|\/)(?:chatgpt|gpt-[34])/

export type OpenaiResponsesRequestOptions = Pick<
  HttpProviderOptions,
  'baseUrl' | 'apiKey' | 'headers'
>

/** `POST /responses`. Throws when the request asks for something that the API cannot do. */
export function buildOpenaiResponsesRequest(
  request: ProviderRequest,
  { baseUrl = BASE_URL, apiKey, headers }: OpenaiResponsesRequestOptions = {},
): VendorRequest {
  refuseUnknown(request)
  const { model, maxOutputTokens, temperature, topP, parallelToolCalls } = request
  return {
    url: `${baseUrl.replace(/\/+$/, '')}/responses`,
    headers: {
      ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
      ...headers,
    },
    body: {
      model,
      input: toInput(request.input),
      ...tools(request),
      ...(parallelToolCalls !== undefined && { parallel_tool_calls: parallelToolCalls }),
      ...reasoning(request),
      ...textFormat(request),
      ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
      ...(temperature !== undefined && { temperature }),
      ...(topP !== undefined && { top_p: topP }),
      // The thread is ours to keep, and what we keep goes back whole.
      store: false,
      ...(!WITHOUT_REASONING.test(model) && { include: ['reasoning.encrypted_content'] }),
      stream: true,
    },
  }
}

function refuseUnknown({ stop = [], thinkingBudget }: ProviderRequest): void {
  if (stop.length > 0) throw refusal('stop', 'the Responses API has no stop sequences')
  if (thinkingBudget !== undefined) {
    throw refusal('thinkingBudget', 'the Responses API takes reasoningEffort instead')
  }
}

/** Without `strict: false` the API would hold every schema to rules of its own. */
function tools(request: ProviderRequest): Fields {
  const { tools = [] } = request
  const choice = toolChoice(request)
  if (tools.length === 0) return {}
  return {
    tools: tools.map(({ name, description, parameters, strict = false }) => ({
      type: 'function',
      name,
      ...(description !== undefined && { description }),
      parameters,
      strict,
    })),
    ...(choice !== undefined && { tool_choice: choice }),
  }
}

function toolChoice({ tools = [], toolChoice }: ProviderRequest): unknown {
  if (toolChoice === 'required' && tools.length === 0) {
    throw refusal('toolChoice', 'there are no tools to choose from')
  }
  if (toolChoice === undefined || typeof toolChoice === 'string') return toolChoice
  const { name } = toolChoice
  if (tools.some((tool) => tool.name === name)) return { type: 'function', name }
  throw refusal('toolChoice', `there is no tool ${name}`)
}

/** Who sets an effort wants to see what comes of it: summaries are all that the API shows. */
function reasoning({ reasoningEffort }: ProviderRequest): Fields {
  if (reasoningEffort === undefined) return {}
  if (reasoningEffort === 'none') return { reasoning: { effort: 'none' } }
  return { reasoning: { effort: reasoningEffort, summary: 'auto' } }
}

function textFormat({ responseFormat }: ProviderRequest): Fields {
  if (responseFormat === undefined || responseFormat.type === 'text') return {}
  if (responseFormat.type === 'json_object') return { text: { format: { type: 'json_object' } } }
  const { type, name, schema, strict } = responseFormat
  return { text: { format: { type, name, schema, ...(strict !== undefined && { strict }) } } }
}

function refusal(parameter: string, reason: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', `${parameter}: ${reason}`)
}
