const SEGMENT_SIZE = 32

interface Segment<T> {
  slots: (T | undefined)[]
  next: Segment<T> | undefined
}

/**
 * An unbounded queue of linked segments. A ring that doubles is as fast on average, but here no
 * single push copies the queue, and what was read is freed as it goes.
 *
 *     first ─▶ [· · c d] ─▶ [e f g h] ─▶ [i · · ·] ◀─ last
 *                   ╰ readAt                ╰ writeAt
 */
export class Fifo<T> {
  #first: Segment<T> = emptySegment()
  #last = this.#first
  #readAt = 0
  #writeAt = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  push(value: T): void {
    if (this.#writeAt === SEGMENT_SIZE) {
      const segment = emptySegment<T>()
      this.#last.next = segment
      this.#last = segment
      this.#writeAt = 0
    }
    this.#last.slots[this.#writeAt] = value
    this.#writeAt += 1
    this.#size += 1
  }

  /** Removes and returns the oldest value. Check `size` first: `undefined` may be a value. */
  shift(): T {
    if (this.#size === 0) throw new RangeError('shift of an empty queue')
    if (this.#readAt === SEGMENT_SIZE && this.#first.next !== undefined) {
      this.#first = this.#first.next
      this.#readAt = 0
    }
    const { slots } = this.#first
    const value = slots[this.#readAt]
    // Drop the reference, or the queue would keep delivered values alive.
    slots[this.#readAt] = undefined
    this.#readAt += 1
    this.#size -= 1
    if (this.#size === 0) {
      // Reuse the one remaining segment from its start. A queue that is read as fast as it is filled allocates nothing.
      this.#readAt = 0
      this.#writeAt = 0
    }
    return value as T
  }
}

function emptySegment<T>(): Segment<T> {
  // oxlint-disable-next-line unicorn/no-new-array -- at its full length from the start, it never grows
  return { slots: new Array<T | undefined>(SEGMENT_SIZE), next: undefined }
}
