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

const EVENTS = new Map<string, (message: Fields) => Decoded>([
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
  ['agent_message', ({ message }) => said('message', message)],
  ['user_message', ({ message }) => said('user', message)],
  ['agent_reasoning_delta', (message) => reasoning(message, 'summary_index')],
  ['agent_reasoning_raw_content_delta', (message) => reasoning(message, 'content_index')],
  ['reasoning_content_delta', (message) => reasoning(message, 'summary_index')],
  ['reasoning_raw_content_delta', (message) => reasoning(message, 'content_index')],
  ['agent_reasoning', ({ text }) => said('reasoning', text)],
  ['agent_reasoning_raw_content', ({ text }) => said('reasoning', text)],
  ['agent_reasoning_section_break', () => ({ type: 'reasoning_break' })],
  ['token_count', tokenCount],
  ['session_configured', ({ model }) => modelKnown(model)],
  ['raw_response_item', rawItemEvent],
  ['raw_response_completed', rawResponseCompleted],
  // The begin and end of each tool that codex runs.
  ['exec_command_begin', (message) => started(commandExecution(message))],
  ['exec_command_output_delta', outputChunk],
  ['exec_command_end', (message) => completed(commandExecution(message))],
  ['patch_apply_begin', (message) => started(fileChange(message))],
  ['patch_apply_end', (message) => completed(fileChange(message))],
  ['mcp_tool_call_begin', (message) => started(mcpToolCall(message))],
  ['mcp_tool_call_end', (message) => completed(mcpToolCall(message))],
  ['web_search_begin', (message) => started(webSearch(message))],
  ['web_search_end', (message) => completed(webSearch(message))],
  ['view_image_tool_call', (message) => completed(imageView(message))],
  ['image_generation_begin', (message) => started(imageGeneration(message))],
  ['image_generation_end', (message) => completed(imageGeneration(message))],
  ['dynamic_tool_call_request', (message) => started(dynamicToolCall(message))],
  ['dynamic_tool_call_response', (message) => completed(dynamicToolCall(message))],
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
  if (decode !== undefined) return decode(message)
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
function taskComplete(message: Fields): Decoded {
  const text = asNonEmpty(message['last_agent_message']) ?? asNonEmpty(message['lastAgentMessage'])
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

function messageDelta(message: Fields): Decoded {
  const text = requireText(message['delta'], 'delta')
  return { type: 'message_delta', id: itemIdOf(message), text }
}

function reasoning(message: Fields, index: 'summary_index' | 'content_index'): Decoded {
  return reasoningDelta(itemIdOf(message), message, index)
}

function itemIdOf(message: Fields): string | undefined {
  return asNonEmpty(message['item_id']) ?? asNonEmpty(message['itemId'])
}

function said(kind: MessageItem['kind'], value: unknown): Decoded {
  const text = requireText(value, kind === 'reasoning' ? 'text' : 'message')
  return { type: 'said', item: { kind, id: undefined, text, metadata: {} } }
}

function tokenCount({ info }: Fields): Decoded {
  const { total_token_usage: total, last_token_usage: last } = asFields(info)
  return threadUsage(total, last)
}

function rawResponseCompleted(message: Fields): Decoded {
  return { type: 'response_completed', usage: usageOf(message['token_usage'] ?? message['usage']) }
}

const TOLD_BY_EVENTS = new Set<unknown>([
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
  if (TOLD_BY_EVENTS.has(kind)) return undefined
  return itemEvent(type, item)
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

function started(item: Fields): Decoded {
  return itemEvent('item_started', item)
}

function completed(item: Fields): Decoded {
  return itemEvent('item_completed', item)
}

function callId(message: Fields): string {
  return requireId(message['call_id'] || message['callId'], 'call_id')
}

function commandExecution(message: Fields): Fields {
  const { command, cwd, source, exit_code, duration } = message
  const isDone = message['status'] ?? (exit_code === 0 ? 'completed' : 'failed')
  return {
    type: 'commandExecution',
    id: callId(message),
    command,
    cwd,
    source,
    status: isDone,
    aggregatedOutput: message['aggregated_output'] ?? message['formatted_output'],
    exitCode: exit_code,
    durationMs: milliseconds(duration),
  }
}

function fileChange(message: Fields): Fields {
  const isDone = message['success'] === true ? 'completed' : 'failed'
  const output = [message['stdout'], message['stderr']].map(asString).filter(Boolean).join('\n')
  const { changes } = message
  return {
    type: 'fileChange',
    id: callId(message),
    changes,
    status: message['status'] ?? isDone,
    ...(output !== '' && { output }),
  }
}

/** The result is Rust's: `{Ok: …}` or `{Err: "…"}`. */
function mcpToolCall(message: Fields): Fields {
  const { server, tool, arguments: args } = asFields(message['invocation'])
  const { Ok: result, Err: failure } = asFields(message['result'])
  const isError = failure !== undefined || asFields(result)['is_error'] === true
  return {
    type: 'mcpToolCall',
    id: callId(message),
    server,
    tool,
    arguments: args,
    status: isError ? 'failed' : 'completed',
    result,
    ...(failure !== undefined && { error: { message: asString(failure) ?? jsonOf(failure) } }),
    durationMs: milliseconds(message['duration']),
  }
}

function webSearch(message: Fields): Fields {
  const { query, action, results } = message
  return { type: 'webSearch', id: callId(message), query: query ?? '', action, results }
}

function imageView(message: Fields): Fields {
  return { type: 'imageView', id: callId(message), path: message['path'] }
}

function imageGeneration(message: Fields): Fields {
  const { status, revised_prompt: revisedPrompt, result, saved_path: savedPath } = message
  return { type: 'imageGeneration', id: callId(message), status, revisedPrompt, result, savedPath }
}

function dynamicToolCall(message: Fields): Fields {
  const { namespace, tool, arguments: args, success } = message
  const contentItems = message['content_items'] ?? message['contentItems']
  return {
    type: 'dynamicToolCall',
    id: callId(message),
    namespace,
    tool,
    arguments: args,
    success,
    contentItems,
  }
}

function planDelta({ item_id, delta }: Fields): Decoded {
  const id = requireId(item_id, 'item_id')
  return { type: 'output_delta', id, text: requireText(delta, 'delta') }
}

/** Chunks are base64 of bytes that may end inside a character. */
function outputChunk(message: Fields): Decoded {
  const id = callId(message)
  return { type: 'output_bytes', id, bytes: bytesOf(requireText(message['chunk'], 'chunk')) }
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
