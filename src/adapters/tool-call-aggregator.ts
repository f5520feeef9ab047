import { Fifo } from '../async/fifo.ts'
import { GrowingText } from '../async/growing-text.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'
import { asFields, asNonEmpty, asString, type Fields } from './fields.ts'
import { MAX_ARGUMENT_CHARS, oncePerType, tooLarge } from './translation.ts'

/** A tool call as far as it has arrived. */
export interface ToolCallState {
  /** The vendor's `call_id`, or one made here when it gives none. */
  id: string
  name: string
  /** The place among the calls of this response, from 0. */
  index: number
  /** JSON text; empty until the call is whole, `{}` when nothing ever arrived. */
  args: string
  argsDone: boolean
  outputItemDone: boolean
}

/** What an input did to a call. `key` names the call for as long as the response lasts. */
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

/** Names under which a vendor may speak of one call. */
export type Aliases = readonly string[]

export interface CallFields {
  id?: string | undefined
  /** Stands in for the id of a call that has no other. */
  itemId?: string | undefined
  name?: string | undefined
  /** The whole arguments, which win over what was streamed. */
  args?: string | undefined
}

// A vendor repeats itself within a response, and none of them has this many calls.
const MAX_DRAINED = 1000

interface Call {
  key: string
  state: ToolCallState
  text: GrowingText
  idFrom: 'call' | 'item' | 'us'
  aliases: Set<string>
  /** One that is not open is still known by its names, so that what comes late opens no new call. */
  phase: 'open' | 'completed' | 'failed'
}

/**
 * Puts tool calls together from whatever a vendor sends of them: many at once, interleaved, named late,
 * by `call_id` here and `item_id` there, in fragments or in one piece at the end.
 */
export class ToolCallAggregator {
  readonly #maxArgumentChars: number
  readonly #reportUnknown: (type: string) => void
  readonly #open = new Set<Call>()
  readonly #aliases = new Map<string, Call>()
  #completed: Call[] = []
  /** Without their arguments, oldest first. */
  readonly #drained = new Fifo<Call>()
  #nextIndex = 0

  constructor({
    maxArgumentChars = MAX_ARGUMENT_CHARS,
    onUnknown,
  }: ToolCallAggregatorOptions = {}) {
    this.#maxArgumentChars = maxArgumentChars
    this.#reportUnknown = oncePerType(onUnknown)
  }

  /** Takes one notification of the `response.*` family; throws when it makes a call too large. */
  ingestDelta(notification: { type: string; [field: string]: unknown }): void {
    for (const change of this.ingest(notification)) {
      if (change.change !== 'failed') continue
      throw new TurnstreamError('TOOL_ARGUMENTS_TOO_LARGE', change.error.message)
    }
  }

  /** Like `ingestDelta`, but answers what has changed, and a call that fails is one of the answers. */
  ingest(notification: { type: string; [field: string]: unknown }): readonly ToolCallChange[] {
    const item = itemOf(notification)
    switch (notification.type) {
      case 'response.output_item.added':
        return isCall(item) ? this.open(aliasesOf(notification, item), callFields(item)) : []
      case 'response.function_call_arguments.delta': {
        const fragment = notification['delta'] ?? notification['arguments_delta']
        const aliases = aliasesOf(notification, item)
        return typeof fragment === 'string' ? this.append(aliases, fragment) : []
      }
      case 'response.function_call_arguments.done':
        return this.finishArguments(aliasesOf(notification, item), callFields(notification))
      case 'response.output_item.done':
        return isCall(item) ? this.finish(aliasesOf(notification, item), callFields(item)) : []
      default:
        this.#reportUnknown(notification.type)
        return []
    }
  }

