/** What the grammars of codex say, in one vocabulary. */
import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import type { Usage } from '../../protocol/usage.ts'
import { asFields, asList, asNonEmpty, asString, type Fields, toJson } from '../fields.ts'

export type CodexEvent =
  | { type: 'model_known'; model: string }
  | { type: 'turn_started' }
  | { type: 'turn_ended'; ending: TurnEnding; items: readonly CodexItem[] }
  | { type: 'item_started' | 'item_completed'; item: CodexItem }
  /** A whole text that follows what was streamed of it, or stands for it. */
  | { type: 'said'; item: MessageItem }
  | { type: 'message_delta'; id: string | undefined; text: string }
  | { type: 'reasoning_delta'; id: string | undefined; part: string; text: string }
  | { type: 'reasoning_break' }
  | { type: 'output_delta'; id: string; text: string }
  | { type: 'output_bytes'; id: string; bytes: Uint8Array }
  | { type: 'raw_item'; item: RawItem }
  | { type: 'response_completed'; usage: Usage | undefined }
  | { type: 'thread_usage'; total: Usage; last: Usage | undefined }
  | { type: 'attempt_failed' }
  | { type: 'error'; error: ErrorObject }

export type TurnEnding =
  /** Without a verdict it only says that the turn is over, whatever happened in it. */
  | { outcome: 'completed'; word: string; isVerdict: boolean }
  | { outcome: 'interrupted'; word: string }
  | { outcome: 'failed'; error: ErrorObject | undefined }

/** An item as the model's provider sent it, when codex is asked to pass those on. */
export type RawItem =
  | { kind: 'call'; id: string; name: string; args: string; metadata: Fields }
  | { kind: 'output'; id: string; text: string }
  /** The twin of an item that was told before; it knows what the other leaves out. */
  | { kind: 'twin'; id: string; metadata: Fields }

/** Turn and thread that a message is about, as far as it says. */
export interface Scope {
  threadId: string | undefined
  turnId: string | undefined
}

/** A message decoded: the event, the field at fault, or why there is none. */
export type Decoded =
  | CodexEvent
  | { type: 'fault'; field: string }
  | { type: 'unknown'; name: string }
  | { type: 'nothing' }

export const NOTHING: Decoded = { type: 'nothing' }

export function fault(field: string): Decoded {
  return { type: 'fault', field }
}

export function itemEvent(type: 'item_started' | 'item_completed', value: unknown): Decoded {
  const item = decodeItem(value)
  switch (item.kind) {
    case 'fault':
      return fault(item.field)
    case 'unknown':
      return { type: 'unknown', name: `item ${item.type}` }
    case 'idle':
      return NOTHING
    default:
      return { type, item }
  }
}

/** The first name of `codexErrorInfo` is the code: it is a word, or an object with one key. */
export function errorOf(value: unknown): ErrorObject {
  const fields = asFields(value)
  const info = fields['codexErrorInfo'] ?? fields['codex_error_info']
  const code = asNonEmpty(info) ?? Object.keys(asFields(info))[0]
  const message = asString(fields['message']) ?? 'codex gave no reason'
  return { code: code ?? 'other', message }
}

const TWIN_FIELDS = new Set([
  'content',
  'id',
  'internal_chat_message_metadata_passthrough',
  'role',
  'status',
  'summary',
  'type',
])

/**
 * Of raw messages only what their twin lacks is of use: the others are the history of the thread, or
 * the summary that codex makes of it for itself.
 */
export function rawItemEvent(value: unknown): Decoded {
  const item = asFields(value)
  const [id, callId] = [asNonEmpty(item['id']), asNonEmpty(item['call_id'])]
  const name = asString(item['name']) ?? ''
  switch (item['type']) {
    case 'function_call':
      if (callId === undefined) return fault('item.call_id')
      return rawCall(callId, name, jsonText(item['arguments'] ?? ''), id)
    case 'custom_tool_call':
      if (callId === undefined) return fault('item.call_id')
      return rawCall(callId, name, jsonOf({ input: item['input'] ?? '' }), id)
    case 'function_call_output':
    case 'custom_tool_call_output':
      if (callId === undefined) return fault('item.call_id')
      return { type: 'raw_item', item: { kind: 'output', id: callId, text: rawOutput(item) } }
    case 'message':
    case 'reasoning':
      if (id === undefined) return NOTHING
      return { type: 'raw_item', item: { kind: 'twin', id, metadata: twinMetadata(item) } }
    default:
      return NOTHING
  }
}

function rawCall(id: string, name: string, args: string, itemId: string | undefined): Decoded {
  const metadata = itemId === undefined ? {} : { id: itemId }
  return { type: 'raw_item', item: { kind: 'call', id, name, args, metadata } }
}

