/** The wire format of OpenAI's Responses API. */

import { isRecord } from '../../protocol/json.ts'
import type { Usage } from '../../protocol/stream-event.ts'
import { asFields, asList, asString, nameSet } from '../fields.ts'

export type ResponsesItemStatus = 'in_progress' | 'completed' | 'incomplete'

export type ResponsesPart =
  | { type: 'output_text'; text: string; annotations: unknown[]; logprobs: [] }
  | { type: 'refusal'; refusal: string }

export interface ResponsesMessage {
  id: string
  type: 'message'
  status: ResponsesItemStatus
  role: 'assistant'
  content: ResponsesPart[]
  phase?: string
}

export interface ResponsesReasoningText {
  type: 'reasoning_text'
  text: string
}

export interface ResponsesSummaryText {
  type: 'summary_text'
  text: string
}

export interface ResponsesReasoning {
  id: string
  type: 'reasoning'
  summary: ResponsesSummaryText[]
  content?: ResponsesReasoningText[]
  encrypted_content?: string | null
  status: ResponsesItemStatus
}

export interface ResponsesFunctionCall {
  id: string
  type: 'function_call'
  status: ResponsesItemStatus
  call_id: string
  name: string
  arguments: string
  namespace?: string
}

export interface ResponsesCustomCall {
  id: string
  type: 'custom_tool_call'
  call_id: string
  name: string
  input: string
  namespace?: string
}

export type ResponsesItem =
  | ResponsesMessage
  | ResponsesReasoning
  | ResponsesFunctionCall
  | ResponsesCustomCall

export type ResponsesStatus =
  | 'queued'
  | 'in_progress'
  | 'completed'
  | 'incomplete'
  | 'failed'
  | 'cancelled'

export interface ResponsesUsage {
  input_tokens: number
  input_tokens_details: { cached_tokens: number; cache_write_tokens: number }
  output_tokens: number
  output_tokens_details: { reasoning_tokens: number }
  total_tokens: number
}

export interface ResponsesError {
  code: string
  message: string
}

/** Every member is always present: strict clients refuse a response without one. */
export interface ResponsesObject extends ResponsesParameters {
  id: string
  object: 'response'
  /** Seconds since the epoch. */
  created_at: number
  completed_at: number | null
  status: ResponsesStatus
  error: ResponsesError | null
  incomplete_details: { reason: string } | null
  output: ResponsesItem[]
  usage: ResponsesUsage | null
}

/** Parameters of the request, repeated in the response. */
export type ResponsesParameters = ReturnType<typeof defaultParameters>

function defaultParameters(model: string) {
  return {
    background: false,
    frequency_penalty: 0,
    instructions: null as unknown,
    max_output_tokens: null as number | null,
    max_tool_calls: null as number | null,
    metadata: {} as Record<string, unknown>,
    model,
    parallel_tool_calls: true,
    presence_penalty: 0,
    previous_response_id: null as string | null,
    prompt_cache_key: null as string | null,
    reasoning: null as { effort: string | null; summary: string | null } | null,
    safety_identifier: null as string | null,
    service_tier: 'default',
    store: true,
    temperature: 1,
    text: { format: { type: 'text' } } as Record<string, unknown>,
    tool_choice: 'auto' as unknown,
    tools: [] as unknown[],
    top_logprobs: 0,
    top_p: 1,
    truncation: 'disabled',
  }
}

/** The parameters of the request, with the vendor's defaults for those that it left out. */
export function responsesParameters(
  given: Record<string, unknown> | undefined,
  model: string,
): ResponsesParameters {
  const defaults = defaultParameters(model)
  const names = Object.keys(defaults)
  const known = Object.entries(given ?? {}).filter(
    ([name, value]) => names.includes(name) && value !== null && value !== undefined,
  )
  const parameters: ResponsesParameters = { ...defaults, ...Object.fromEntries(known) }
  const { reasoning, text, tools } = parameters
  return {
    ...parameters,
    reasoning: reasoning && { ...NO_REASONING, ...reasoning },
    text: { ...defaults.text, ...text },
    tools: tools.map(wholeTool),
  }
}

const NO_REASONING = { effort: null, summary: null }

