/** The events of earlier app-servers: `codex/event/*`, and their bare names. */
import {
  type Decoded,
  errorOf,
  fault,
  itemEvent,
  NOTHING,
  rawItemEvent,
  type Scope,
} from './events.ts'
import { type Fields, fieldsOf, idOf, textOf } from './fields.ts'
import type { SpokenItem } from './items.ts'
import { usageOf } from './usage.ts'
import { LEGACY_TOOL_EVENTS } from './wire-legacy-tools.ts'

type Decode = (message: Fields) => Decoded

const EVENTS = new Map<string, Decode>([
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
  ['agent_reasoning_delta', (message) => reasoningDelta(message, 'summary_index')],
  ['agent_reasoning_raw_content_delta', (message) => reasoningDelta(message, 'content_index')],
  ['reasoning_content_delta', (message) => reasoningDelta(message, 'summary_index')],
  ['reasoning_raw_content_delta', (message) => reasoningDelta(message, 'content_index')],
  ['agent_reasoning', ({ text }) => said('reasoning', text)],
  ['agent_reasoning_raw_content', ({ text }) => said('reasoning', text)],
  ['agent_reasoning_section_break', () => ({ type: 'reasoning_break' })],
  ['token_count', tokenCount],
  ['session_configured', sessionConfigured],
  ['raw_response_item', rawItemEvent],
  ['raw_response_completed', rawResponseCompleted],
  ...LEGACY_TOOL_EVENTS,
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

/** Bare names come in either case. */
export function legacyName(name: string): string {
  return name.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

export function isLegacyName(name: string): boolean {
  return EVENTS.has(name) || IDLE.has(name)
}

export function decodeLegacy(name: string, message: Fields): Decoded {
  const decode = EVENTS.get(name)
  if (decode !== undefined) return decode(message)
  return IDLE.has(name) ? NOTHING : { type: 'unknown', name }
}

export function scopeOfLegacy(params: Fields, message: Fields): Scope {
  return {
    threadId: idOf(params['conversationId']) ?? idOf(message['thread_id']),
    turnId: idOf(message['turn_id']) ?? idOf(message['turnId']) ?? idOf(params['id']),
  }
}

/** Comes after an `error`, too. */
function taskComplete(message: Fields): Decoded {
  const text = idOf(message['last_agent_message']) ?? idOf(message['lastAgentMessage'])
  const item: SpokenItem = { kind: 'message', id: undefined, text, metadata: {} }
  return {
    type: 'turn_ended',
    ending: { outcome: 'completed', word: 'task_complete', isVerdict: false },
    items: text === undefined ? [] : [item],
  }
}

function turnAborted({ reason }: Fields): Decoded {
  const word = idOf(reason) ?? 'interrupted'
  return { type: 'turn_ended', ending: { outcome: 'interrupted', word }, items: [] }
}

function messageDelta(message: Fields): Decoded {
  const text = textOf(message['delta'])
  if (text === undefined) return fault('delta')
  return { type: 'message_delta', id: itemIdOf(message), text }
}

function reasoningDelta(message: Fields, index: 'summary_index' | 'content_index'): Decoded {
  const text = textOf(message['delta'])
  if (text === undefined) return fault('delta')
  const at = message[index]
  const part = `${index} ${typeof at === 'number' ? at : ''}`
  return { type: 'reasoning_delta', id: itemIdOf(message), part, text }
}

function itemIdOf(message: Fields): string | undefined {
  return idOf(message['item_id']) ?? idOf(message['itemId'])
}

function said(kind: SpokenItem['kind'], text: unknown): Decoded {
  const whole = textOf(text)
  if (whole === undefined) return fault(kind === 'reasoning' ? 'text' : 'message')
  return { type: 'said', item: { kind, id: undefined, text: whole, metadata: {} } }
}

function tokenCount({ info }: Fields): Decoded {
  const { total_token_usage: total, last_token_usage: last } = fieldsOf(info)
  const counted = usageOf(total)
  if (counted === undefined) return NOTHING
  return { type: 'thread_usage', total: counted, last: usageOf(last) }
}

function rawResponseCompleted(message: Fields): Decoded {
  return { type: 'response_completed', usage: usageOf(message['token_usage'] ?? message['usage']) }
}

function sessionConfigured({ model }: Fields): Decoded {
  const name = idOf(model)
  return name === undefined ? NOTHING : { type: 'model_known', model: name }
}

const TOLD_BY_EVENTS = new Set<unknown>([
  'commandExecution',
  'fileChange',
  'imageGeneration',
  'mcpToolCall',
  'webSearch',
])

/** Tools have events of their own; told of twice, they would be called twice. */
function legacyItem(type: 'item_started' | 'item_completed', value: unknown): Decoded {
  const item = tagged(fieldsOf(value))
  const kind = item['type']
  if (kind === 'functionCall' || kind === 'functionCallOutput') {
    return type === 'item_completed' ? rawItemEvent(value) : NOTHING
  }
  if (TOLD_BY_EVENTS.has(kind)) return NOTHING
  return itemEvent(type, item)
}

/** Items are `{type: "AgentMessage", …}` or, earlier, `{AgentMessage: {…}}`; so are their parts. */
function tagged(item: Fields): Fields {
  const [name, ...others] = Object.keys(item)
  const isWrapped = name !== undefined && others.length === 0 && textOf(item['type']) === undefined
  const { type, ...fields } = isWrapped ? { ...fieldsOf(item[name]), type: name } : item
  const content = fields['content']
  return {
    ...fields,
    ...(Array.isArray(content) && { content: content.map(unwrapPart) }),
    ...(typeof type === 'string' && { type: camelCase(type) }),
  }
}

function unwrapPart(part: unknown): unknown {
  const text = fieldsOf(fieldsOf(part)['Text'])['text']
  return textOf(text) === undefined ? part : { type: 'text', text }
}

function camelCase(name: string): string {
  const joined = name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  return joined.charAt(0).toLowerCase() + joined.slice(1)
}
