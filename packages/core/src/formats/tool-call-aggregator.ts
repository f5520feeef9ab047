import { Fifo } from '../async/fifo.ts'
import { GrowingText } from '../async/growing-text.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'
import { asFields, asNonEmpty, asString, type Fields } from './fields.ts'
import { MAX_ARGUMENT_CHARS, oncePerType, tooLarge } from './translation.ts'

/** A tool call as received so far. */
export interface ToolCallState {
  /** The vendor's `call_id`, or a generated one. */
  id: string
  name: string
  /** Position among the calls of this response, from 0. */
  index: number
  /** JSON text; empty until the call is complete, `{}` if nothing arrived. */
  args: string
  argsDone: boolean
  outputItemDone: boolean
}

/** How an input changed a call. `key` identifies the call within the response. */
export type ToolCallChange = { key: string; call: ToolCallState } & (
  | { change: 'opened' }
  | { change: 'grown'; fragment: string }
  | { change: 'completed' }
  | { change: 'failed'; error: ErrorObject }
)

export interface ToolCallAggregatorOptions {
  maxArgumentChars?: number | undefined
  onUnknown?: ((type: string) => void) | undefined
}

/** Identifiers that a vendor may use for one call. */
export type Aliases = readonly string[]

export interface CallFields {
  id?: string | undefined
  /** Used as id if the call has no other. */
  itemId?: string | undefined
  name?: string | undefined
  /** The complete arguments, which override the stream. */
  args?: string | undefined
}

// Bounds the memory for repeated events; no response has this many calls.
const MAX_DRAINED = 1000

interface Call {
  key: string
  state: ToolCallState
  text: GrowingText
  idFrom: 'call' | 'item' | 'us'
  aliases: Set<string>
  /** Ended calls keep their names, so that late events open no new call. */
  phase: 'open' | 'completed' | 'failed'
}

/**
 * Assembles tool calls from vendor events: interleaved, named late, identified by `call_id` or `item_id`, in fragments
 * or complete at the end.
 */
export class ToolCallAggregator {
  readonly #maxArgumentChars: number
  readonly #reportUnknown: (type: string) => void
  readonly #open = new Set<Call>()
  readonly #aliases = new Map<string, Call>()
  #completed: Call[] = []
  /** Without arguments, oldest first. */
  readonly #drained = new Fifo<Call>()
  #nextIndex = 0

  constructor(options: ToolCallAggregatorOptions = {}) {
    this.#maxArgumentChars = options.maxArgumentChars ?? MAX_ARGUMENT_CHARS
    this.#reportUnknown = oncePerType(options.onUnknown)
  }

  /** Adds one `response.*` notification. Throws if a call becomes too large. */
  ingestDelta(notification: { type: string; [field: string]: unknown }): void {
    for (const change of this.ingest(notification)) {
      if (change.change !== 'failed') continue
      throw new TurnstreamError('TOOL_ARGUMENTS_TOO_LARGE', change.error.message)
    }
  }

  /** Like `ingestDelta`, but returns the changes, including failed calls. */
  ingest(notification: { type: string; [field: string]: unknown }): readonly ToolCallChange[] {
    const item = itemOf(notification)
    const aliases = aliasesOf(notification, item)
    switch (notification.type) {
      case 'response.output_item.added':
        return isCall(item) ? this.open(aliases, callFields(item, notification)) : []
      case 'response.function_call_arguments.delta': {
        const fragment = notification['delta'] ?? notification['arguments_delta']
        if (typeof fragment !== 'string') return []
        return this.append(aliases, fragment, { id: asNonEmpty(notification['call_id']) })
      }
      case 'response.function_call_arguments.done':
        return this.finishArguments(aliases, callFields(notification))
      case 'response.output_item.done':
        return this.#finishItem(aliases, item, notification)
      default:
        this.#reportUnknown(notification.type)
        return []
    }
  }

