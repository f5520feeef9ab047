import type { OutputItem } from '../../../packages/core/src/protocol/output-item.ts'
import type { StreamEvent } from '../../../packages/core/src/protocol/stream-event.ts'
import type { StreamOutput } from '../../../packages/core/src/protocol/stream-output.ts'

/** Counts the characters of answers and thinking as they arrive, without prompts and the arguments of tools. */
export class ReceivedText {
  total = 0
  readonly #lengths = new Map<string, number>()
  readonly #settled = new Set<string>()

  /** `isShown` tells whether an item was emitted before. */
  take({ payload }: StreamEvent, isShown: (itemId: string) => boolean): void {
    if (!('item_id' in payload) || this.#settled.has(payload.item_id)) return
    const { type, item_id: itemId } = payload
    const length = this.#lengths.get(itemId)
    if (type !== 'item_start' && type !== 'item_delta') this.#settled.add(itemId)
    if (type === 'item_start' && isText(payload.item_type, payload.origin)) {
      this.#set(itemId, payload.initial_content?.length ?? 0)
    }
    if (type === 'item_delta' && length !== undefined) {
      this.#set(itemId, length + payload.delta_content.length)
    }
    // What is final replaces what was streamed.
    if (type === 'item_done') this.#set(itemId, finalLength(payload.final_item))
    if (type === 'item_cancelled' && !isShown(itemId)) this.#set(itemId, 0)
  }

  #set(itemId: string, length: number): void {
    this.total += length - (this.#lengths.get(itemId) ?? 0)
    this.#lengths.set(itemId, length)
  }
}

/** Counts the same characters as they are emitted. */
export class ShownText {
  total = 0
  readonly #lengths = new Map<string, number>()

  readonly has = (itemId: string): boolean => this.#lengths.has(itemId)

  take(output: StreamOutput): void {
    if (output.type !== 'thinking' && !(output.type === 'message' && output.origin === 'agent')) {
      return
    }
    this.total += output.content.length - (this.#lengths.get(output.itemId) ?? 0)
    this.#lengths.set(output.itemId, output.content.length)
  }
}

function isText(type: string, origin = 'agent'): boolean {
  return type === 'reasoning' || (type === 'message' && origin === 'agent')
}

function finalLength(item: OutputItem): number {
  const origin = 'origin' in item ? item.origin : undefined
  return isText(item.type, origin) && 'content' in item ? (item.content?.length ?? 0) : 0
}
