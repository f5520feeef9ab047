import type { ResponseWriter } from '../response-writer.ts'
import {
  type CallFields,
  ToolCallAggregator,
  type ToolCallChange,
} from '../tool-call-aggregator.ts'
import { writeCallChange } from './call-changes.ts'
import type { Fields, WireItem } from './ending.ts'

// The input of a custom tool is plain text. It becomes the one member of a JSON object, fragment by
// fragment, so that what is streamed is the beginning of what it will be.
const INPUT_START = '{"input":"'
const INPUT_END = '"}'

interface OpenCall {
  isCustom: boolean
  /** Whether any of its arguments were streamed. */
  hasGrown: boolean
}

/** The calls of a response that the client has to answer. */
export class CallItems {
  readonly #writer: ResponseWriter
  readonly #aggregator: ToolCallAggregator
  /** By their place in the output. */
  readonly #open = new Map<string, OpenCall>()
  readonly #unanswered = new Set<string>()

  constructor(writer: ResponseWriter, maxArgumentChars: number | undefined) {
    this.#writer = writer
    this.#aggregator = new ToolCallAggregator({
      ...(maxArgumentChars !== undefined && { maxArgumentChars }),
    })
  }

  get hasUnanswered(): boolean {
    return this.#unanswered.size > 0
  }

  reset(): void {
    this.#aggregator.reset()
    this.#open.clear()
    this.#unanswered.clear()
  }

  isOpen(place: string): boolean {
    return this.#open.has(place)
  }

  open(place: string, item: WireItem): void {
    this.#reach(place, isCustom(item), fieldsOf(item))
  }

  growArguments(place: string, fragment: string): void {
    this.#reach(place, false).hasGrown = true
    this.#write(this.#aggregator.append([place], fragment))
  }

  settleArguments(place: string, args: string | undefined, name: string | undefined): void {
    this.#reach(place, false)
    this.#write(this.#aggregator.finishArguments([place], { args, name }))
  }

  growInput(place: string, fragment: string): void {
    this.#reach(place, true).hasGrown = true
    this.#write(this.#aggregator.append([place], inner(fragment)))
  }

  settleInput(place: string, input: string | undefined): void {
    this.#closeInput(place, this.#reach(place, true), input)
    const args = input === undefined ? undefined : toArguments(input)
    this.#write(this.#aggregator.finishArguments([place], { args }))
  }

  finish(place: string, item: WireItem): void {
    const fields = fieldsOf(item)
    const call = this.#reach(place, isCustom(item), fields)
    this.#open.delete(place)
    if (call.isCustom) this.#closeInput(place, call, inputOf(item))
    this.#write(this.#aggregator.finish([place], fields), { openai: restOf(item) })
  }

  /** Ends the calls of which the vendor has said nothing more; it has ended the response. */
  finishAll(): void {
    for (const [place, { isCustom }] of this.#open) {
      this.finish(place, { type: isCustom ? 'custom_tool_call' : 'function_call' })
    }
  }

  /** A call to a tool of the vendor that is left to the client. */
  expectAnswer(callId: string | undefined): void {
    if (callId !== undefined) this.#unanswered.add(callId)
  }

  answer(callId: string): void {
    this.#unanswered.delete(callId)
  }

  #reach(place: string, isCustom: boolean, fields: CallFields = {}): OpenCall {
    const changes = this.#aggregator.open([place], fields)
    this.#write(changes)
    const known = this.#open.get(place)
    if (known !== undefined && changes.length === 0) return known
    const call: OpenCall = { isCustom, hasGrown: false }
    this.#open.set(place, call)
    if (isCustom) this.#write(this.#aggregator.append([place], INPUT_START))
    return call
  }

  /** Whoever puts the fragments together gets JSON, too. */
  #closeInput(place: string, call: OpenCall, input = ''): void {
    const rest = call.hasGrown ? '' : inner(input)
    this.#write(this.#aggregator.append([place], rest + INPUT_END))
  }

  #write(changes: readonly ToolCallChange[], metadata?: Fields): void {
    for (const change of changes) {
      if (change.change === 'completed') this.#unanswered.add(change.call.id)
      writeCallChange(this.#writer, change, metadata)
    }
  }
}

function isCustom({ type }: WireItem): boolean {
  return type === 'custom_tool_call'
}

function fieldsOf(item: WireItem): CallFields {
  const { call_id, id, name } = item
  return { id: string(call_id), itemId: string(id), name: string(name), args: argumentsOf(item) }
}

function argumentsOf(item: WireItem): string | undefined {
  if (!isCustom(item)) return string(item['arguments'])
  const input = inputOf(item)
  return input === undefined ? undefined : toArguments(input)
}

function inputOf(item: WireItem): string | undefined {
  return string(item['input'])
}

function toArguments(input: string): string {
  return JSON.stringify({ input })
}

/** A text as it stands between the quotes of a JSON string. */
function inner(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

/** What the vendor said of a call that is not in our own item. */
function restOf({ arguments: _args, input: _input, name: _name, call_id: _id, ...rest }: WireItem) {
  return rest
}

function string(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
