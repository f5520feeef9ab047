/** Events of earlier app-servers: `codex/event/*`, and their bare names. */
import { asFields, asNonEmpty, asString, type Fields } from '../fields.ts'
import { errorOf } from './errors.ts'
import {
  type Decoded,
  itemEvent,
  jsonOf,
  type MessageItem,
  missing,
  modelKnown,
  rawItemEvent,
  reasoningDelta,
  requireId,
  requireText,
  type Scope,
  threadUsage,
} from './events.ts'
import { usageOf } from './usage.ts'

/** Decoders take the fields in camel case, and the message as it was sent. */
const EVENTS = new Map<string, (fields: Fields, message: Fields) => Decoded>([
  ['task_started', () => ({ type: 'turn_started' })],
  ['turn_started', () => ({ type: 'turn_started' })],
  ['task_complete', taskComplete],
  ['turn_complete', taskComplete],
  ['turn_aborted', turnAborted],
  ['error', (message) => ({ type: 'error', error: errorOf(message) })],
  ['stream_error', () => ({ type: 'attempt_failed' })],
  ['item_started', ({ item }) => legacyItem('item_started', item)],
  ['item_completed', ({ item }) => legacyItem('item_completed', item)],
  ['agent_message_delta', messageDelta],
  ['agent_message_content_delta', messageDelta],
  ['agent_message', ({ message }) => completeText('message', message)],
  ['user_message', ({ message }) => completeText('user', message)],
  ['agent_reasoning_delta', (message) => reasoning(message, 'summaryIndex')],
  ['agent_reasoning_raw_content_delta', (message) => reasoning(message, 'contentIndex')],
  ['reasoning_content_delta', (message) => reasoning(message, 'summaryIndex')],
  ['reasoning_raw_content_delta', (message) => reasoning(message, 'contentIndex')],
  ['agent_reasoning', ({ text }) => completeText('reasoning', text)],
  ['agent_reasoning_raw_content', ({ text }) => completeText('reasoning', text)],
  ['agent_reasoning_section_break', () => ({ type: 'reasoning_break' })],
  ['token_count', ({ info }) => threadUsage(info, 'total_token_usage', 'last_token_usage')],
  ['session_configured', ({ model }) => modelKnown(model)],
  ['raw_response_item', (_, message) => rawItemEvent(message)],
  ['raw_response_completed', rawResponseCompleted],
  // The begin and end of each tool that codex runs.
  ['exec_command_begin', started('commandExecution', commandExecution)],
  ['exec_command_output_delta', outputChunk],
  ['exec_command_end', completed('commandExecution', commandExecution)],
  ['patch_apply_begin', started('fileChange', fileChange)],
  ['patch_apply_end', completed('fileChange', fileChange)],
  ['mcp_tool_call_begin', started('mcpToolCall', mcpToolCall)],
  ['mcp_tool_call_end', completed('mcpToolCall', mcpToolCall)],
  ['web_search_begin', started('webSearch', webSearch)],
  ['web_search_end', completed('webSearch', webSearch)],
  ['view_image_tool_call', completed('imageView', ({ path }) => ({ path }))],
  ['image_generation_begin', started('imageGeneration', imageGeneration)],
  ['image_generation_end', completed('imageGeneration', imageGeneration)],
  ['dynamic_tool_call_request', started('dynamicToolCall')],
  ['dynamic_tool_call_response', completed('dynamicToolCall')],
  ['plan_delta', planDelta],
])

const IDLE = new Set([
  'apply_patch_approval_request',
  'background_event',
  'context_compacted',
  'deprecation_notice',
  'elicitation_request',
  'exec_approval_request',
  'get_history_entry_response',
  'mcp_list_tools_response',
  'mcp_startup_complete',
  'mcp_startup_update',
  'patch_apply_updated',
  'plan_update',
  'request_permissions',
  'request_user_input',
  'shutdown_complete',
  'skills_update_available',
  'terminal_interaction',
  'thread_name_updated',
  'turn_diff',
  'undo_completed',
  'undo_started',
  'warning',
])

