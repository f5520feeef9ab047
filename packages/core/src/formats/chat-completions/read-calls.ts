import { GrowingText } from '../../async/growing-text.ts'
import { parseJsonObject } from '../../protocol/json.ts'
import type { Fields } from '../fields.ts'
import type { ResponseWriter } from '../translation.ts'
import type { CallPiece } from './decode.ts'

interface Call {
  key: string
  /** The id it was opened with, the server's or ours. */
  callId: string
  /** The server's id. Ours, if another call has it. */
  id: string | undefined
  /** The server's id, also if another call has it. */
  givenId: string | undefined
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
    call.givenId ??= piece.id
    call.name ??= piece.name
    if (piece.extra !== undefined) call.extra = { ...call.extra, ...piece.extra }
    const { held } = call
    const isTooLarge = (held?.length ?? 0) + piece.fragment.length > this.#writer.maxArgumentChars
    if (call.name !== undefined || isTooLarge) this.#show(call)
    if (call.held === undefined) this.#writer.append(call.key, piece.fragment)
    else held?.append(piece.fragment)
  }

  /** Completes all calls with the response: single calls have no end marker. */
  finish(): void {
    for (const call of this.#calls) {
      this.#show(call)
      const { key, callId, id: call_id = callId, name = '' } = call
      this.#writer.finishItem(key, { name, call_id, provider_metadata: this.#metadata(call) })
    }
  }

  /** The input ended: emits calls that waited for a name without one. */
  showAll(): void {
    for (const call of this.#calls) this.#show(call)
  }

  /** The call that a fragment continues; undefined if it starts one. */
  #find(piece: CallPiece): Call | undefined {
    const sameIndex = piece.index === undefined ? undefined : this.#byIndex.get(piece.index)
    const known = piece.id === undefined ? undefined : this.#byId.get(piece.id)
    if (known !== undefined) {
      if (sameIndex?.givenId === piece.id) return sameIndex
      if (piece.index === undefined) return this.#repeats(known, piece) ? undefined : known
      return sameIndex === undefined && sharesId(known, piece) ? undefined : known
    }
    if (piece.id !== undefined) return sameIndex && keepsCall(sameIndex, piece)
    if (piece.name === undefined) return sameIndex ?? this.#calls.at(-1)
    if (sameIndex !== undefined) return this.#repeats(sameIndex, piece) ? undefined : sameIndex
    const last = this.#calls.at(-1)
    return piece.index === undefined && last?.name === undefined ? last : undefined
  }

  /** True for a complete call that follows another with the same index and no id, or the same id and no index. */
  #repeats({ name, key }: Call, piece: CallPiece): boolean {
    if (name === undefined || piece.name === undefined) return false
    if (name !== piece.name) return true
    // Some servers repeat the name with every fragment, so the name alone proves nothing.
    const begins = piece.fragment.startsWith('{')
    return begins && parseJsonObject(this.#writer.textOf(key)) !== undefined
  }

  #open({ index, id, name, isCustom }: CallPiece): Call {
    const key = `call-${this.#calls.length}`
    const isFree = id !== undefined && !this.#byId.has(id)
    const callId = isFree ? id : this.#writer.nextCallId()
    const held = new GrowingText()
    const given = { id: id && callId, givenId: id, name, isCustom }
    const call: Call = { key, callId, ...given, extra: undefined, held }
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

/** Whether a new index starts a call. Some servers shift the index of a call, which then goes on with arguments. */
function sharesId(call: Call, { index, name, fragment }: CallPiece): boolean {
  if (index === undefined || name === undefined) return false
  return name !== call.name || fragment === '' || fragment.trimStart().startsWith('{')
}

/** The call of the index, if a new id continues it. Some servers make up an id for every fragment. */
function keepsCall(call: Call, { name, fragment }: CallPiece): Call | undefined {
  const isLateId = call.id === undefined && (name === undefined || call.name === undefined)
  const isMadeUp = name === undefined && fragment !== '' && call.name !== undefined
  return isLateId || isMadeUp ? call : undefined
}
