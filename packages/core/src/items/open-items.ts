import { GrowingText } from '../async/growing-text.ts'
import { unreachable } from '../protocol/errors.ts'
import { isPromptItem } from '../protocol/item-ids.ts'
import type { ResponseItem } from '../protocol/response.ts'
import type { ItemType, StreamEventPayload } from '../protocol/stream-event.ts'

type Start = StreamEventPayload<'item_start'>

/** An item that has started and not ended. */
export interface OpenItem {
  readonly start: Start
  /** All of its text so far. */
  readonly text: GrowingText
}

/** Returns the text with which an item starts. */
export function initialText(start: Start): string {
  const { item_type, initial_content = '', arguments: text = initial_content } = start
  return item_type === 'function_call' ? text : initial_content
}

export function openItem(start: Start): OpenItem {
  return { start, text: new GrowingText(initialText(start)) }
}

/** Adapters may open the user's message with another origin. */
export function withPromptOrigin(start: Start): Start {
  const isPrompt = start.item_type === 'message' && isPromptItem(start.item_id)
  return isPrompt ? { ...start, origin: 'user' } : start
}

/** Returns what is known of an open item. */
export function itemSoFar(start: Start, text: string): Extract<ResponseItem, { type: ItemType }> {
  const { item_id: id, item_type: type, name = '', call_id = '', code = '' } = start
  const { origin = 'agent', provider_metadata } = start
  const metadata = provider_metadata && { provider_metadata }
  switch (type) {
    case 'message':
    case 'reasoning':
      return { type, id, content: text, origin, ...metadata }
    case 'function_call':
      return { type, id, name, arguments: text, call_id, ...metadata }
    case 'function_call_output':
      return { type, id, call_id, output: text, success: false, ...metadata }
    case 'error':
      return { type, id, code, message: text, ...metadata }
    default:
      return unreachable(type)
  }
}

/** The open items of a stream. Takes its payloads in order. */
export class OpenItems {
  readonly #items = new Map<string, OpenItem>()
  #lastId = ''
  #last: OpenItem | undefined

  get all(): OpenItem[] {
    return [...this.#items.values()]
  }

  // Nearly every payload is a delta of the same item as the one before.
  find(itemId: string): OpenItem | undefined {
    if (itemId !== this.#lastId || this.#last === undefined) {
      this.#lastId = itemId
      this.#last = this.#items.get(itemId)
    }
    return this.#last
  }

  readonly soFar = (itemId: string): ReturnType<typeof itemSoFar> | undefined => {
    const item = this.find(itemId)
    return item && itemSoFar(item.start, item.text.toString())
  }

  apply(payload: StreamEventPayload): void {
    switch (payload.type) {
      case 'item_delta':
        this.find(payload.item_id)?.text.append(payload.delta_content)
        return
      case 'item_start':
        this.delete(payload.item_id)
        this.#items.set(payload.item_id, openItem(withPromptOrigin(payload)))
        return
      case 'item_done':
      case 'item_error':
      case 'item_cancelled':
        this.delete(payload.item_id)
        return
      default:
    }
  }

  delete(itemId: string): void {
    this.#items.delete(itemId)
    if (itemId === this.#lastId) this.#last = undefined
  }

  clear(): void {
    this.#items.clear()
    this.#last = undefined
  }
}