  /**
   * Returns the completed calls in the order of their index, each once. Of the last 1,000 only the ids are
   * remembered, so that a repeated `.done` does not hand them out again.
   */
  drainCompletedCalls(): ToolCallState[] {
    const completed = this.#completed.toSorted((a, b) => a.state.index - b.state.index)
    for (const call of completed) this.#forgetAllButIds(call)
    this.#completed = []
    while (this.#drained.size > MAX_DRAINED) this.#forget(this.#drained.shift())
    return completed.map(({ state }) => state)
  }

  /** Makes a call known, or adds what is new about one that is. */
  open(aliases: Aliases, fields: CallFields = {}): readonly ToolCallChange[] {
    const known = this.#find(aliases)
    // A vendor that opens a call under names which another one has, has used them again.
    const isAnother = known?.phase === 'completed' || (known && isOtherId(known, fields))
    if (known === undefined || isAnother) return [this.#create(aliases, fields)]
    if (known.phase === 'open') this.#learn(known, aliases, fields)
    return []
  }

  /** Adds a fragment; fragments that are alike are data, not repetitions. */
  append(aliases: Aliases, fragment: string): readonly ToolCallChange[] {
    const { call, changes } = this.#reach(aliases, {})
    if (call === undefined || call.state.argsDone || fragment === '') return changes
    if (call.text.length + fragment.length > this.#maxArgumentChars) {
      return [...changes, this.#fail(call)]
    }
    call.text.append(fragment)
    return [...changes, { change: 'grown', key: call.key, call: call.state, fragment }]
  }

  /** The arguments are whole, the call is not yet. */
  finishArguments(aliases: Aliases, fields: CallFields = {}): readonly ToolCallChange[] {
    const { call, changes } = this.#reach(aliases, fields)
    if (call === undefined) return changes
    const { args = '' } = fields
    if (args.length > this.#maxArgumentChars) return [...changes, this.#fail(call)]
    if (args !== '') call.text = new GrowingText(args)
    call.state.argsDone = true
    return changes
  }

  /** The call is whole: the next drain hands it out. */
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

  /** Finishes every call that is still open, in order. */
  finishAll(): readonly ToolCallChange[] {
    return [...this.#open].flatMap((call) => this.finish([...call.aliases]))
  }

  /** How many calls are open. */
  get size(): number {
    return this.#open.size
  }

  /** The response is over: everything that is left of it is dropped. */
  reset(): void {
    this.#open.clear()
    this.#aliases.clear()
    this.#completed = []
    while (this.#drained.size > 0) this.#drained.shift()
    this.#nextIndex = 0
  }

  /** What is said of a call without any name is said of the one opened last. */
  #find(aliases: Aliases): Call | undefined {
    if (aliases.length === 0) return [...this.#open].at(-1)
    for (const alias of aliases) {
      const call = this.#aliases.get(alias)
      if (call !== undefined) return call
    }
    return undefined
  }

  /** The open call of these names; one that nobody announced is opened by what is said of it. */
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
    const state: ToolCallState = {
      id: `call_${index}`,
      name: '',
      index,
      args: '',
      argsDone: false,
      outputItemDone: false,
    }
    const call: Call = {
      key: `call-${index}`,
      state,
      text: new GrowingText(),
      idFrom: 'us',
      aliases: new Set(),
      phase: 'open',
    }
    this.#open.add(call)
    for (const alias of aliases) this.#aliases.get(alias)?.aliases.delete(alias)
    for (const alias of aliases) this.#aliases.delete(alias)
    this.#learn(call, [call.key, ...aliases], fields)
    return { change: 'opened', key: call.key, call: state }
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

  /** The next response uses the same indexes, but other ids. */
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

/** One call has one id; ids of items do not count, some servers change them at will. */
function isOtherId(call: Call, { id }: CallFields): boolean {
  return call.idFrom === 'call' && id !== undefined && id !== call.state.id
}

/** The item that a `response.*` notification is about. */
export function itemOf(notification: Fields): Fields {
  return asFields(notification['item'] ?? notification['output_item'] ?? notification['outputItem'])
}

function isCall(item: Fields): boolean {
  return item['type'] === 'function_call'
}

const ID = 'id'

/**
 * The names of a call, in the order of trust: some servers make up a new item id for every event. Ids
 * of calls and of items are not told apart, because proxies send one under the name of the other.
 */
function aliasesOf(notification: Fields, item: Fields): string[] {
  return [
    alias(ID, item['call_id'] ?? notification['call_id']),
    alias('index', notification['output_index']),
    alias(ID, item['id'] ?? notification['item_id'] ?? notification['id']),
  ].filter((name) => name !== undefined)
}

function alias(kind: string, value: unknown): string | undefined {
  const name = typeof value === 'number' ? value : asNonEmpty(value)
  return name === undefined ? undefined : `${kind}:${name}`
}

/** Whether an alias is an id, and not an index that another call can have. */
function isId(name: string): boolean {
  return name.startsWith(`${ID}:`)
}

/** What a notification says of a call, under any of the names in use. */
function callFields(fields: Fields): CallFields {
  const nested = asFields(fields['function'])
  return {
    id: asNonEmpty(fields['call_id']),
    itemId: asNonEmpty(fields['item_id']) ?? asNonEmpty(fields['id']),
    name: asString(fields['name']) ?? asString(nested['name']),
    args: asString(fields['arguments']) ?? asString(nested['arguments']),
  }
}
