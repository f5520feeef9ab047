/** A thread as the Messages API wants it: a system prompt, and turns of user and assistant. */
import { parseJson } from '../../protocol/decode.ts'
import { TurnstreamError, unreachable } from '../../protocol/errors.ts'
import { isRecord, parseJsonObject } from '../../protocol/json.ts'
import type { Attachment, OutputItem } from '../../protocol/output-item.ts'
import { type AgentItem, type Answer, type Ownership, stepsOf } from '../thread-steps.ts'
import { type VendorFields, vendorFieldsOf } from './metadata.ts'

type Block = Record<string, unknown>

interface Message {
  role: 'user' | 'assistant'
  content: Block[]
}

export interface History {
  system: Block[]
  messages: Message[]
}

type Item<Type extends OutputItem['type']> = Extract<OutputItem, { type: Type }>

const OWNERSHIP: Ownership = {
  isOwn: ({ provider_metadata }) => vendorFieldsOf(provider_metadata) !== undefined,
  responseOf({ provider_metadata }) {
    const id = vendorFieldsOf(provider_metadata)?.['message_id']
    return typeof id === 'string' ? id : undefined
  },
}

/**
 * What one side says in a row is one message. The results of calls stand at the head of the user's
 * next one, because the vendor accepts no other place.
 */
export function toHistory(input: readonly OutputItem[]): History {
  const system: Block[] = []
  const messages: Message[] = []
  for (const step of stepsOf(input, OWNERSHIP)) {
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

function say(messages: Message[], role: Message['role'], blocks: readonly Block[]): void {
  const last = messages.at(-1)
  if (last?.role === role) last.content.push(...blocks)
  else if (blocks.length > 0) messages.push({ role, content: [...blocks] })
}

function resultBlock({ call, output, success }: Answer): Block {
  return {
    type: 'tool_result',
    tool_use_id: toolUseId(call.call_id),
    ...(output !== '' && { content: output }),
    ...(!success && { is_error: true }),
  }
}

function agentBlocks(item: AgentItem): Block[] {
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

function callBlock({ call_id, name, arguments: args, provider_metadata }: Item<'function_call'>) {
  const block = vendorFieldsOf(provider_metadata)?.['block']
  const rest = isRecord(block) ? block : { type: 'tool_use' }
  return { ...rest, id: toolUseId(call_id), name, input: inputOf(args) }
}

/** The result of a tool that the vendor ran, as it came. */
function executedResultBlock(item: Item<'function_call_output'>): Block {
  const block = vendorFieldsOf(item.provider_metadata)?.['block']
  const rest = isRecord(block) ? block : {}
  return { ...rest, tool_use_id: toolUseId(item.call_id), content: resultContent(item) }
}

function textBlocks(text: string): Block[] {
  return text === '' ? [] : [{ type: 'text', text }]
}

function imageBlock({ media_type, data }: Attachment): Block {
  return { type: 'image', source: { type: 'base64', media_type, data } }
}

/** As the vendor wrote it, block by block, unless the text is no longer what it was. */
function messageBlocks({ content, provider_metadata }: Item<'message'>): Block[] {
  const { block, blocks } = vendorFieldsOf(provider_metadata) ?? {}
  if (isRecord(block)) return [block]
  const cuts = Array.isArray(blocks) ? blocks.filter(isCut) : []
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
function reasoningBlocks({ content, provider_metadata }: Item<'reasoning'>): Block[] {
  const { signature, block } = vendorFieldsOf(provider_metadata) ?? {}
  if (isRecord(block)) return [block]
  return typeof signature === 'string' ? [{ type: 'thinking', thinking: content, signature }] : []
}

/** The vendor takes objects only, and advises to wrap what is none in this way. */
function inputOf(json: string): VendorFields {
  if (json.trim() === '') return {}
  return parseJsonObject(json) ?? { INVALID_JSON: json }
}

function resultContent({ call_id, output }: Item<'function_call_output'>): unknown {
  const json = parseJson(output)
  if (json.ok) return json.value
  throw new TurnstreamError('OPTION_INVALID', `input: the output of ${call_id} is not as it came`)
}

/** The ids of other vendors may have characters that this one refuses. */
function toolUseId(callId: string): string {
  return callId.replace(/[^a-zA-Z0-9_-]/g, (char) => `_${char.charCodeAt(0).toString(16)}`)
}