function rawOutput({ output }: Fields): string {
  return asString(output) ?? asString(asFields(output)['content']) ?? jsonOf(output ?? '')
}

function twinMetadata(item: Fields): Fields {
  const parts = asList(item['content'])
  const annotations = parts.flatMap((part) => asList(asFields(part)['annotations']))
  return {
    ...fieldsWithout(item, TWIN_FIELDS),
    ...(annotations.length > 0 && { annotations }),
  }
}

export interface MessageItem {
  kind: 'message' | 'user' | 'reasoning'
  /** Some versions tell of an item without naming it. */
  id: string | undefined
  /** The whole text as far as the item holds it. */
  text: string | undefined
  metadata: Fields
}

/** A call with, once it is over, what came of it. */
export interface ToolItem {
  kind: 'tool'
  id: string
  name: string
  /** JSON text; undefined while codex has not said it. */
  args: string | undefined
  runBy: 'codex' | 'client'
  metadata: Fields
  output: ToolOutput
}

export interface ToolOutput {
  /** Undefined when codex adds nothing to what it streamed. */
  text: string | undefined
  success: boolean
  metadata: Fields
}

export type CodexItem = MessageItem | ToolItem

/** An item, the field that keeps it from being one, or why it is of no interest. */
export type DecodedItem =
  | CodexItem
  | { kind: 'fault'; field: string }
  | { kind: 'unknown' | 'idle'; type: string }

/** Known, but nothing that anybody said or called. */
const IDLE_ITEMS = new Set([
  'contextCompaction',
  'enteredReviewMode',
  'exitedReviewMode',
  'hookPrompt',
  'subAgentActivity',
])
/** Fields that say when, and which item; every item has them. */
const COMMON_FIELDS = ['completedAtMs', 'id', 'startedAtMs', 'type']
const COMMON = new Set(COMMON_FIELDS)
const SPOKEN = new Set(['content', 'completedAtMs', 'startedAtMs', 'text', 'type'])
const REASONING = new Set([...SPOKEN, 'summary', 'summary_text', 'raw_content'])
/** Fields that say what came out of a call; the others say what went in. */
const RESULTS = new Set([...COMMON_FIELDS, 'durationMs', 'result', 'results', 'status'])

type DecodeTool = (item: Fields, type: string) => Omit<ToolItem, 'kind' | 'id'>

const TOOLS = new Map<string, DecodeTool>([
  ['commandExecution', commandExecution],
  ['fileChange', fileChange],
  ['mcpToolCall', mcpToolCall],
  ['dynamicToolCall', dynamicToolCall],
  ['plan', plan],
  ['webSearch', webSearch],
  ['collabAgentToolCall', otherTool],
  ['collabToolCall', otherTool],
  ['imageGeneration', otherTool],
  ['imageView', otherTool],
  ['sleep', otherTool],
])

export function decodeItem(value: unknown): DecodedItem {
  if (!isRecord(value)) return { kind: 'fault', field: 'item' }
  const type = asString(value['type'])
  if (type === undefined) return { kind: 'fault', field: 'item.type' }
  if (type === 'agentMessage') return agentMessage(value)
  if (type === 'userMessage') return userMessage(value)
  if (type === 'reasoning') return reasoning(value)
  if (IDLE_ITEMS.has(type)) return { kind: 'idle', type }
  const decodeTool = TOOLS.get(type)
  if (decodeTool === undefined) return { kind: 'unknown', type }
  const id = asNonEmpty(value['id'])
  if (id === undefined) return { kind: 'fault', field: 'item.id' }
  return { kind: 'tool', id, ...decodeTool(value, type) }
}

function agentMessage(item: Fields): MessageItem {
  const parts = textsOf(item['content'])
  return {
    kind: 'message',
    id: asNonEmpty(item['id']),
    text: asString(item['text']) ?? (parts.length > 0 ? parts.join('') : undefined),
    metadata: fieldsWithout(item, SPOKEN),
  }
}

/** What is not text (images, mentions) is kept aside. */
function userMessage(item: Fields): MessageItem {
  const content = asList(item['content'])
  const others = content.filter((part) => asString(asFields(part)['text']) === undefined)
  return {
    kind: 'user',
    id: asNonEmpty(item['id']),
    text: asString(item['text']) ?? textsOf(content).join('\n'),
    metadata: {
      ...fieldsWithout(item, SPOKEN),
      ...(others.length > 0 && { content: others }),
    },
  }
}

