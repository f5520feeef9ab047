import type { EventRecord } from '@turnstream/core/internal/log/turn-log'
import { isInputItem } from '@turnstream/core/internal/protocol/item-ids'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'

/** How much an answer grows before it is counted again. */
const STEP_CHARS = 64 * 1024

/** Measures what an encoder retains, in characters: every dialect keeps the texts until the answer ends. */
export class AnswerSize {
  chars = 0
  #counted = 0
  /** Deltas since the last complete item, which repeats them. */
  #deltas = 0

  /** Adds a record. Returns whether to count the answer again: at an event that may repeat it, or after some growth. */
  add(record: EventRecord): boolean {
    const { event } = record
    if (event.type === 'item_delta' && typeof event.payload?.delta_content === 'string') {
      const { length } = event.payload.delta_content
      this.#deltas += length
      this.chars += length
      if (this.chars < this.#counted + STEP_CHARS) return false
    } else if (isStreamEvent(event)) {
      this.chars += this.#sizeOf(record)
    }
    this.#counted = this.chars
    return true
  }

  #sizeOf(record: EventRecord): number {
    const { event } = record
    // The parameters of the request are part of the answer. Other events are not encoded: they may have megabytes.
    if (event.type === 'response_start') return record.data.length
    if (event.type !== 'item_done') return 0
    const { item_id, final_item: item } = event.payload
    if (isInputItem(event.run_id, item_id)) return 0
    const text = 'content' in item ? item.content : 'arguments' in item ? item.arguments : ''
    const added = Math.max(0, text.length - this.#deltas)
    this.#deltas = 0
    return added
  }
}
