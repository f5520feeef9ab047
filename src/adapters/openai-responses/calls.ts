/** The calls of a response: those that the client answers, and those to tools of the vendor. */
import { isRecord } from '../../protocol/json.ts'
import { asString, type Fields, toJson } from '../fields.ts'
import { toMetadata } from '../metadata.ts'
import type { ResponseWriter } from '../response-writer.ts'
import {
  type CallFields,
  ToolCallAggregator,
  type ToolCallChange,
} from '../tool-call-aggregator.ts'
import type { WireItem } from './wire.ts'

// The input of a custom tool is plain text. It becomes the one member of a JSON object, fragment by
// fragment, so that what is streamed is the beginning of what it will be.
const INPUT_START = '{"input":"'
const INPUT_END = '"}'

interface OpenCall {
  isCustom: boolean
  /** Whether any of its arguments were streamed. */
  hasGrown: boolean
}

export class Calls {
  readonly #writer: ResponseWriter
  readonly #aggregator: ToolCallAggregator
  /** By item key. */
  readonly #open = new Map<string, OpenCall>()
  readonly #unanswered = new Set<string>()

  constructor(writer: ResponseWriter, maxArgumentChars: number | undefined) {
    this.#writer = writer
    this.#aggregator = new ToolCallAggregator({ maxArgumentChars })
  }

  get hasUnanswered(): boolean {
    return this.#unanswered.size > 0
  }

  reset(): void {
    this.#aggregator.reset()
    this.#open.clear()
    this.#unanswered.clear()
  }

  isOpen(itemKey: string): boolean {
    return this.#open.has(itemKey)
  }

  open(itemKey: string, item: WireItem): void {
    this.#reach(itemKey, isCustom(item), fieldsOf(item))
  }

  growArguments(itemKey: string, fragment: string): void {
    this.#reach(itemKey, false).hasGrown = true
    this.#write(this.#aggregator.append([itemKey], fragment))
  }

  settleArguments(itemKey: string, args: string | undefined, name: string | undefined): void {
    this.#reach(itemKey, false)
    this.#write(this.#aggregator.finishArguments([itemKey], { args, name }))
  }

  growInput(itemKey: string, fragment: string): void {
    this.#reach(itemKey, true).hasGrown = true
    this.#write(this.#aggregator.append([itemKey], escaped(fragment)))
  }

  settleInput(itemKey: string, input: string | undefined): void {
    this.#closeInput(itemKey, this.#reach(itemKey, true), input)
    const args = input === undefined ? undefined : JSON.stringify({ input })
    this.#write(this.#aggregator.finishArguments([itemKey], { args }))
  }

  finish(itemKey: string, item: WireItem): void {
    const fields = fieldsOf(item)
    const call = this.#reach(itemKey, isCustom(item), fields)
    this.#open.delete(itemKey)
    if (call.isCustom) this.#closeInput(itemKey, call, asString(item['input']))
    // What the vendor said of the call that is not in our own item.
    const { arguments: _args, input: _input, name: _name, call_id: _id, ...rest } = item
    this.#write(this.#aggregator.finish([itemKey], fields), { openai: rest })
  }

  /** Ends the calls that were still open when the vendor ended the response. */
  finishAll(): void {
    for (const [itemKey, { isCustom }] of this.#open) {
      this.finish(itemKey, { type: isCustom ? 'custom_tool_call' : 'function_call' })
    }
  }

  /** Announces a call to a tool of the vendor; what it is about is known when it is done. */
  openBuiltIn(itemKey: string, item: WireItem): void {
    this.#writer.openItem(`tool ${itemKey}`, 'function_call', {
      name: item.type,
      call_id: callIdOf(item),
      provider_metadata: toMetadata('openai', {}, isRunByVendor(item)),
    })
  }

  /** Writes a call to a tool of the vendor, and its output when the item holds it. */
  finishBuiltIn(itemKey: string, item: WireItem): void {
    this.openBuiltIn(itemKey, item)
    const isVendors = isRunByVendor(item)
    const { parameters, results } = split(item)
    this.#writer.finishItem(`tool ${itemKey}`, {
      content: toJson(parameters) ?? '{}',
      name: item.type,
      call_id: callIdOf(item),
      provider_metadata: toMetadata('openai', item, isVendors),
    })
    if (!isVendors) this.#unanswered.add(callIdOf(item))
    else if (!ANSWERED_APART.has(item.type)) {
      const { type, id } = item
      this.#writeOutput(itemKey, item, { text: toJson(results) ?? '{}', kept: { type, id } })
    }
  }

  /** Writes an output that is an item of its own. */
  finishOutput(itemKey: string, item: WireItem): void {
    const text = asString(item['output']) ?? toJson(split(item).results) ?? '{}'
    this.#writeOutput(itemKey, item, { text, kept: item })
    this.#unanswered.delete(callIdOf(item))
  }

  #writeOutput(itemKey: string, item: WireItem, { text, kept }: { text: string; kept: Fields }) {
    const key = `output ${itemKey}`
    const { status, error } = item
    const hasFailed = status === 'failed' || status === 'incomplete' || (error ?? null) !== null
    this.#writer.openItem(key, 'function_call_output', { call_id: callIdOf(item) })
    this.#writer.finishItem(key, {
      content: text,
      success: !hasFailed,
      provider_metadata: toMetadata('openai', kept, true),
    })
  }

  #reach(itemKey: string, isCustom: boolean, fields: CallFields = {}): OpenCall {
    const changes = this.#aggregator.open([itemKey], fields)
    this.#write(changes)
    const known = this.#open.get(itemKey)
    if (known !== undefined && changes.length === 0) return known
    const call: OpenCall = { isCustom, hasGrown: false }
    this.#open.set(itemKey, call)
    if (isCustom) this.#write(this.#aggregator.append([itemKey], INPUT_START))
    return call
  }

  /** The fragments together are JSON, too. */
  #closeInput(itemKey: string, call: OpenCall, input = ''): void {
    const rest = call.hasGrown ? '' : escaped(input)
    this.#write(this.#aggregator.append([itemKey], rest + INPUT_END))
  }

  #write(changes: readonly ToolCallChange[], metadata?: Fields): void {
    for (const change of changes) {
      if (change.change === 'completed') this.#unanswered.add(change.call.id)
      this.#writer.writeCall(change, {}, metadata)
    }
  }
}

function isCustom({ type }: WireItem): boolean {
  return type === 'custom_tool_call'
}

function fieldsOf(item: WireItem): CallFields {
  const { call_id, id, name, arguments: json } = item
  const input = asString(item['input'])
  const wrapped = input === undefined ? undefined : JSON.stringify({ input })
  const args = isCustom(item) ? wrapped : asString(json)
  return { id: asString(call_id), itemId: asString(id), name: asString(name), args }
}

/** A text as it stands between the quotes of a JSON string. */
function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

/** Fields of a vendor's tool that say what came out of a call; the others say what went in. */
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

function callIdOf({ call_id, id, type }: WireItem): string {
  return asString(call_id) ?? asString(id) ?? type
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
