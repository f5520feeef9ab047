/** Tools that came with the vendor, not with the request: as calls and outputs that a reader can see. */
import { isRecord } from '../../protocol/json.ts'
import { EXECUTED_BY_PROVIDER } from '../../protocol/tool-execution.ts'
import type { ResponseWriter } from '../response-writer.ts'
import type { Fields, WireItem } from './ending.ts'

/** Fields that say what came out of a call; the others say what went in. */
const RESULT_FIELDS = new Set([
  'error',
  'output',
  'outputs',
  'result',
  'results',
  'sources',
  'status',
  'tools',
])
/** Fields that name the item. */
const NAME_FIELDS = new Set(['call_id', 'id', 'type'])

/** Their output is an item of its own, whoever runs them. */
const ANSWERED_APART = new Set([
  'apply_patch_call',
  'computer_call',
  'local_shell_call',
  'mcp_approval_request',
  'program',
  'shell_call',
  'tool_search_call',
])

/** Whether the vendor runs the tool itself, so that the client owes it nothing. */
function isRunByVendor({ type, environment, execution }: WireItem): boolean {
  switch (type) {
    case 'apply_patch_call':
    case 'computer_call':
    case 'local_shell_call':
    case 'mcp_approval_request':
      return false
    case 'shell_call':
      return isRecord(environment) && environment['type'] === 'container_reference'
    case 'tool_search_call':
      return execution !== 'client'
    default:
      return true
  }
}

/** Announces the call; what it is about is known when it is done. */
export function openToolCall(writer: ResponseWriter, place: string, item: WireItem): void {
  writer.openItem(`tool ${place}`, 'function_call', {
    name: item.type,
    call_id: callIdOf(item),
    ...(isRunByVendor(item) && { provider_metadata: { executed_by: EXECUTED_BY_PROVIDER } }),
  })
}

/** Writes the call, and its output when the item holds it. Answers the id of a call left to the client. */
export function finishToolCall(
  writer: ResponseWriter,
  place: string,
  item: WireItem,
): string | undefined {
  openToolCall(writer, place, item)
  const isVendors = isRunByVendor(item)
  const { parameters, results } = split(item)
  const mark = isVendors ? { executed_by: EXECUTED_BY_PROVIDER } : {}
  writer.finishItem(`tool ${place}`, {
    content: toJson(parameters),
    name: item.type,
    call_id: callIdOf(item),
    provider_metadata: { ...mark, openai: item },
  })
  if (isVendors && !ANSWERED_APART.has(item.type)) {
    const { type, id } = item
    const output = { item, text: toJson(results), metadata: { ...mark, openai: { type, id } } }
    writeOutput(writer, place, output)
  }
  return isVendors ? undefined : callIdOf(item)
}

/** Writes an output that is an item of its own. Answers the id of the call that it answers. */
export function finishToolOutput(writer: ResponseWriter, place: string, item: WireItem): string {
  const { output } = item
  const text = typeof output === 'string' ? output : toJson(split(item).results)
  const metadata = { executed_by: EXECUTED_BY_PROVIDER, openai: item }
  writeOutput(writer, place, { item, text, metadata })
  return callIdOf(item)
}

function writeOutput(
  writer: ResponseWriter,
  place: string,
  { item, text, metadata }: { item: WireItem; text: string; metadata: Fields },
): void {
  const key = `output ${place}`
  writer.openItem(key, 'function_call_output', { call_id: callIdOf(item) })
  writer.finishItem(key, { content: text, success: isSuccess(item), provider_metadata: metadata })
}

function callIdOf({ call_id, id, type }: WireItem): string {
  if (typeof call_id === 'string') return call_id
  return typeof id === 'string' ? id : type
}

function isSuccess({ status, error }: WireItem): boolean {
  return status !== 'failed' && status !== 'incomplete' && (error === undefined || error === null)
}

function split(item: WireItem): { parameters: Fields; results: Fields } {
  const { action, ...fields } = item
  const parameters: [string, unknown][] = []
  const results: [string, unknown][] = []
  for (const [name, value] of Object.entries(fields)) {
    if (NAME_FIELDS.has(name)) continue
    if (RESULT_FIELDS.has(name)) results.push([name, value])
    else parameters.push([name, value])
  }
  // A web search keeps what it found beside what it looked for.
  if (isRecord(action)) {
    const { sources, ...rest } = action
    parameters.push(['action', rest])
    if (sources !== undefined) results.push(['sources', sources])
  }
  return { parameters: Object.fromEntries(parameters), results: Object.fromEntries(results) }
}

/** JSON can be nested more deeply than it can be written: that much is no parameter of a tool. */
function toJson(fields: Fields): string {
  try {
    return JSON.stringify(fields)
  } catch {
    return '{}'
  }
}