function reasoning(item: Fields): MessageItem {
  const parts = [
    ...textsOf(item['summary'] ?? item['summary_text']),
    ...textsOf(item['content'] ?? item['raw_content']),
  ]
  return {
    kind: 'reasoning',
    id: asNonEmpty(item['id']),
    text: parts.length > 0 ? parts.join('\n\n') : undefined,
    metadata: fieldsWithout(item, REASONING),
  }
}

function commandExecution(item: Fields, type: string) {
  const { command, cwd, status, exitCode, durationMs, source } = item
  const isDone = status === 'completed' && (exitCode ?? 0) === 0
  return tool(type, {
    args: jsonOf({ command, cwd }),
    metadata: { type, source },
    text: asString(item['aggregatedOutput']),
    success: isDone,
    results: { status, exitCode, durationMs },
  })
}

function fileChange(item: Fields, type: string) {
  const { changes, status } = item
  return tool(type, {
    args: jsonOf({ changes }),
    metadata: { type },
    text: asString(item['output']) ?? jsonOf({ status }),
    success: status === 'completed',
    results: { status },
  })
}

function mcpToolCall(item: Fields, type: string) {
  const { server, tool: name, status, result, error, durationMs } = item
  const failure = asString(asFields(error)['message'])
  return tool(asString(name) ?? type, {
    args: jsonText(item['arguments']),
    metadata: { type, server },
    text: failure ?? contentText(asFields(result)['content'], result),
    success: status === 'completed' && failure === undefined,
    results: { status, durationMs },
  })
}

function dynamicToolCall(item: Fields, type: string): Omit<ToolItem, 'kind' | 'id'> {
  const { namespace, tool: name, contentItems, success } = item
  const hasParts = asList(contentItems).length > 0
  const hasAnswer = hasParts || success === true
  return {
    ...tool(asString(name) ?? type, {
      args: jsonText(item['arguments']),
      metadata: { type, namespace },
      text: hasAnswer ? contentText(contentItems, hasParts ? contentItems : undefined) : undefined,
      success: success === true,
      results: {},
    }),
    runBy: 'client',
  }
}

/** A plan that the model proposes is written, not run: its text is all there is. */
function plan(item: Fields, type: string) {
  return tool(type, {
    args: '{}',
    metadata: { type },
    text: asString(item['text']),
    success: true,
    results: {},
  })
}

/** What is searched for is known when the search is over. */
function webSearch(item: Fields, type: string) {
  const { query, action, results } = item
  const isKnown = query !== '' || isRecord(action)
  return tool(type, {
    args: isKnown ? jsonOf(fieldsWithout({ query, action }, COMMON)) : undefined,
    metadata: { type },
    text: results === null || results === undefined ? '' : jsonOf(results),
    success: true,
    results: {},
  })
}

function otherTool(item: Fields, type: string) {
  return tool(asString(item['tool']) ?? type, {
    args: jsonOf(fieldsWithout(item, RESULTS)),
    metadata: { type },
    text: jsonOf(fieldsWithout(item, COMMON)),
    success: item['status'] !== 'failed',
    results: {},
  })
}

interface ToolParts {
  args: string | undefined
  metadata: Fields
  text: string | undefined
  success: boolean
  results: Fields
}

const NONE: ReadonlySet<string> = new Set()

function tool(name: string, parts: ToolParts): Omit<ToolItem, 'kind' | 'id'> {
  const metadata = fieldsWithout(parts.metadata, NONE)
  const results = fieldsWithout(parts.results, NONE)
  const { args, text, success } = parts
  return {
    name,
    args,
    runBy: 'codex',
    metadata,
    output: { text, success, metadata: { ...metadata, ...results } },
  }
}

/** Arguments as JSON text; codex sends them parsed. */
function jsonText(value: unknown): string {
  return typeof value === 'string' ? value : jsonOf(value ?? {})
}

/** The text of an answer made of parts, or the answer itself as JSON when it is not all text. */
function contentText(parts: unknown, answer: unknown): string {
  const list = asList(parts)
  const texts = textsOf(list)
  if (list.length > 0 && texts.length === list.length) return texts.join('\n')
  return answer === null || answer === undefined ? '' : jsonOf(answer)
}

/** The fields that say something, without those named. */
function fieldsWithout(fields: Fields, names: ReadonlySet<string>): Fields {
  const said = Object.entries(fields).filter(([name, value]) => {
    return !names.has(name) && value !== null && value !== undefined
  })
  return Object.fromEntries(said)
}

/** The texts among the parts of a list: strings, or what carries one. */
function textsOf(value: unknown): readonly string[] {
  return asList(value)
    .map((part) => asString(part) ?? asString(asFields(part)['text']))
    .filter((text) => text !== undefined)
}

/** JSON text; `null` for what has none. */
export function jsonOf(value: unknown): string {
  return toJson(value) ?? 'null'
}