/** Bare names come in both cases. */
export function legacyName(name: string): string {
  return name.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

export function isLegacyName(name: string): boolean {
  return EVENTS.has(name) || IDLE.has(name)
}

export function decodeLegacy(name: string, message: Fields): Decoded {
  const decode = EVENTS.get(name)
  if (decode !== undefined) return decode(camelFields(message), message)
  return IDLE.has(name) ? undefined : { type: 'unknown', name }
}

export function scopeOfLegacy(params: Fields, message: Fields): Scope {
  return {
    threadId: asNonEmpty(params['conversationId']) ?? asNonEmpty(message['thread_id']),
    turnId:
      asNonEmpty(message['turn_id']) ?? asNonEmpty(message['turnId']) ?? asNonEmpty(params['id']),
  }
}

/** Also follows an `error`. */
function taskComplete({ lastAgentMessage }: Fields): Decoded {
  const text = asNonEmpty(lastAgentMessage)
  const item: MessageItem = { kind: 'message', id: undefined, text, metadata: {} }
  return {
    type: 'turn_ended',
    ending: { outcome: 'completed', word: 'task_complete', isVerdict: false },
    items: text === undefined ? [] : [item],
  }
}

function turnAborted({ reason }: Fields): Decoded {
  const word = asNonEmpty(reason) ?? 'interrupted'
  return { type: 'turn_ended', ending: { outcome: 'interrupted', word }, items: [] }
}

function messageDelta({ itemId, delta }: Fields): Decoded {
  return { type: 'message_delta', id: asNonEmpty(itemId), text: requireText(delta, 'delta') }
}

function reasoning(message: Fields, index: 'summaryIndex' | 'contentIndex'): Decoded {
  return reasoningDelta(asNonEmpty(message['itemId']), message, index)
}

function completeText(kind: MessageItem['kind'], value: unknown): Decoded {
  const text = requireText(value, kind === 'reasoning' ? 'text' : 'message')
  return { type: 'text', item: { kind, id: undefined, text, metadata: {} } }
}

function rawResponseCompleted({ tokenUsage, usage }: Fields): Decoded {
  return { type: 'response_completed', usage: usageOf(tokenUsage ?? usage) }
}

const WITH_OWN_EVENTS = new Set<unknown>([
  'commandExecution',
  'fileChange',
  'imageGeneration',
  'mcpToolCall',
  'webSearch',
])

/** Tools have their own events; decoding both would duplicate the call. */
function legacyItem(type: 'item_started' | 'item_completed', value: unknown): Decoded {
  const item = tagged(asFields(value))
  const kind = item['type']
  if (kind === 'functionCall' || kind === 'functionCallOutput') {
    return type === 'item_completed' ? rawItemEvent(value) : undefined
  }
  return WITH_OWN_EVENTS.has(kind) ? undefined : itemEvent(type, item)
}

/** Items are `{type: "AgentMessage", …}` or, earlier, `{AgentMessage: {…}}`; so are their parts. */
function tagged(item: Fields): Fields {
  const [name, ...others] = Object.keys(item)
  const isWrapped =
    name !== undefined && others.length === 0 && asString(item['type']) === undefined
  const { type, ...fields } = isWrapped ? { ...asFields(item[name]), type: name } : item
  const content = fields['content']
  return {
    ...fields,
    ...(Array.isArray(content) && { content: content.map(unwrapPart) }),
    ...(typeof type === 'string' && { type: camelCase(type) }),
  }
}

function unwrapPart(part: unknown): unknown {
  const text = asFields(asFields(part)['Text'])['text']
  return asString(text) === undefined ? part : { type: 'text', text }
}

function camelCase(name: string): string {
  const joined = name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  return joined.charAt(0).toLowerCase() + joined.slice(1)
}

/** Fields come in both cases. */
function camelFields(message: Fields): Fields {
  const entries = Object.entries(message).map(([name, value]) => [camelCase(name), value])
  return Object.fromEntries(entries) as Fields
}

type ItemDecoder = (message: Fields) => Fields

function started(type: string, decode?: ItemDecoder) {
  return toolEvent('item_started', type, decode)
}

function completed(type: string, decode?: ItemDecoder) {
  return toolEvent('item_completed', type, decode)
}

/** By default an item has the fields of its message. */
function toolEvent(
  event: 'item_started' | 'item_completed',
  type: string,
  decode: ItemDecoder = (message) => message,
) {
  return (message: Fields) => itemEvent(event, { ...decode(message), type, id: callIdOf(message) })
}

function callIdOf({ callId }: Fields): string {
  return requireId(callId, 'call_id')
}

function commandExecution(message: Fields): Fields {
  const { exitCode, duration, aggregatedOutput, formattedOutput, status } = message
  return {
    ...message,
    status: status ?? (exitCode === 0 ? 'completed' : 'failed'),
    aggregatedOutput: aggregatedOutput ?? formattedOutput,
    durationMs: milliseconds(duration),
  }
}

function fileChange(message: Fields): Fields {
  const { changes, status, success, stdout, stderr } = message
  const output = [stdout, stderr].map(asString).filter(Boolean).join('\n')
  return {
    changes,
    status: status ?? (success === true ? 'completed' : 'failed'),
    ...(output !== '' && { output }),
  }
}

/** The result is Rust's: `{Ok: …}` or `{Err: "…"}`. */
function mcpToolCall(message: Fields): Fields {
  const { Ok: result, Err: failure } = asFields(message['result'])
  const isError = failure !== undefined || asFields(result)['is_error'] === true
  return {
    ...asFields(message['invocation']),
    status: isError ? 'failed' : 'completed',
    result,
    ...(failure !== undefined && { error: { message: asString(failure) ?? jsonOf(failure) } }),
    durationMs: milliseconds(message['duration']),
  }
}

function webSearch(message: Fields): Fields {
  return { ...message, query: message['query'] ?? '' }
}

function imageGeneration({ status, revisedPrompt, result, savedPath }: Fields): Fields {
  return { status, revisedPrompt, result, savedPath }
}

function planDelta({ itemId, delta }: Fields): Decoded {
  const id = requireId(itemId, 'item_id')
  return { type: 'output_delta', id, text: requireText(delta, 'delta') }
}

/** Chunks are base64 of bytes that may end inside a character. */
function outputChunk(message: Fields): Decoded {
  const bytes = bytesOf(requireText(message['chunk'], 'chunk'))
  return { type: 'output_bytes', id: callIdOf(message), bytes }
}

function bytesOf(base64: string): Uint8Array {
  try {
    return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
  } catch {
    throw missing('chunk')
  }
}

function milliseconds(duration: unknown): number | undefined {
  const { secs, nanos } = asFields(duration)
  if (typeof secs !== 'number' || typeof nanos !== 'number') return undefined
  return Math.round(secs * 1000 + nanos / 1e6)
}
