/** The calls of a response: client calls and vendor-run tools. */

import { isRecord } from '../../protocol/json.ts'
import { asFields, asString, type Fields, nameList, nameSet, toJson } from '../fields.ts'
import { toMetadata } from '../metadata.ts'
import type { CallFields } from '../tool-call-aggregator.ts'
import type { ResponseWriter } from '../translation.ts'
import type { WireItem } from './decode.ts'

// The input of a custom tool is plain text. It becomes the only member of a JSON object, fragment by fragment, so that
// the stream is a prefix of the result.
const INPUT_START = '{"input":"'
const INPUT_END = '"}'

interface OpenCall {
  key: string
  /** The vendor's id, or ours. */
  callId: string
  /** The vendor's `call_id`, which may come late. */
  id: string | undefined
  name: string | undefined
  isCustom: boolean
  hasGrown: boolean
  /** Whether the arguments are complete: later fragments are dropped. */
  isSettled: boolean
  /** The complete arguments, which override the stream. */
  args: string | undefined
}

export class Calls {
  readonly #writer: ResponseWriter
  readonly #open = new Map<string, OpenCall>()
  readonly #unanswered = new Set<string>()
  #count = 0

  constructor(writer: ResponseWriter) {
    this.#writer = writer
  }

  get hasUnanswered(): boolean {
    return this.#unanswered.size > 0
  }

  reset(): void {
    this.#open.clear()
    this.#unanswered.clear()
  }

  isOpen(itemKey: string): boolean {
    return this.#open.has(itemKey)
  }

  open(itemKey: string, item: WireItem): void {
    this.#reach(itemKey, isCustom(item), fieldsOf(item))
  }

  grow(itemKey: string, fragment: string, isCustom: boolean): void {
    const call = this.#reach(itemKey, isCustom)
    call.hasGrown = true
    if (!call.isSettled) {
      this.#writer.append(call.key, isCustom ? escaped(fragment) : fragment)
    }
  }

  settleArguments(itemKey: string, args: string | undefined, name: string | undefined): void {
    this.#settle(this.#reach(itemKey, false, { name }), args)
  }

  settleInput(itemKey: string, input: string | undefined): void {
    const call = this.#reach(itemKey, true)
    this.#closeInput(call, input)
    this.#settle(call, input === undefined ? undefined : JSON.stringify({ input }))
  }

  finish(itemKey: string, item: WireItem): void {
    const fields = fieldsOf(item)
    const call = this.#reach(itemKey, isCustom(item), fields)
    this.#open.delete(itemKey)
    if (call.isCustom) this.#closeInput(call, asString(item['input']))
    this.#settle(call, fields.args)
    // The vendor's fields that our item does not have.
    const { arguments: _args, input: _input, name: _name, call_id: _id, ...rest } = item
    const { key, callId, id: call_id = callId, args: content } = call
    const provider_metadata = { openai: rest }
    const final = { content, name: call.name, call_id, provider_metadata }
    if (this.#writer.finishCall(key, final)) this.#unanswered.add(call_id)
  }

  finishAll(): void {
    for (const [itemKey, { isCustom }] of this.#open) {
      this.finish(itemKey, { type: isCustom ? 'custom_tool_call' : 'function_call' })
    }
  }

  /** Announces a call to a vendor tool. Its arguments are known when it is done. */
  openBuiltIn(itemKey: string, item: WireItem): void {
    this.#writer.openItem(`tool ${itemKey}`, 'function_call', {
      name: item.type,
      call_id: callIdOf(item),
      provider_metadata: toMetadata('openai', {}, isRunByVendor(item)),
    })
  }

  /** Writes a call to a vendor tool, and its output if the item has it. */
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

  /** The open call of this key. Opens one that was not announced or has another id. */
  #reach(itemKey: string, isCustom: boolean, fields: CallFields = {}): OpenCall {
    const { id, itemId, name } = fields
    const known = this.#open.get(itemKey)
    const isAnother = known?.id !== undefined && id !== undefined && id !== known.id
    if (known !== undefined && !isAnother) {
      known.id ??= id
      known.name ??= name
      return known
    }
    this.#count += 1
    const key = `call-${this.#count}`
    const callId = id ?? itemId ?? this.#writer.nextCallId()
    const state = { hasGrown: false, isSettled: false, args: undefined }
    const call: OpenCall = { key, callId, id, name, isCustom, ...state }
    this.#open.set(itemKey, call)
    this.#writer.openItem(key, 'function_call', { ...(name && { name }), call_id: callId })
    if (isCustom) this.#writer.append(key, INPUT_START)
    return call
  }

  #settle(call: OpenCall, args = ''): void {
    call.isSettled = true
    call.args = args || call.args
  }

  /** The concatenated fragments are also JSON. */
  #closeInput(call: OpenCall, input = ''): void {
    if (call.isSettled) return
    this.#writer.append(call.key, (call.hasGrown ? '' : escaped(input)) + INPUT_END)
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

/** A text escaped for a JSON string. */
function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

/** Fields with the result of a vendor tool; all others are input. */
const RESULT_FIELDS = nameSet('error output outputs result results sources status tools')
const NAME_FIELDS = nameSet('call_id id type')

const RUN_BY_CLIENT = nameList(
  'apply_patch_call computer_call local_shell_call mcp_approval_request',
)

/** Their output is a separate item, also if the vendor runs them. */
const ANSWERED_APART = new Set([...RUN_BY_CLIENT, 'program', 'shell_call', 'tool_search_call'])

/** Whether the vendor runs the tool, so that no client result is expected. */
function isRunByVendor({ type, environment, execution }: WireItem): boolean {
  if (type === 'shell_call') return asFields(environment)['type'] === 'container_reference'
  if (type === 'tool_search_call') return execution !== 'client'
  return !RUN_BY_CLIENT.includes(type)
}

function callIdOf({ call_id, id, type }: WireItem): string {
  return asString(call_id) ?? asString(id) ?? type
}

function split(item: WireItem): { parameters: Fields; results: Fields } {
  const { action, ...fields } = item
  const entries = Object.entries(fields).filter(([name]) => !NAME_FIELDS.has(name))
  const parameters = entries.filter(([name]) => !RESULT_FIELDS.has(name))
  const results = entries.filter(([name]) => RESULT_FIELDS.has(name))
  // A web search stores its results next to its query.
  if (isRecord(action)) {
    const { sources, ...rest } = action
    parameters.push(['action', rest])
    if (sources !== undefined) results.push(['sources', sources])
  }
  return { parameters: Object.fromEntries(parameters), results: Object.fromEntries(results) }
}
