interface Entry<Item> {
  readonly until: number
  readonly item: Item
}

/** A binary heap of items by expiry: adding and taking cost the logarithm of its size. */
export class ExpiryQueue<Item> {
  readonly #heap: Entry<Item>[] = []

  get size(): number {
    return this.#heap.length
  }

  add(item: Item, until: number): void {
    const entry = { until, item }
    let at = this.#heap.length
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = this.#heap[parent]
      if (above === undefined || above.until <= until) break
      this.#heap[at] = above
      at = parent
    }
    this.#heap[at] = entry
  }

  /** Removes and returns the item that expired first; undefined if none has expired by `now`. */
  takeExpired(now: number): Item | undefined {
    const [first] = this.#heap
    if (first === undefined || first.until > now) return undefined
    const last = this.#heap.pop()
    if (last !== undefined && last !== first) this.#sink(last)
    return first.item
  }

  #sink(entry: Entry<Item>): void {
    let at = 0
    for (;;) {
      const left = 2 * at + 1
      const isRight = this.#untilAt(left + 1) < this.#untilAt(left)
      const child = isRight ? left + 1 : left
      const below = this.#heap[child]
      if (below === undefined || below.until >= entry.until) break
      this.#heap[at] = below
      at = child
    }
    this.#heap[at] = entry
  }

  #untilAt(at: number): number {
    return this.#heap[at]?.until ?? Infinity
  }
}