/** Strict clients refuse a function without one of these. */
function wholeTool(tool: unknown): unknown {
  if (!isRecord(tool) || tool['type'] !== 'function') return tool
  return { description: null, parameters: null, strict: null, ...tool }
}

/** The name of reasoning text events: OpenAI's, and the one in Open Responses. */
export type ResponsesReasoningName = 'response.reasoning_text' | 'response.reasoning'

export interface ResponsesItemPlace {
  item_id: string
  output_index: number
}

export type ResponsesEvent = ResponsesUnnumberedEvent & { sequence_number: number }

/** An event without its place in the stream. */
export type ResponsesUnnumberedEvent =
  | {
      type: `response.${'created' | 'in_progress' | 'completed' | 'incomplete' | 'failed'}`
      response: ResponsesObject
    }
  | {
      type: 'response.output_item.added' | 'response.output_item.done'
      output_index: number
      item: ResponsesItem
    }
  | (ResponsesItemPlace & { content_index: 0 } & (
        | {
            type: 'response.content_part.added' | 'response.content_part.done'
            part: ResponsesPart | ResponsesReasoningText
          }
        | { type: 'response.output_text.delta'; delta: string; logprobs: [] }
        | { type: 'response.output_text.done'; text: string; logprobs: [] }
        | { type: 'response.refusal.delta'; delta: string }
        | { type: 'response.refusal.done'; refusal: string }
        | { type: `${ResponsesReasoningName}.delta`; delta: string }
        | { type: `${ResponsesReasoningName}.done`; text: string }
      ))
  | (ResponsesItemPlace & { summary_index: 0 } & (
        | {
            type: 'response.reasoning_summary_part.added' | 'response.reasoning_summary_part.done'
            part: ResponsesSummaryText
          }
        | { type: 'response.reasoning_summary_text.delta'; delta: string }
        | { type: 'response.reasoning_summary_text.done'; text: string }
      ))
  | (ResponsesItemPlace &
      (
        | { type: 'response.function_call_arguments.delta'; delta: string }
        | { type: 'response.function_call_arguments.done'; name: string; arguments: string }
        | { type: 'response.custom_tool_call_input.delta'; delta: string }
        | { type: 'response.custom_tool_call_input.done'; input: string }
      ))
  | { type: 'error'; error: { type: string; code: string; message: string; param: null } }

export function responsesUsage(usage: Usage): ResponsesUsage {
  const { cached_tokens = 0, cache_write_tokens = 0, reasoning_tokens = 0 } = usage
  return {
    input_tokens: usage.prompt_tokens,
    input_tokens_details: { cached_tokens, cache_write_tokens },
    output_tokens: usage.completion_tokens,
    output_tokens_details: { reasoning_tokens },
    total_tokens: usage.total_tokens,
  }
}

const ANNOTATIONS = nameSet('container_file_citation file_citation file_path url_citation')

type Metadata = Record<string, unknown> | undefined

export function annotationsOf(metadata: Metadata): unknown[] {
  const { annotations } = asFields(metadata?.['openai'])
  return asList(annotations).filter((each) => isRecord(each) && ANNOTATIONS.has(each['type']))
}

/** Whether OpenAI's model comments or answers: clients must send it back. */
export function phaseOf(metadata: Metadata): { phase?: string } {
  const { phase } = asFields(metadata?.['openai'])
  return typeof phase === 'string' ? { phase } : {}
}

export const ENCRYPTED_CONTENT = 'reasoning.encrypted_content'

/** The reasoning that only OpenAI can read, byte for byte. */
export function encryptedContentOf(metadata: Metadata): string | null {
  return asString(asFields(metadata?.['openai'])['encrypted_content']) ?? null
}

/** OpenAI's own parts of a summary, which belong to its encrypted reasoning, or one part with the text. */
export function summaryOf(metadata: Metadata, text: string): ResponsesSummaryText[] {
  const parts = asList(asFields(metadata?.['openai'])['summary']).filter(isSummaryText)
  const isSame = parts.map((part) => part.text).join('\n\n') === text
  return isSame && parts.length > 1 ? parts : [{ type: 'summary_text', text }]
}

function isSummaryText(part: unknown): part is ResponsesSummaryText {
  return isRecord(part) && part['type'] === 'summary_text' && typeof part['text'] === 'string'
}
