/** The tool calls of one response: which call a piece belongs to, and what becomes of it. */

import { GrowingText } from '../../async/growing-text.ts'
import { parseJsonObject } from '../../protocol/json.ts'
import type { Fields } from '../fields.ts'
import type { ResponseWriter } from '../translation.ts'
import type { CallPiece } from './wire.ts'

interface Call {
  /** The key of its item. */
  key: string
  /** The id under which it was opened, the server's or ours. */
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
  readonly #calls: Call[] = []
  readonly #byId = new Map<string, Call>()
  readonly #byIndex = new Map<number, Call>()

  constructor(writer: ResponseWriter, toMetadata: (fields: Fields) => Fields) {
    this.#writer = writer
    this.#toMetadata = toMetadata
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
    const { held } = call
    const isTooLarge = (held?.length ?? 0) + piece.fragment.length > this.#writer.maxArgumentChars
    if (call.name !== undefined || isTooLarge) this.#show(call)
    if (call.held === undefined) this.#writer.append(call.key, piece.fragment)
    else held?.append(piece.fragment)
  }

  /** The response is whole, and so are its calls: nothing tells the end of a single one. */
  finish(): void {
    for (const call of this.#calls) {
      this.#show(call)
      const { key, callId, id: call_id = callId, name = '' } = call
      this.#writer.finishItem(key, { name, call_id, provider_metadata: this.#metadata(call) })
    }
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
    const key = `call-${this.#calls.length}`
    const callId = id ?? this.#writer.nextCallId()
    const held = new GrowingText()
    const call: Call = { key, callId, id, name, isCustom, extra: undefined, held }
    this.#calls.push(call)
    if (index !== undefined) this.#byIndex.set(index, call)
    return call
  }

  #show(call: Call): void {
    const { key, callId, held, name } = call
    if (held === undefined) return
    call.held = undefined
    this.#writer.openItem(key, 'function_call', {
      ...(name !== undefined && { name }),
      call_id: callId,
      provider_metadata: this.#metadata(call),
    })
    this.#writer.append(key, held.toString())
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
