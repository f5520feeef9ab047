import { isRecord } from '../../protocol/json.ts'
import { asList, asString } from '../fields.ts'
import type { ResponseWriter } from '../translation.ts'
import type { PartKind, TextPiece, WireItem } from './decode.ts'

export type TextItemType = 'message' | 'reasoning'

interface TextItem {
  /** Key of the item in the vendor's output. */
  itemKey: string
  /** Key of the item in the writer. */
  key: string
  type: TextItemType
  parts: Set<string>
  /** The growing part, and its start in the item's text. */
  kind: PartKind | undefined
  index: number
  partStart: number
  isRefusal: boolean
  annotations: unknown[]
}

/** Reasoning parts are paragraphs; message parts are one text. */
const SEPARATORS = { reasoning: '\n\n', message: '' }

/** Messages and reasoning, each emitted as one item with any number of parts. */
export class TextItems {
  /** Whether any message of this response is a refusal. */
  hasRefusal = false
  readonly #writer: ResponseWriter
  readonly #open = new Map<string, TextItem>()
  /** The last used open item: nearly every delta belongs to it. */
  #last: TextItem | undefined

  constructor(writer: ResponseWriter) {
    this.#writer = writer
  }

  reset(): void {
    this.#open.clear()
    this.#last = undefined
    this.hasRefusal = false
  }

  isOpen(type: TextItemType, itemKey: string): boolean {
    return this.#open.has(`${type} ${itemKey}`)
  }

  /** Key of the last opened item of this type that is still open. */
  lastOpen(type: TextItemType): string | undefined {
    const last = [...this.#open.values()].findLast((item) => item.type === type)
    return last?.itemKey
  }

  open(type: TextItemType, itemKey: string): TextItem {
    const last = this.#last
    if (last?.itemKey === itemKey && last.type === type) return last
    const key = `${type} ${itemKey}`
    const known = this.#open.get(key)
    if (known !== undefined) return (this.#last = known)
    const start = { kind: undefined, index: 0, partStart: 0, isRefusal: false }
    const item: TextItem = { itemKey, key, type, parts: new Set(), annotations: [], ...start }
    this.#open.set(key, item)
    this.#last = item
    // The first part shows whether a message is a refusal, which must be emitted first.
    if (type === 'reasoning') this.#writer.openItem(key, type)
    return item
  }

  openAtOnce(type: TextItemType, itemKey: string): void {
    this.#show(this.open(type, itemKey))
  }

  #show({ key, type, isRefusal }: TextItem): void {
    const fields = isRefusal ? { provider_metadata: { openai: { refusal: true } } } : {}
    this.#writer.openItem(key, type, fields)
  }

  /** Adds text to a part, or what the deltas of a complete part omitted. A difference waits for the item. */
  add(itemKey: string, piece: TextPiece): void {
    const { kind, index, text, isWhole } = piece
    const item = this.open(textTypeOf(kind), itemKey)
    const isCurrent = item.kind === kind && item.index === index
    if (!isCurrent) {
      if (isWhole && item.parts.has(`${kind} ${index}`)) return
      this.#turnTo(item, piece)
    }
    if (!isWhole) {
      this.#writer.append(item.key, text)
      return
    }
    const streamed = this.#writer.textOf(item.key).slice(item.partStart)
    if (text.startsWith(streamed)) this.#writer.append(item.key, text.slice(streamed.length))
  }

  annotate(itemKey: string, annotation: unknown): void {
    this.open('message', itemKey).annotations.push(annotation)
  }

  /** Ends an item with the vendor's final version, or with its text so far. */
  finish(type: TextItemType, itemKey: string, wire: WireItem): void {
    const item = this.open(type, itemKey)
    this.#open.delete(item.key)
    this.#last = undefined
    const { content, metadata } =
      type === 'message' ? finalMessage(item, wire) : finalReasoning(wire)
    if (item.isRefusal) this.hasRefusal = true
    this.#show(item)
    this.#writer.finishItem(item.key, { content, provider_metadata: { openai: metadata } })
  }

  finishAll(): void {
    for (const { type, itemKey } of this.#open.values()) this.finish(type, itemKey, { type })
  }

  #turnTo(item: TextItem, { kind, index }: TextPiece): void {
    if (kind === 'refusal') item.isRefusal = true
    this.#show(item)
    const { length } = this.#writer.textOf(item.key)
    if (length > 0) this.#writer.append(item.key, SEPARATORS[item.type])
    item.kind = kind
    item.index = index
    item.parts.add(`${kind} ${index}`)
    item.partStart = length === 0 ? 0 : length + SEPARATORS[item.type].length
  }
}

export function textTypeOf(kind: PartKind): TextItemType {
  return kind === 'output_text' || kind === 'refusal' ? 'message' : 'reasoning'
}

/** The metadata is the vendor's item without its text; parts of several kinds are stored unchanged. */
function finalMessage(item: TextItem, { content, ...rest }: WireItem) {
  const parts = asList(content).filter(isRecord)
  const texts = parts
    .map(({ text, refusal }) => asString(text ?? refusal))
    .filter((text) => text !== undefined)
  if (parts.some(({ type }) => type === 'refusal')) item.isRefusal = true
  const listed = parts.flatMap(({ annotations }) => asList(annotations))
  const annotations = listed.length > 0 ? listed : item.annotations
  return {
    content: texts.length > 0 ? texts.join('') : undefined,
    metadata: {
      ...rest,
      ...(annotations.length > 0 && { annotations }),
      ...(item.isRefusal && { refusal: true }),
      ...(parts.length > 1 && { content: parts }),
    },
  }
}

/** The metadata is the vendor's item: its encrypted content must be returned unchanged. */
function finalReasoning(wire: WireItem) {
  const parts = [...asList(wire['summary']), ...asList(wire['content'])].filter(isRecord)
  const texts = parts.map(({ text }) => asString(text)).filter((text) => text !== undefined)
  const content = texts.length > 0 ? texts.join(SEPARATORS.reasoning) : undefined
  return { content, metadata: wire }
}
