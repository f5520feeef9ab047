/** The items of a turn, whichever grammar tells of them. */
import { isRecord } from '../../protocol/json.ts'
import {
  type Fields,
  fieldsOf,
  fieldsWithout,
  idOf,
  jsonOf,
  listOf,
  textOf,
  textsOf,
} from './fields.ts'

export interface SpokenItem {
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

export type CodexItem = SpokenItem | ToolItem
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
  const type = textOf(value['type'])
  if (type === undefined) return { kind: 'fault', field: 'item.type' }
  if (type === 'agentMessage') return agentMessage(value)
  if (type === 'userMessage') return userMessage(value)
  if (type === 'reasoning') return reasoning(value)
  if (IDLE_ITEMS.has(type)) return { kind: 'idle', type }
  const decodeTool = TOOLS.get(type)
  if (decodeTool === undefined) return { kind: 'unknown', type }
  const id = idOf(value['id'])
  if (id === undefined) return { kind: 'fault', field: 'item.id' }
  return { kind: 'tool', id, ...decodeTool(value, type) }
}

function agentMessage(item: Fields): SpokenItem {
  const parts = textsOf(item['content'])
  return {
    kind: 'message',
    id: idOf(item['id']),
    text: textOf(item['text']) ?? (parts.length > 0 ? parts.join('') : undefined),
    metadata: fieldsWithout(item, SPOKEN),
  }
}

/** What is not text (images, mentions) is kept aside. */
function userMessage(item: Fields): SpokenItem {
  const content = listOf(item['content'])
  const others = content.filter((part) => textOf(fieldsOf(part)['text']) === undefined)
  return {
    kind: 'user',
    id: idOf(item['id']),
    text: textOf(item['text']) ?? textsOf(content).join('\n'),
    metadata: {
      ...fieldsWithout(item, SPOKEN),
      ...(others.length > 0 && { content: others }),
    },
  }
}

function reasoning(item: Fields): SpokenItem {
  const parts = [
    ...textsOf(item['summary'] ?? item['summary_text']),
    ...textsOf(item['content'] ?? item['raw_content']),
  ]
  return {
    kind: 'reasoning',
    id: idOf(item['id']),
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
    text: textOf(item['aggregatedOutput']),
    success: isDone,
    results: { status, exitCode, durationMs },
  })
}

function fileChange(item: Fields, type: string) {
  const { changes, status } = item
  return tool(type, {
    args: jsonOf({ changes }),
    metadata: { type },
    text: textOf(item['output']) ?? jsonOf({ status }),
    success: status === 'completed',
    results: { status },
  })
}

function mcpToolCall(item: Fields, type: string) {
  const { server, tool: name, status, result, error, durationMs } = item
  const failure = textOf(fieldsOf(error)['message'])
  return tool(textOf(name) ?? type, {
    args: jsonText(item['arguments']),
    metadata: { type, server },
    text: failure ?? contentText(fieldsOf(result)['content'], result),
    success: status === 'completed' && failure === undefined,
    results: { status, durationMs },
  })
}

function dynamicToolCall(item: Fields, type: string): Omit<ToolItem, 'kind' | 'id'> {
  const { namespace, tool: name, contentItems, success } = item
  const hasParts = listOf(contentItems).length > 0
  const hasAnswer = hasParts || success === true
  return {
    ...tool(textOf(name) ?? type, {
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
    text: textOf(item['text']),
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
  return tool(textOf(item['tool']) ?? type, {
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
export function jsonText(value: unknown): string {
  return typeof value === 'string' ? value : jsonOf(value ?? {})
}

/** The text of an answer made of parts, or the answer itself as JSON when it is not all text. */
function contentText(parts: unknown, answer: unknown): string {
  const list = listOf(parts)
  const texts = textsOf(list)
  if (list.length > 0 && texts.length === list.length) return texts.join('\n')
  return answer === null || answer === undefined ? '' : jsonOf(answer)
}
