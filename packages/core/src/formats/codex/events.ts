import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject, Usage } from '../../protocol/stream-event.ts'
import {
  asFields,
  asList,
  asNonEmpty,
  asString,
  type Fields,
  Malformed,
  toJson,
} from '../fields.ts'
import { usageOf } from './usage.ts'

export type CodexEvent =
  | { type: 'model_known'; model: string }
  | { type: 'turn_started' }
  | { type: 'turn_ended'; ending: TurnEnding; items: readonly MessageItem[] }
  | { type: 'item_started' | 'item_completed'; item: CodexItem }
  /** A complete text, after or instead of its stream. */
  | { type: 'text'; item: MessageItem }
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
  /** Without a verdict the outcome is unknown: the turn has only ended. */
  | { outcome: 'completed'; word: string; isVerdict: boolean }
  | { outcome: 'interrupted'; word: string }
  | { outcome: 'failed'; error: ErrorObject | undefined }

/** An item as the model's provider sent it, if codex forwards those. */
export type RawItem =
  | { kind: 'call'; id: string; name: string; args: string; metadata: Fields }
  | { kind: 'output'; id: string; text: string }
  /** Duplicates an earlier item, with additional fields. */
  | { kind: 'twin'; id: string; metadata: Fields }

export interface MessageItem {
  kind: 'message' | 'user' | 'reasoning'
  /** Some versions send items without an id. */
  id: string | undefined
  /** The complete text, as far as the item holds it. */
  text: string | undefined
  metadata: Fields
}

/** A call, with its result once it has ended. */
export interface ToolItem {
  kind: 'tool'
  id: string
  name: string
  /** JSON text; undefined until codex sends it. */
  args: string | undefined
  runBy: 'codex' | 'client'
  metadata: Fields
  output: ToolOutput
}

export interface ToolOutput {
  /** Undefined when codex adds nothing to the stream. */
  text: string | undefined
  success: boolean
  metadata: Fields
}

export type CodexItem = MessageItem | ToolItem

/** Turn and thread of a message, as far as known. */
export interface Scope {
  threadId: string | undefined
  turnId: string | undefined
}

/** A decoded message; undefined if it does not affect a turn. Decoders throw `Malformed`. */
export type Decoded = CodexEvent | { type: 'unknown'; name: string } | undefined

export function requireId(value: unknown, field: string): string {
  const id = asNonEmpty(value)
  if (id === undefined) throw missing(field)
  return id
}

export function requireText(value: unknown, field: string): string {
  if (typeof value !== 'string') throw missing(field)
  return value
}

export function missing(field: string): Malformed {
  return new Malformed(`${field} is missing or of the wrong type`)
}

export function modelKnown(model: unknown): Decoded {
  const name = asNonEmpty(model)
  return name === undefined ? undefined : { type: 'model_known', model: name }
}

export function reasoningDelta(id: string | undefined, fields: Fields, index: string): Decoded {
  const text = requireText(fields['delta'], 'delta')
  const at = fields[index]
  const part = `${index} ${typeof at === 'number' ? at : ''}`
  return { type: 'reasoning_delta', id, part, text }
}

