import type { Attachment, OutputItem } from '../../protocol/output-item.ts'
import { asList, type Fields, isEmpty } from '../fields.ts'
import {
  ENCRYPTED_CONTENT_REFUSED,
  THINKING_REFUSED,
  THOUGHT_SIGNATURE_REFUSED,
} from '../issuer.ts'
import { vendorFields } from '../metadata.ts'
import { traitsAfterEffort } from '../model-traits.ts'
import { OPENAI_MODELS } from '../openai-settings.ts'
import type { ProviderRequest } from '../provider-request.ts'
import { type SentCallIds, sentId, shortCallIds } from '../sent-call-ids.ts'
import { writeSettings } from '../settings.ts'
import {
  type AgentItem,
  bearer,
  dataUrl,
  filenameOf,
  type Item,
  joinUrl,
  type Ownership,
  type RequestOptions,
  type Step,
  stepsOf,
  toolChoiceOf,
  type Vendor,
  type VendorOptions,
  type VendorRequest,
} from '../vendor-request.ts'
import type { ReasoningField } from './decode.ts'
import { translateOpenaiChat } from './read.ts'
import { isOpenai, openaiChatSettings } from './settings.ts'

export interface OpenaiChatVendorOptions extends VendorOptions {
  /** Sends `max_tokens`, for servers without `max_completion_tokens`. */
  legacyMaxTokens?: boolean
}

const OPENAI_CHAT_ID = 'openai-chat'
const BASE_URL = 'https://api.openai.com/v1'

export function buildOpenaiChatRequest(
  request: ProviderRequest,
  options: OpenaiChatVendorOptions & Pick<RequestOptions, 'models'>,
): VendorRequest {
  const { id = OPENAI_CHAT_ID, baseUrl = BASE_URL, apiKey, headers } = options
  // Other servers take any length, and some encode data in ids.
  const callIds: SentCallIds = isOpenai(baseUrl) ? shortCallIds(request.input) : new Map()
  return {
    url: joinUrl(baseUrl, '/chat/completions'),
    headers: { ...bearer(apiKey), ...headers },
    ...(callIds.size > 0 && { callIds }),
    body: {
      model: request.model,
      messages: messagesOf(request.input, { id, callIds }),
      stream: true,
      stream_options: { include_usage: true },
      ...toolFields(request),
      ...writeSettings(openaiChatSettings(options), request),
    },
  }
}

export const OPENAI_CHAT: Vendor<OpenaiChatVendorOptions> = {
  id: OPENAI_CHAT_ID,
  ownership: ownershipOf,
  models: OPENAI_MODELS,
  settings: (options, models) => openaiChatSettings({ ...options, models }),
  learn: (request, error) => traitsAfterEffort(request.reasoningEffort, error),
  buildRequest: buildOpenaiChatRequest,
  createTranslation: translateOpenaiChat,
  // Routers pass on the errors of any vendor.
  refusal: new RegExp(
    [ENCRYPTED_CONTENT_REFUSED, THINKING_REFUSED, THOUGHT_SIGNATURE_REFUSED]
      .map(({ source }) => source)
      .join('|'),
    'i',
  ),
}

function ownershipOf(providerId: string): Ownership {
  return { namespace: providerId, responseField: 'completion_id' }
}

function toolFields(request: ProviderRequest): Fields {
  const { tools = [] } = request
  const choice = toolChoiceOf(request)
  if (tools.length === 0) return {}
  return {
    tools: tools.map(({ name, description, parameters, strict }) => {
      return { type: 'function', function: { name, description, parameters, strict } }
    }),
    tool_choice:
      typeof choice === 'object' ? { type: 'function', function: { name: choice.name } } : choice,
  }
}

interface Target {
  id: string
  callIds: SentCallIds
}

function messagesOf(input: readonly OutputItem[], target: Target): Fields[] {
  const steps = stepsOf(input, ownershipOf(target.id))
  return steps.flatMap((step): Fields[] => {
    switch (step.from) {
      case 'user':
      case 'system':
        return [{ role: step.from, content: contentOf(step), name: step.name }]
      case 'tools':
        return step.answers.map(({ call, output }) => ({
          role: 'tool',
          tool_call_id: sentId(target.callIds, call.call_id),
          content: output,
        }))
      case 'agent':
        return assistantMessage(step.items, target)
    }
  })
}

/** Uses parts only for attachments: not every server supports them. */
function contentOf({ text, attachments }: Extract<Step, { text: string }>): unknown {
  if (attachments.length === 0) return text
  const parts = attachments.map(attachmentPart)
  return text === '' ? parts : [{ type: 'text', text }, ...parts]
}

function attachmentPart(attachment: Attachment): Fields {
  const url = dataUrl(attachment)
  if (attachment.type === 'image') return { type: 'image_url', image_url: { url } }
  return { type: 'file', file: { filename: filenameOf(attachment), file_data: url } }
}

/** One message per assistant step, with calls last. None if nothing is left that the server understands. */
function assistantMessage(items: readonly AgentItem[], { id, callIds }: Target): Fields[] {
  const [texts, refusals]: [string[], string[]] = [[], []]
  const calls: Fields[] = []
  let reasoning: { field: ReasoningField; text: string } | undefined
  const details: unknown[] = []
  let name: string | undefined
  let extra: unknown
  for (const item of items) {
    const fields = vendorFields(id, item) ?? {}
    if (item.type === 'message') {
      if (fields['refusal'] === true) refusals.push(item.content)
      else if (item.content !== '') texts.push(item.content)
      name ??= item.name
      extra = fields['extra_content'] ?? extra
    } else if (item.type === 'reasoning') {
      // In the field the server used. Skips the reasoning of other providers.
      const { field, reasoning_details } = fields
      if (field === 'reasoning_content' || field === 'reasoning') {
        reasoning = { field, text: (reasoning?.text ?? '') + item.content }
      }
      details.push(...asList(reasoning_details))
    } else if (item.type === 'function_call') {
      calls.push(toolCall(item, sentId(callIds, item.call_id), fields))
    } // No server of this kind runs tools in sight of its clients.
  }
  const others = {
    ...(refusals.length > 0 && { refusal: refusals.join('\n\n') }),
    ...(reasoning !== undefined && { [reasoning.field]: reasoning.text }),
    ...(details.length > 0 && { reasoning_details: details }),
    ...(extra !== undefined && { extra_content: extra }),
    ...(calls.length > 0 && { tool_calls: calls }),
  }
  if (texts.length === 0 && isEmpty(others)) return []
  const content = texts.length > 0 ? texts.join('\n\n') : null
  return [{ role: 'assistant', content, ...(name !== undefined && { name }), ...others }]
}

function toolCall(item: Item<'function_call'>, id: string, fields: Fields): Fields {
  const { name, arguments: args } = item
  const { type, extra_content } = fields
  return type === 'custom'
    ? { id, type, custom: { name, input: args }, extra_content }
    : { id, type: 'function', function: { name, arguments: args }, extra_content }
}
