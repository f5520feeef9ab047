import type { ResponseWriter } from '../response-writer.ts'
import type { Fields } from './fields.ts'
import type { SpokenItem } from './items.ts'

interface Text {
  kind: SpokenItem['kind']
  isOpen: boolean
  /** The part of the reasoning that was streamed last. */
  part: string | undefined
}

/** The messages and the reasoning of a turn, by the names of their items. */
export class SpokenTexts {
  readonly #writer: ResponseWriter
  #texts = new Map<string, Text>()
  /** A finished item that may yet get metadata from its raw twin, which comes right behind it. */
  #held: { id: string; item: SpokenItem } | undefined
  #hasTwins = false

  constructor(writer: ResponseWriter) {
    this.#writer = writer
  }

  reset(): void {
    this.#texts = new Map()
    this.#held = undefined
  }

  /** Codex is passing raw items on: from now on a finished item waits for its twin. */
  expectTwins(): void {
    this.#hasTwins = true
  }

  /** Whether the item was told; of one without a name, whether any of its kind was. */
  knows({ id, kind }: SpokenItem): boolean {
    if (id !== undefined) return this.#texts.has(id)
    return [...this.#texts.values()].some((text) => text.kind === kind)
  }

  /** Opens the item; a name that was used before is used again. */
  start(id: string, item: SpokenItem): void {
    if (this.#texts.get(id)?.isOpen) return
    this.#texts.set(id, { kind: item.kind, isOpen: true, part: undefined })
    const isUsers = item.kind === 'user'
    const provider_metadata = metadataOf(item.metadata)
    this.#writer.openItem(keyOf(id), item.kind === 'reasoning' ? 'reasoning' : 'message', {
      ...(isUsers && { origin: 'user' }),
      ...(provider_metadata && { provider_metadata }),
    })
  }

  /** What is said of an item that nobody announced opens it; after its end, nothing is. */
  append(id: string, kind: SpokenItem['kind'], text: string, part?: string): void {
    if (!this.#texts.has(id)) this.start(id, { kind, id, text: undefined, metadata: {} })
    const told = this.#texts.get(id)
    if (told === undefined || !told.isOpen) return
    const isNewPart = told.part !== undefined && told.part !== part
    told.part = part
    this.#writer.append(keyOf(id), isNewPart ? `\n\n${text}` : text)
  }

  /** The finished item is what counts: what the stream left out is made up for. */
  complete(id: string, item: SpokenItem): void {
    const told = this.#texts.get(id)
    if (told !== undefined && !told.isOpen) return
    this.start(id, item)
    if (item.kind !== 'user') this.#catchUp(id, item.text)
    this.#texts.set(id, { kind: item.kind, isOpen: false, part: undefined })
    this.#held = { id, item }
    if (!this.#hasTwins || item.kind === 'user') this.settle()
  }

  #catchUp(id: string, text: string | undefined): void {
    const streamed = this.#writer.textOf(keyOf(id))
    if (text?.startsWith(streamed)) this.#writer.append(keyOf(id), text.slice(streamed.length))
  }

  addTwin(id: string, metadata: Fields): void {
    this.expectTwins()
    if (this.#held?.item.id === id) this.#finish(metadata)
    else this.settle()
  }

  /** Nothing more will be said of the item that was held. */
  settle(): void {
    if (this.#held !== undefined) this.#finish({})
  }

  #finish(twin: Fields): void {
    if (this.#held === undefined) return
    const { id, item } = this.#held
    this.#held = undefined
    const provider_metadata = metadataOf({ ...item.metadata, ...twin })
    this.#writer.finishItem(keyOf(id), {
      ...(item.text !== undefined && { content: item.text }),
      ...(provider_metadata && { provider_metadata }),
    })
  }

  /** Everything that was open was given up. */
  closeAll(): void {
    for (const text of this.#texts.values()) text.isOpen = false
  }
}

function metadataOf(metadata: Fields): { codex: Fields } | undefined {
  return Object.keys(metadata).length > 0 ? { codex: metadata } : undefined
}

/** Apart from the keys of calls. */
function keyOf(id: string): string {
  return `item ${id}`
}