export function threadUsage(counts: unknown, totalName: string, lastName: string): Decoded {
  const { [totalName]: total, [lastName]: last } = asFields(counts)
  const counted = usageOf(total)
  return counted && { type: 'thread_usage', total: counted, last: usageOf(last) }
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

/** Keeps raw messages only if they add to their duplicate. Others are history, or codex's own summary. */
export function rawItemEvent(value: unknown): Decoded {
  const item = rawItem(asFields(value))
  return item && { type: 'raw_item', item }
}

function rawItem(item: Fields): RawItem | undefined {
  const id = asNonEmpty(item['id'])
  const { type, output } = item
  switch (type) {
    case 'function_call':
    case 'custom_tool_call':
      return {
        kind: 'call',
        id: requireId(item['call_id'], 'item.call_id'),
        name: asString(item['name']) ?? '',
        args:
          type === 'function_call'
            ? jsonText(item['arguments'] ?? '')
            : jsonOf({ input: item['input'] ?? '' }),
        metadata: id === undefined ? {} : { id },
      }
    case 'function_call_output':
    case 'custom_tool_call_output':
      return {
        kind: 'output',
        id: requireId(item['call_id'], 'item.call_id'),
        text: asString(output) ?? asString(asFields(output)['content']) ?? jsonOf(output ?? ''),
      }
    case 'message':
    case 'reasoning':
      return id === undefined ? undefined : { kind: 'twin', id, metadata: twinMetadata(item) }
    default:
      return undefined
  }
}

function twinMetadata(item: Fields): Fields {
  const parts = asList(item['content'])
  const annotations = parts.flatMap((part) => asList(asFields(part)['annotations']))
  return { ...fieldsWithout(item, TWIN_FIELDS), ...(annotations.length > 0 && { annotations }) }
}

/** Known items without text or calls. */
const IDLE_ITEMS = new Set([
  'contextCompaction',
  'enteredReviewMode',
  'exitedReviewMode',
  'hookPrompt',
  'subAgentActivity',
])
/** Timing and id fields, present in every item. */
const COMMON_FIELDS = ['completedAtMs', 'id', 'startedAtMs', 'type']
const COMMON = new Set(COMMON_FIELDS)
const MESSAGE = new Set(['content', 'completedAtMs', 'startedAtMs', 'text', 'type'])
const REASONING = new Set([...MESSAGE, 'summary', 'summary_text', 'raw_content'])
/** Fields with the result of a call; all others are input. */
const RESULTS = new Set([...COMMON_FIELDS, 'durationMs', 'result', 'results', 'status'])

type ToolParts = Omit<ToolItem, 'kind' | 'id'>

const TOOLS = new Map<string, (item: Fields, type: string) => ToolParts>([
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

export function itemEvent(type: 'item_started' | 'item_completed', value: unknown): Decoded {
  if (!isRecord(value)) throw missing('item')
  const itemType = requireText(value['type'], 'item.type')
  const message = decodeMessage(value)
  if (message !== undefined) return { type, item: message }
  if (IDLE_ITEMS.has(itemType)) return undefined
  const decodeTool = TOOLS.get(itemType)
  if (decodeTool === undefined) return { type: 'unknown', name: `item ${itemType}` }
  const id = requireId(value['id'], 'item.id')
  return { type, item: { kind: 'tool', id, ...decodeTool(value, itemType) } }
}

/** Undefined for items of other types. */
export function decodeMessage(item: Fields): MessageItem | undefined {
  const id = asNonEmpty(item['id'])
  const content = asList(item['content'])
  switch (item['type']) {
    case 'agentMessage': {
      const text = asString(item['text']) ?? joined(textsOf(content), '')
      return { kind: 'message', id, text, metadata: fieldsWithout(item, MESSAGE) }
    }
    case 'userMessage': {
      const text = asString(item['text']) ?? textsOf(content).join('\n')
      // Non-text parts (images, mentions) go into the metadata.
      const others = content.filter((part) => asString(asFields(part)['text']) === undefined)
      const metadata = fieldsWithout(item, MESSAGE)
      if (others.length > 0) metadata['content'] = others
      return { kind: 'user', id, text, metadata }
    }
    case 'reasoning': {
      const summary = textsOf(item['summary'] ?? item['summary_text'])
      const parts = [...summary, ...textsOf(item['content'] ?? item['raw_content'])]
      const metadata = fieldsWithout(item, REASONING)
      return { kind: 'reasoning', id, text: joined(parts, '\n\n'), metadata }
    }
    default:
      return undefined
  }
}

function joined(parts: readonly string[], separator: string): string | undefined {
  return parts.length > 0 ? parts.join(separator) : undefined
}

function commandExecution(item: Fields, type: string) {
  const { command, cwd, status, exitCode, durationMs, source } = item
  return tool(type, {
    args: jsonOf({ command, cwd }),
    metadata: { type, source },
    text: asString(item['aggregatedOutput']),
    success: status === 'completed' && (exitCode ?? 0) === 0,
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

function dynamicToolCall(item: Fields, type: string): ToolParts {
  const { namespace, tool: name, contentItems, success } = item
  const hasParts = asList(contentItems).length > 0
  const hasAnswer = hasParts || success === true
  const call = tool(asString(name) ?? type, {
    args: jsonText(item['arguments']),
    metadata: { type, namespace },
    text: hasAnswer ? contentText(contentItems, hasParts ? contentItems : undefined) : undefined,
    success: success === true,
  })
  return { ...call, runBy: 'client' }
}

/** A proposed plan is written, not run: it has only text. */
function plan(item: Fields, type: string) {
  return tool(type, { args: '{}', metadata: { type }, text: asString(item['text']), success: true })
}

/** The agent's list of steps, with each change of it. It is no item, so it has no id. */
export function planUpdate({ explanation, plan: steps }: Fields): Decoded {
  const lines = asList(steps).map((step) => stepLine(asFields(step)))
  if (lines.length === 0) return undefined
  const text = [...textsOf([explanation]), lines.join('\n')].join('\n\n')
  const metadata = fieldsWithout({ type: 'plan', explanation, plan: steps })
  return { type: 'item_completed', item: { kind: 'reasoning', id: undefined, text, metadata } }
}

function stepLine({ step, status }: Fields): string {
  const note = status === 'inProgress' ? ' (in progress)' : ''
  return `- [${status === 'completed' ? 'x' : ' '}] ${asString(step) ?? ''}${note}`
}

/** The query is known only when the search has ended. */
function webSearch(item: Fields, type: string) {
  const { query, action, results } = item
  const isKnown = query !== '' || isRecord(action)
  return tool(type, {
    args: isKnown ? jsonOf(fieldsWithout({ query, action })) : undefined,
    metadata: { type },
    text: results === null || results === undefined ? '' : jsonOf(results),
    success: true,
  })
}

function otherTool(item: Fields, type: string) {
  return tool(asString(item['tool']) ?? type, {
    args: jsonOf(fieldsWithout(item, RESULTS)),
    metadata: { type },
    text: jsonOf(fieldsWithout(item, COMMON)),
    success: item['status'] !== 'failed',
  })
}

interface ToolFields extends Pick<ToolItem, 'args' | 'metadata'>, Omit<ToolOutput, 'metadata'> {
  results?: Fields
}

function tool(name: string, parts: ToolFields): ToolParts {
  const { args, text, success, results = {} } = parts
  const metadata = fieldsWithout(parts.metadata)
  const output = { text, success, metadata: { ...metadata, ...fieldsWithout(results) } }
  return { name, args, runBy: 'codex', metadata, output }
}

/** The text of a multi-part result, or the result as JSON if it is not all text. */
function contentText(parts: unknown, answer: unknown): string {
  const list = asList(parts)
  const texts = textsOf(list)
  if (list.length > 0 && texts.length === list.length) return texts.join('\n')
  return answer === null || answer === undefined ? '' : jsonOf(answer)
}

/** The texts in a list of parts: strings, or objects with one. */
function textsOf(value: unknown): readonly string[] {
  return asList(value)
    .map((part) => asString(part) ?? asString(asFields(part)['text']))
    .filter((text) => text !== undefined)
}

/** The non-empty fields, except those named. */
function fieldsWithout(fields: Fields, names?: ReadonlySet<string>): Fields {
  const isGiven = ([name, value]: [string, unknown]) => !names?.has(name) && value != null
  return Object.fromEntries(Object.entries(fields).filter(isGiven))
}

/** Arguments as JSON text; codex sends them parsed. */
function jsonText(value: unknown): string {
  return typeof value === 'string' ? value : jsonOf(value ?? {})
}

/** JSON text; `null` if a value has none. */
export function jsonOf(value: unknown): string {
  return toJson(value) ?? 'null'
}
