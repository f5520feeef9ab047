/** The tool calls of one response: which call a piece belongs to, and what becomes of it. */
import { GrowingText } from '../../async/growing-text.ts'
import { parseJsonObject } from '../../protocol/json.ts'
import type { Fields } from '../fields.ts'
import type { ResponseWriter } from '../response-writer.ts'
import { ToolCallAggregator, type ToolCallChange } from '../tool-call-aggregator.ts'
import type { CallPiece } from './wire.ts'

interface Call {
  alias: string
  /** The key of its item. */
  key: string
  /** The id under which it is answered, the server's or ours. */
  callId: string
  id: string | undefined
  name: string | undefined
  isCustom: boolean
  extra: Fields | undefined
  /** Fragments that came before the name. An item starts with its name, if it ever gets one. */
  held: GrowingText | undefined
}

export class ChatCalls {
  readonly #writer: ResponseWriter
  readonly #toMetadata: (fields: Fields) => Fields
  readonly #aggregator: ToolCallAggregator
  readonly #calls: Call[] = []
  readonly #byId = new Map<string, Call>()
  readonly #byIndex = new Map<number, Call>()

  constructor(
    writer: ResponseWriter,
    toMetadata: (fields: Fields) => Fields,
    maxArgumentChars: number | undefined,
  ) {
    this.#writer = writer
    this.#toMetadata = toMetadata
    this.#aggregator = new ToolCallAggregator({ maxArgumentChars })
  }

  get isEmpty(): boolean {
    return this.#calls.length === 0
  }

  add(piece: CallPiece): void {
    const call = this.#find(piece) ?? this.#open(piece)
    if (piece.id !== undefined) this.#byId.set(piece.id, call)
    call.id ??= piece.id
    call.name ??= piece.name
    if (piece.extra !== undefined) call.extra = { ...call.extra, ...piece.extra }
    this.#apply(call, this.#aggregator.open([call.alias], { id: call.id, name: call.name }))
    this.#apply(call, this.#aggregator.append([call.alias], piece.fragment))
    if (call.name !== undefined) this.#show(call)
  }

  /** The response is whole, and so are its calls: nothing tells the end of a single one. */
  finish(): void {
    for (const call of this.#calls) this.#apply(call, this.#aggregator.finish([call.alias]))
  }

  /** What was held back for want of a name is shown without, because nothing more will come. */
  showAll(): void {
    for (const call of this.#calls) this.#show(call)
  }

  /** The call that a piece goes on with; undefined when it begins one. */
  #find(piece: CallPiece): Call | undefined {
    const known = piece.id === undefined ? undefined : this.#byId.get(piece.id)
    if (known !== undefined) return known
    const sameIndex = piece.index === undefined ? undefined : this.#byIndex.get(piece.index)
    if (piece.id !== undefined) return sameIndex && keepsCall(sameIndex, piece)
    if (piece.name === undefined) return sameIndex ?? this.#calls.at(-1)
    if (sameIndex !== undefined) return this.#repeats(sameIndex, piece) ? undefined : sameIndex
    const last = this.#calls.at(-1)
    return piece.index === undefined && last?.name === undefined ? last : undefined
  }

  /** True for a whole call that follows another one under the same index, without an id. */
  #repeats({ name, key }: Call, piece: CallPiece): boolean {
    if (name === undefined) return false
    if (name !== piece.name) return true
    // Some servers say the name with every fragment, so the name alone proves nothing.
    const begins = piece.fragment.startsWith('{')
    return begins && parseJsonObject(this.#writer.textOf(key)) !== undefined
  }

  #open({ index, id, name, isCustom }: CallPiece): Call {
    const alias = `piece:${this.#calls.length}`
    const held = new GrowingText()
    const call: Call = { alias, key: '', callId: '', id, name, isCustom, extra: undefined, held }
    this.#calls.push(call)
    if (index !== undefined) this.#byIndex.set(index, call)
    const itemId = id === undefined ? this.#writer.nextCallId() : undefined
    this.#apply(call, this.#aggregator.open([alias], { id, itemId, name }))
    return call
  }

  #apply(call: Call, changes: readonly ToolCallChange[]): void {
    for (const change of changes) {
      switch (change.change) {
        case 'opened':
          call.key = change.key
          call.callId = change.call.id
          break
        case 'grown':
          if (call.held !== undefined) call.held.append(change.fragment)
          else this.#writer.append(call.key, change.fragment)
          break
        case 'completed': {
          this.#show(call)
          const { args: content, name, id: call_id } = change.call
          const provider_metadata = this.#metadata(call)
          this.#writer.finishItem(call.key, { content, name, call_id, provider_metadata })
          break
        }
        case 'failed':
          this.#show(call)
          this.#writer.failItem(call.key, change.error)
      }
    }
  }

  #show(call: Call): void {
    const { held, name } = call
    if (held === undefined) return
    call.held = undefined
    this.#writer.openItem(call.key, 'function_call', {
      ...(name !== undefined && { name }),
      call_id: call.callId,
      provider_metadata: this.#metadata(call),
    })
    this.#writer.append(call.key, held.toString())
  }

  #metadata({ isCustom, extra }: Call): Fields {
    return this.#toMetadata({
      ...(isCustom && { type: 'custom' }),
      ...(extra !== undefined && { extra_content: extra }),
    })
  }
}

/**
 * Whether a piece with a new id goes on with the call of its index. A call that begins says its name,
 * or at least no arguments yet: what does neither is a server that makes up an id for every piece.
 */
function keepsCall(call: Call, { name, fragment }: CallPiece): Call | undefined {
  const isLateId = call.id === undefined && (name === undefined || call.name === undefined)
  const isMadeUp = name === undefined && fragment !== '' && call.name !== undefined
  return isLateId || isMadeUp ? call : undefined
}
