/** The messages and reasoning of a turn, without duplicates. */

import type { Fields } from '../fields.ts'
import { toMetadata } from '../metadata.ts'
import type { ResponseWriter } from '../translation.ts'
import type { CodexEvent, MessageItem } from './events.ts'

type Kind = MessageItem['kind']

interface Progress {
  /** Which events stream: those with an item id, or those without. The first one seen decides. */
  streams: 'named' | 'nameless' | undefined
  /** Whether items are sent. If so, complete texts only repeat them. */
  hasItems: boolean
  /** Id assigned to the item that is streamed without one. */
  open: string | undefined
  /** A complete text that came before its item, which may never come. */
  text: string | undefined
}

/** Earlier app-servers send a text up to three times: as an item with an id, as a stream without one, and complete. */
export class MessageFilter {
  readonly #progress: Record<Kind, Progress> = {
    message: newProgress(),
    reasoning: newProgress(),
    user: newProgress(),
  }
  /** From an item id that came late to the id used in the stream. */
  readonly #names = new Map<string, string>()
  #count = 0
  #section = 0

  /** The event with its item id; undefined for duplicates. */
  admit(event: CodexEvent): CodexEvent | undefined {
    switch (event.type) {
      case 'message_delta':
        return this.#admitDelta('message', event)
      case 'reasoning_delta':
        return this.#admitDelta('reasoning', event)
      case 'reasoning_break':
        this.#section += 1
        return undefined
      case 'text':
        return this.#admitText(event.item)
      case 'item_started':
      case 'item_completed':
        return event.item.kind === 'tool' ? event : this.#admitItem(event.type, event.item)
      case 'turn_started':
      case 'turn_ended':
      case 'attempt_failed':
        this.#forget()
        return event
      default:
        return event
    }
  }

  #admitDelta<E extends CodexEvent & { type: 'message_delta' | 'reasoning_delta' }>(
    kind: Kind,
    event: E,
  ): E | undefined {
    const progress = this.#progress[kind]
    progress.streams ??= event.id === undefined ? 'nameless' : 'named'
    progress.text = undefined
    if (event.id !== undefined) {
      return progress.streams === 'named' ? { ...event, id: this.#nameOf(event.id) } : undefined
    }
    if (progress.streams === 'named') return undefined
    progress.open ??= this.#newName()
    if (event.type === 'message_delta') return { ...event, id: progress.open }
    return { ...event, id: progress.open, part: `${event.part} ${this.#section}` }
  }

  #admitItem(type: 'item_started' | 'item_completed', item: MessageItem): CodexEvent | undefined {
    const progress = this.#progress[item.kind]
    const isDone = type === 'item_completed'
    progress.hasItems = true
    if (progress.text !== undefined && progress.text === item.text) {
      if (isDone) progress.text = undefined
      return undefined
    }
    const id = this.#nameFor(item.id, progress)
    if (isDone && progress.open === id) progress.open = undefined
    return { type, item: { ...item, id } }
  }

  #nameFor(id: string | undefined, progress: Progress): string {
    if (id === undefined) return (progress.open ??= this.#newName())
    if (progress.open !== undefined && !this.#names.has(id)) this.#names.set(id, progress.open)
    return this.#nameOf(id)
  }

  #admitText(item: MessageItem): CodexEvent | undefined {
    const progress = this.#progress[item.kind]
    if (progress.open === undefined && progress.hasItems) return undefined
    const id = progress.open ?? this.#newName()
    progress.open = undefined
    progress.text = item.text
    return { type: 'item_completed', item: { ...item, id } }
  }

  #nameOf(id: string): string {
    return this.#names.get(id) ?? id
  }

  #newName(): string {
    this.#count += 1
    return `nameless ${this.#count}`
  }

  #forget(): void {
    this.#names.clear()
    for (const progress of Object.values(this.#progress)) {
      progress.open = undefined
      progress.text = undefined
    }
  }
}

function newProgress(): Progress {
  return { streams: undefined, hasItems: false, open: undefined, text: undefined }
}

interface Text {
  kind: Kind
  isOpen: boolean
  /** The last streamed part of the reasoning. */
  part: string | undefined
}

/** The messages and reasoning of a turn by item id. */
export class Messages {
  readonly #writer: ResponseWriter
  #texts = new Map<string, Text>()
  /** A finished item that may get metadata from its raw duplicate, which follows directly. */
  #held: { id: string; item: MessageItem } | undefined
  #hasTwins = false

  constructor(writer: ResponseWriter) {
    this.#writer = writer
  }

  reset(): void {
    this.#texts = new Map()
    this.#held = undefined
  }

  /** Codex forwards raw items: from now on a finished item waits for its duplicate. */
  expectTwins(): void {
    this.#hasTwins = true
  }

  /** Whether the item was emitted; without an id, whether any of its kind was. */
  knows({ id, kind }: MessageItem): boolean {
    if (id !== undefined) return this.#texts.has(id)
    return [...this.#texts.values()].some((text) => text.kind === kind)
  }

  /** Opens the item. An id may be reused. */
  start(id: string, item: MessageItem): void {
    if (this.#texts.get(id)?.isOpen) return
    this.#texts.set(id, { kind: item.kind, isOpen: true, part: undefined })
    this.#writer.openItem(keyOf(id), item.kind === 'reasoning' ? 'reasoning' : 'message', {
      ...(item.kind === 'user' && { origin: 'user' }),
      provider_metadata: toMetadata('codex', item.metadata),
    })
  }

  /** Deltas open an unannounced item, and are dropped after its end. */
  append(id: string, kind: Kind, text: string, part?: string): void {
    if (!this.#texts.has(id)) this.start(id, { kind, id, text: undefined, metadata: {} })
    const known = this.#texts.get(id)
    if (known === undefined || !known.isOpen) return
    const isNewPart = known.part !== undefined && known.part !== part
    known.part = part
    this.#writer.append(keyOf(id), isNewPart ? `\n\n${text}` : text)
  }

  /** The finished item is authoritative: adds what the stream omitted. */
  complete(id: string, item: MessageItem): void {
    const known = this.#texts.get(id)
    if (known !== undefined && !known.isOpen) return
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

  /** Nothing more follows for the held item. */
  settle(): void {
    if (this.#held !== undefined) this.#finish({})
  }

  #finish(twin: Fields): void {
    if (this.#held === undefined) return
    const { id, item } = this.#held
    this.#held = undefined
    this.#writer.finishItem(keyOf(id), {
      content: item.text,
      provider_metadata: toMetadata('codex', { ...item.metadata, ...twin }),
    })
  }

  /** All open items were abandoned. */
  closeAll(): void {
    for (const text of this.#texts.values()) text.isOpen = false
  }
}

/** Distinct from the keys of calls. */
function keyOf(id: string): string {
  return `item ${id}`
}