  /** An item without a type, or no item at all, ends a call only if it names one that is known. */
  #finishItem(aliases: Aliases, item: Fields, notification: Fields): readonly ToolCallChange[] {
    const hasType = asString(item['type']) !== undefined
    const isKnown = !hasType && aliases.some((name) => this.#aliases.has(name))
    return isCall(item) || isKnown ? this.finish(aliases, callFields(item, notification)) : []
  }

  /** Returns completed calls by index, each once, even if the `.done` of one of the last 1,000 is repeated. */
  drainCompletedCalls(): ToolCallState[] {
    const completed = this.#completed.toSorted((a, b) => a.state.index - b.state.index)
    for (const call of completed) this.#forgetAllButIds(call)
    this.#completed = []
    while (this.#drained.size > MAX_DRAINED) this.#forget(this.#drained.shift())
    return completed.map(({ state }) => state)
  }

  /** Registers a call, or updates a known one. */
  open(aliases: Aliases, fields: CallFields = {}): readonly ToolCallChange[] {
    const known = this.#find(aliases)
    // A call opened under the names of another one reuses them.
    const isAnother = known?.phase === 'completed' || (known && isOtherId(known, fields))
    if (known === undefined || isAnother) return [this.#create(aliases, fields)]
    if (known.phase === 'open') this.#learn(known, aliases, fields)
    return []
  }

  /** Adds a fragment. Equal fragments are data, not repetitions. */
  append(aliases: Aliases, fragment: string, fields: CallFields = {}): readonly ToolCallChange[] {
    const { call, changes } = this.#reach(aliases, fields)
    if (call === undefined || call.state.argsDone || fragment === '') return changes
    if (call.text.length + fragment.length > this.#maxArgumentChars) {
      return [...changes, this.#fail(call)]
    }
    call.text.append(fragment)
    return [...changes, { change: 'grown', key: call.key, call: call.state, fragment }]
  }

  /** The arguments are complete, but not the call. */
  finishArguments(aliases: Aliases, fields: CallFields = {}): readonly ToolCallChange[] {
    const { call, changes } = this.#reach(aliases, fields)
    if (call === undefined) return changes
    const { args = '' } = fields
    if (args.length > this.#maxArgumentChars) return [...changes, this.#fail(call)]
    if (args !== '') call.text = new GrowingText(args)
    call.state.argsDone = true
    return changes
  }

  /** Completes the call: the next drain returns it. */
  finish(aliases: Aliases, fields: CallFields = {}): readonly ToolCallChange[] {
    const changes = this.finishArguments(aliases, fields)
    const call = this.#find(aliases)
    if (call?.phase !== 'open') return changes
    call.phase = 'completed'
    call.state.outputItemDone = true
    call.state.args = call.text.length === 0 ? '{}' : call.text.toString()
    call.text = new GrowingText()
    this.#open.delete(call)
    this.#completed.push(call)
    return [...changes, { change: 'completed', key: call.key, call: call.state }]
  }

  finishAll(): readonly ToolCallChange[] {
    return [...this.#open].flatMap((call) => this.finish([...call.aliases]))
  }

  get size(): number {
    return this.#open.size
  }

  /** The response ended: drops everything left. */
  reset(): void {
    this.#open.clear()
    this.#aliases.clear()
    this.#completed = []
    while (this.#drained.size > 0) this.#drained.shift()
    this.#nextIndex = 0
  }

  /** An event without identifiers belongs to the call opened last. */
  #find(aliases: Aliases): Call | undefined {
    if (aliases.length === 0) return [...this.#open].at(-1)
    const name = aliases.find((alias) => this.#aliases.has(alias))
    return name === undefined ? undefined : this.#aliases.get(name)
  }

  /** The open call with these names. Opens one that was not announced. */
  #reach(aliases: Aliases, fields: CallFields) {
    const known = this.#find(aliases)
    if (known === undefined) {
      const changes = [this.#create(aliases, fields)]
      return { call: this.#find(aliases), changes }
    }
    if (known.phase !== 'open') return { call: undefined, changes: [] }
    this.#learn(known, aliases, fields)
    return { call: known, changes: [] }
  }

  #create(aliases: Aliases, fields: CallFields): ToolCallChange {
    const index = this.#nextIndex++
    const id = `call_${index}`
    const state = { id, name: '', index, args: '', argsDone: false, outputItemDone: false }
    const key = `call-${index}`
    const text = new GrowingText()
    const call: Call = { key, state, text, idFrom: 'us', aliases: new Set(), phase: 'open' }
    this.#open.add(call)
    for (const alias of aliases) this.#aliases.get(alias)?.aliases.delete(alias)
    for (const alias of aliases) this.#aliases.delete(alias)
    this.#learn(call, [key, ...aliases], fields)
    return { change: 'opened', key, call: state }
  }

  #learn(call: Call, aliases: Aliases, { id, itemId, name }: CallFields): void {
    for (const alias of aliases) {
      if (this.#aliases.has(alias)) continue
      this.#aliases.set(alias, call)
      call.aliases.add(alias)
    }
    if (name !== undefined && call.state.name === '') call.state.name = name
    if (id !== undefined && call.idFrom !== 'call') {
      call.state.id = id
      call.idFrom = 'call'
    } else if (itemId !== undefined && call.idFrom === 'us') {
      call.state.id = itemId
      call.idFrom = 'item'
    }
  }

  #fail(call: Call): ToolCallChange {
    const { name, id } = call.state
    call.phase = 'failed'
    call.text = new GrowingText()
    this.#open.delete(call)
    const error = tooLarge(name || id, this.#maxArgumentChars)
    return { change: 'failed', key: call.key, call: call.state, error }
  }

  /** The next response reuses indexes, but not ids. */
  #forgetAllButIds(call: Call): void {
    this.#forget(call)
    const aliases = new Set([...call.aliases].filter(isId))
    if (aliases.size === 0) return
    const drained: Call = { ...call, aliases, state: { ...call.state, args: '' } }
    for (const alias of aliases) this.#aliases.set(alias, drained)
    this.#drained.push(drained)
  }

  #forget(call: Call): void {
    for (const alias of call.aliases) this.#aliases.delete(alias)
  }
}

/** Whether two call ids differ. Item ids do not count: some servers change them. */
function isOtherId(call: Call, { id }: CallFields): boolean {
  return call.idFrom === 'call' && id !== undefined && id !== call.state.id
}

export function itemOf(notification: Fields): Fields {
  return asFields(notification['item'] ?? notification['output_item'] ?? notification['outputItem'])
}

function isCall(item: Fields): boolean {
  return item['type'] === 'function_call'
}

const ID = 'id'

/** The names of a call, most reliable first. Proxies confuse call and item ids, so both count as ids. */
function aliasesOf(notification: Fields, item: Fields): string[] {
  return [
    alias(ID, item['call_id']),
    alias(ID, notification['call_id']),
    alias('index', notification['output_index']),
    alias(ID, item['id']),
    alias(ID, notification['item_id'] ?? notification['id']),
  ].filter((name) => name !== undefined)
}

function alias(kind: string, value: unknown): string | undefined {
  const name = typeof value === 'number' ? value : asNonEmpty(value)
  return name === undefined ? undefined : `${kind}:${name}`
}

/** Whether an alias is an id, not an index that another call can have. */
function isId(name: string): boolean {
  return name.startsWith(`${ID}:`)
}

/** Fields of a call under any known name. Its ids may stand beside its item. */
function callFields(fields: Fields, notification: Fields = {}): CallFields {
  const nested = asFields(fields['function'])
  return {
    id: asNonEmpty(fields['call_id']) ?? asNonEmpty(notification['call_id']),
    itemId:
      asNonEmpty(fields['item_id']) ??
      asNonEmpty(fields['id']) ??
      asNonEmpty(notification['item_id']),
    name: asString(fields['name']) ?? asString(nested['name']),
    args: asString(fields['arguments']) ?? asString(nested['arguments']),
  }
}
