import type { StreamEventPayload } from '@turnstream/core/internal/protocol/stream-event'

/** Final items with a snapshot of their own. */
const SHOWN: ReadonlySet<string> = new Set(['message', 'reasoning', 'function_call', 'error'])

/** The items of a turn that have snapshots, in the order in which they were said: by first word, or by name for a call. */
export class ItemOrder {
  readonly #places = new Map<string, number>()
  /** Undefined for an item that was cancelled: it may never have had a snapshot. */
  readonly #items: (string | undefined)[] = []
  readonly #empty = new Set<string>()

  /** Returns whether later items need no longer wait for this one. */
  apply(payload: StreamEventPayload): boolean {
    switch (payload.type) {
      case 'item_start':
        this.#start(payload)
        return false
      case 'item_delta':
        if (payload.delta_content !== '' && this.#empty.has(payload.item_id)) {
          this.#add(payload.item_id)
        }
        return false
      case 'item_done':
        if (payload.final_item.type === 'cancelled') return this.#remove(payload.item_id)
        if (SHOWN.has(payload.final_item.type)) this.#add(payload.item_id)
        return false
      default:
        return payload.type === 'item_cancelled' && this.#remove(payload.item_id)
    }
  }

  placeOf(itemId: string): number {
    return this.#places.get(itemId) ?? 0
  }

  /** Returns the first place from `place` on whose item is not in `seen`. */
  firstUnseen(place: number, seen: ReadonlySet<string>): number {
    let at = place
    while (at < this.#items.length) {
      const item = this.#items[at]
      if (item !== undefined && !seen.has(item)) break
      at += 1
    }
    return at
  }

  #start({ item_id, item_type, name, initial_content }: StreamEventPayload<'item_start'>): void {
    if (item_type === 'function_call') {
      if (name) this.#add(item_id)
    } else if (item_type === 'message' || item_type === 'reasoning') {
      if (initial_content) this.#add(item_id)
      else if (!this.#places.has(item_id)) this.#empty.add(item_id)
    }
  }

  #add(itemId: string): void {
    this.#empty.delete(itemId)
    if (this.#places.has(itemId)) return
    this.#places.set(itemId, this.#items.length)
    this.#items.push(itemId)
  }

  #remove(itemId: string): boolean {
    this.#empty.delete(itemId)
    const place = this.#places.get(itemId)
    if (place === undefined) return false
    this.#items[place] = undefined
    return true
  }
}
