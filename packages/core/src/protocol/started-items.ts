import { isPromptItem } from './item-ids.ts'
import type { ItemType, StreamEventPayload } from './stream-event.ts'

/** What `item_start` and the deltas of an item have said so far. */
export interface StartedItem {
  readonly type: ItemType
  readonly content?: string | undefined
  readonly origin?: string | undefined
  readonly name?: string | undefined
  readonly arguments?: string | undefined
  readonly call_id?: string | undefined
  readonly output?: string | undefined
  readonly code?: string | undefined
  readonly message?: string | undefined
}

/** The field of each type that deltas add to. */
const TEXT_FIELDS = {
  message: 'content',
  reasoning: 'content',
  function_call: 'arguments',
  function_call_output: 'output',
  error: 'message',
} as const satisfies Record<ItemType, keyof StartedItem>

/** `text` is the item's text so far, including that of its start. */
export function startedItem(
  { item_id, item_type: type, origin, name, call_id, code }: StreamEventPayload<'item_start'>,
  text: string,
): StartedItem {
  const isPrompt = type === 'message' && isPromptItem(item_id)
  const fields = { type, origin: isPrompt ? 'user' : origin, name, call_id, code }
  return { ...fields, [TEXT_FIELDS[type]]: text }
}

/** Returns the text with which an item starts. */
function initialText(start: StreamEventPayload<'item_start'>): string {
  const { item_type, initial_content = '', arguments: text = initial_content } = start
  return item_type === 'function_call' ? text : initial_content
}

/** Remembers the open items of a stream, to complete their `item_done`. */
export class StartedItems {
  readonly #open = new Map<string, { start: StreamEventPayload<'item_start'>; text: string }>()

  /** Ids of the open items. */
  get ids(): string[] {
    return [...this.#open.keys()]
  }

  readonly get = (itemId: string): StartedItem | undefined => {
    const item = this.#open.get(itemId)
    return item && startedItem(item.start, item.text)
  }

  has(itemId: string): boolean {
    return this.#open.has(itemId)
  }

  delete(itemId: string): void {
    this.#open.delete(itemId)
  }

  clear(): void {
    this.#open.clear()
  }

  take(payload: StreamEventPayload): void {
    switch (payload.type) {
      case 'item_start':
        this.#open.set(payload.item_id, { start: payload, text: initialText(payload) })
        return
      case 'item_delta': {
        const item = this.#open.get(payload.item_id)
        if (item !== undefined) item.text += payload.delta_content
        return
      }
      case 'item_done':
      case 'item_error':
      case 'item_cancelled':
        this.delete(payload.item_id)
        return
      default:
    }
  }
}
