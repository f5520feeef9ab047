import { isRecord } from '../../protocol/json.ts'
import type { ResponseWriter } from '../response-writer.ts'
import type { Fields, WireItem } from './ending.ts'
import type { PartName } from './wire.ts'

export type TextItemType = 'message' | 'reasoning'

interface TextItem {
  key: string
  place: string
  type: TextItemType
  /** The parts that have begun. */
  parts: Set<string>
  /** The part that grows, and where it begins in the text of the item. */
  part: string
  partStart: number
  isRefusal: boolean
  annotations: unknown[]
}

/** Parts of a thought are paragraphs; parts of a message are one text. */
const SEPARATORS = { reasoning: '\n\n', message: '' }

/** Messages and reasoning, each written as one item, however many parts it has. */
export class TextItems {
  readonly #writer: ResponseWriter
  readonly #open = new Map<string, TextItem>()
  #hasRefusal = false

  constructor(writer: ResponseWriter) {
    this.#writer = writer
  }

  /** Whether any message of this response has been a refusal. */
  get hasRefusal(): boolean {
    return this.#hasRefusal
  }

  reset(): void {
    this.#open.clear()
    this.#hasRefusal = false
  }

  isOpen(type: TextItemType, place: string): boolean {
    return this.#open.has(`${type} ${place}`)
  }

  /** The place of the item of this type that was opened last and is still open. */
  lastOpen(type: TextItemType): string | undefined {
    const last = [...this.#open.values()].findLast((item) => item.type === type)
    return last?.place
  }

  open(type: TextItemType, place: string): TextItem {
    const key = `${type} ${place}`
    const known = this.#open.get(key)
    if (known !== undefined) return known
    const item: TextItem = {
      key,
      place,
      type,
      parts: new Set(),
      part: '',
      partStart: 0,
      isRefusal: false,
      annotations: [],
    }
    this.#open.set(key, item)
    // Whether a message is a refusal is known when its first part begins, and must be said at once.
    if (type === 'reasoning') this.#writer.openItem(key, type)
    return item
  }

  /** Opens an item for readers before anything is known of its text. */
  openAtOnce(type: TextItemType, place: string): void {
    this.#show(this.open(type, place))
  }

  #show({ key, type, isRefusal }: TextItem): void {
    this.#writer.openItem(
      key,
      type,
      isRefusal ? { provider_metadata: { openai: { refusal: true } } } : {},
    )
  }

  grow(place: string, part: PartName, text: string): void {
    const item = this.open(textTypeOf(part), place)
    this.#turnTo(item, part)
    this.#writer.append(item.key, text)
  }

  /** A part is whole: what its deltas did not say is added. A difference waits for the whole item. */
  settle(place: string, part: PartName, text: string): void {
    const item = this.open(textTypeOf(part), place)
    const name = partKey(part)
    if (name !== item.part && item.parts.has(name)) return
    this.#turnTo(item, part)
    const streamed = this.#writer.textOf(item.key).slice(item.partStart)
    if (text.startsWith(streamed)) this.#writer.append(item.key, text.slice(streamed.length))
  }

  annotate(place: string, annotation: unknown): void {
    this.open('message', place).annotations.push(annotation)
  }

  /** Ends an item with what the vendor says it is, or with what it said so far. */
  finish(type: TextItemType, place: string, wire: WireItem): void {
    const item = this.open(type, place)
    this.#open.delete(item.key)
    const final = type === 'message' ? finalMessage(item, wire) : finalReasoning(wire)
    if (item.isRefusal) this.#hasRefusal = true
    this.#show(item)
    const { content, metadata } = final
    this.#writer.finishItem(item.key, {
      ...(content !== undefined && { content }),
      provider_metadata: { openai: metadata },
    })
  }

  /** Ends the items of which the vendor has said nothing more; it has ended the response. */
  finishAll(): void {
    for (const { type, place } of this.#open.values()) this.finish(type, place, { type })
  }

  #turnTo(item: TextItem, part: PartName): void {
    const name = partKey(part)
    if (name === item.part) return
    if (part.kind === 'refusal') item.isRefusal = true
    this.#show(item)
    const { length } = this.#writer.textOf(item.key)
    if (length > 0) this.#writer.append(item.key, SEPARATORS[item.type])
    item.part = name
    item.parts.add(name)
    item.partStart = length === 0 ? 0 : length + SEPARATORS[item.type].length
  }
}

export function textTypeOf({ kind }: PartName): TextItemType {
  return kind === 'output_text' || kind === 'refusal' ? 'message' : 'reasoning'
}

function partKey({ kind, index }: PartName): string {
  return `${kind} ${index}`
}

interface Final {
  content: string | undefined
  metadata: Fields
}

/** The metadata is the vendor's item without its text; parts of several kinds are kept as they are. */
function finalMessage(item: TextItem, { content, ...rest }: WireItem): Final {
  const parts = Array.isArray(content) ? content.filter(isRecord) : []
  const texts = parts.map(({ text, refusal }) => text ?? refusal).filter(isString)
  if (parts.some(({ type }) => type === 'refusal')) item.isRefusal = true
  const listed = parts.flatMap(({ annotations }) => (Array.isArray(annotations) ? annotations : []))
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

/** The metadata is the vendor's item: what is encrypted in it must go back as it came. */
function finalReasoning(wire: WireItem): Final {
  const parts = [wire['summary'], wire['content']].flatMap((list) =>
    Array.isArray(list) ? list.filter(isRecord) : [],
  )
  const texts = parts.map(({ text }) => text).filter(isString)
  const content = texts.length > 0 ? texts.join(SEPARATORS.reasoning) : undefined
  return { content, metadata: wire }
}

function isString(value: unknown): value is string {
  return typeof value === 'string'
}
