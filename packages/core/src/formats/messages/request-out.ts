import { unreachable } from '../../protocol/errors.ts'
import { isRecord, parseJson, parseJsonObject } from '../../protocol/json.ts'
import type { Attachment, OutputItem } from '../../protocol/output-item.ts'
import { asFields, type Fields } from '../fields.ts'
import { THINKING_REFUSED } from '../issuer.ts'
import { originalParts, vendorFields } from '../metadata.ts'
import { traitsAfterEffort } from '../model-traits.ts'
import type { ProviderRequest } from '../provider-request.ts'
import { type SentCallIds, sentCallIds, sentId } from '../sent-call-ids.ts'
import { isOff, writeSettings } from '../settings.ts'
import {
  type AgentItem,
  type Answer,
  type Item,
  invalidOption,
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
import { NAMESPACE } from './decode.ts'
import { CLAUDE_MODELS, traitsAfterThinking } from './models.ts'
import { translateAnthropicMessages } from './read.ts'
import { anthropicSettings, defaultMaxTokens } from './settings.ts'

export const BASE_URL = 'https://api.anthropic.com'
export const API_VERSION = '2023-06-01'

/** `POST /v1/messages`. Throws for options that the API does not support. */
export function buildAnthropicMessagesRequest(
  request: ProviderRequest,
  { baseUrl = BASE_URL, apiKey, headers, models }: RequestOptions = {},
): VendorRequest {
  const callIds = toolUseIds(request.input)
  const { system, messages } = toHistory(request.input, callIds)
  if (request.promptCache !== undefined) cachePrompt(system, messages, request.promptCache)
  const settings = writeSettings(anthropicSettings(models), request)
  const isOff = asFields(settings['thinking'])['type'] === 'enabled' && !canThink(messages)
  return {
    url: joinUrl(baseUrl, '/v1/messages'),
    headers: {
      'anthropic-version': API_VERSION,
      ...(apiKey !== undefined && { 'x-api-key': apiKey }),
      ...headers,
    },
    ...(callIds.size > 0 && { callIds }),
    body: {
      model: request.model,
      max_tokens: defaultMaxTokens(isOff ? { model: request.model } : request, models),
      ...(system.length > 0 && { system }),
      messages,
      ...tools(request),
      ...settings,
      ...(isOff && { thinking: { type: 'disabled' } }),
      stream: true,
    },
  }
}

const OWNERSHIP: Ownership = { namespace: NAMESPACE, responseField: 'message_id' }

export const ANTHROPIC: Vendor<VendorOptions> = {
  id: 'anthropic',
  ownership: () => OWNERSHIP,
  models: CLAUDE_MODELS,
  settings: (_options, models) => anthropicSettings(models),
  // Some models lack efforts only while thinking is off.
  learn: (request, error) =>
    traitsAfterThinking(error) ??
    (isOff(request) ? undefined : traitsAfterEffort(request.reasoningEffort, error)),
  buildRequest: buildAnthropicMessagesRequest,
  createTranslation: translateAnthropicMessages,
  refusal: THINKING_REFUSED,
}

/** The vendor looks a few blocks back from each mark, so the message before the last one also gets one. */
function cachePrompt(
  system: readonly Fields[],
  messages: readonly Message[],
  ttl: NonNullable<ProviderRequest['promptCache']>,
): void {
  const prompts = messages.filter(({ role }) => role === 'user').slice(-2)
  for (const blocks of [system, ...prompts.map(({ content }) => content)]) {
    const last = blocks.at(-1)
    if (last !== undefined) last['cache_control'] = { type: 'ephemeral', ttl }
  }
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

interface Message {
  role: 'user' | 'assistant'
  content: Fields[]
}

interface History {
  system: Fields[]
  messages: Message[]
}

/** Converts a thread to alternating messages. The vendor accepts tool results only at the start of one. */
export function toHistory(input: readonly OutputItem[], ids = toolUseIds(input)): History {
  const system: Fields[] = []
  const messages: Message[] = []
  for (const step of stepsOf(input, OWNERSHIP)) {
    if (step.from === 'system') system.push(...textBlocks(step.text))
    else say(messages, step.from === 'agent' ? 'assistant' : 'user', blocksOf(step, ids))
  }
  return { system, messages }
}

function blocksOf(step: Step, ids: SentCallIds): Fields[] {
  switch (step.from) {
    case 'agent':
      return step.items.flatMap((item) => agentBlocks(item, ids))
    case 'tools':
      return step.answers.map((answer) => resultBlock(answer, ids))
    default:
      return [...textBlocks(step.text), ...step.attachments.map(attachmentBlock)]
  }
}

/**
 * Whether the answer may begin with thinking within a budget. While tools answer, the API refuses to enable it unless
 * the step that called the first of them has thinking, which is missing if another provider made that call.
 */
function canThink(messages: readonly Message[]): boolean {
  let at = messages.length - 1
  if (messages[at]?.content.some(isResult) !== true) return true
  while (messages[at - 2]?.content.every(isResult) === true) at -= 2
  const [first] = messages[at - 1]?.content ?? []
  return first?.['type'] === 'thinking' || first?.['type'] === 'redacted_thinking'
}

function isResult({ type }: Fields): boolean {
  return type === 'tool_result'
}

function say(messages: Message[], role: Message['role'], blocks: readonly Fields[]): void {
  const last = messages.at(-1)
  if (last?.role === role) last.content.push(...blocks)
  else if (blocks.length > 0) messages.push({ role, content: [...blocks] })
}

function resultBlock({ call, output, success }: Answer, ids: SentCallIds): Fields {
  return {
    type: 'tool_result',
    tool_use_id: sentId(ids, call.call_id),
    ...(!isBlank(output) && { content: output }),
    ...(!success && { is_error: true }),
  }
}

function agentBlocks(item: AgentItem, ids: SentCallIds): Fields[] {
  const block = vendorFields(NAMESPACE, item)?.['block']
  switch (item.type) {
    case 'message':
      return messageBlocks(item)
    case 'reasoning':
      return reasoningBlocks(item)
    case 'function_call': {
      const { name, arguments: args } = item
      const rest = isRecord(block) ? block : { type: 'tool_use' }
      return [{ ...rest, id: sentId(ids, item.call_id), name, input: inputOf(args) }]
    }
    case 'function_call_output': {
      const tool_use_id = sentId(ids, item.call_id)
      return [{ ...asFields(block), tool_use_id, content: resultContent(item) }]
    }
    default:
      return unreachable(item)
  }
}

function textBlocks(text: string): Fields[] {
  return isBlank(text) ? [] : [{ type: 'text', text }]
}

/** The vendor refuses such text. */
function isBlank(text: string): boolean {
  return text.trim() === ''
}

function attachmentBlock({ type, media_type, data, filename }: Attachment): Fields {
  const source = { type: 'base64', media_type, data }
  if (type === 'image') return { type, source }
  if (media_type !== 'application/pdf') {
    throw invalidOption('input', `Anthropic accepts PDF files only, not ${media_type}`)
  }
  return { type: 'document', source, ...(filename !== undefined && { title: filename }) }
}

function messageBlocks(item: Item<'message'>): Fields[] {
  const { content } = item
  const { block, blocks } = vendorFields(NAMESPACE, item) ?? {}
  if (isRecord(block)) return [block]
  return (
    originalParts(content, blocks)
      // The vendor refuses empty text, even its own.
      ?.filter(({ text }) => text !== '')
      .map((part) => ({ type: 'text', ...part })) ?? textBlocks(content)
  )
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

const TOOL_USE_ID = /^[a-zA-Z0-9_-]+$/

/** Rewrites characters that this vendor refuses, as in `functions.Bash:0`. */
function toolUseIds(input: readonly OutputItem[]): SentCallIds {
  return sentCallIds(input, {
    accepts: (id) => TOOL_USE_ID.test(id),
    rewrite: (id, suffix) =>
      id.replace(/[^a-zA-Z0-9_-]/g, (char) => `_${char.charCodeAt(0).toString(16)}`) + suffix,
  })
}
