/**
 * Ids and the order in which they came, as an immutable value that grows by one id in O(1).
 *
 * A copied `Set` per event would make a turn quadratic, so successive versions share one
 * append-only Map and differ only in `size`: an entry at or past a version's size belongs to a later
 * version and is not seen. Only the newest version may write to the Map; an older one that grows in
 * another direction gets a Map of its own, at the cost of one copy for that branch.
 */
export class IdIndex {
  static readonly empty: IdIndex = new IdIndex(new Map(), 0)

  readonly size: number
  readonly #positions: Map<string, number>

  private constructor(positions: Map<string, number>, size: number) {
    this.#positions = positions
    this.size = size
  }

  has(id: string): boolean {
    return this.position(id) !== undefined
  }

  /** How many ids came before this one. */
  position(id: string): number | undefined {
    const position = this.#positions.get(id)
    return position !== undefined && position < this.size ? position : undefined
  }

  /** The index with `id` at its end, or this one when it holds the id already. */
  add(id: string): IdIndex {
    const position = this.#positions.get(id)
    if (position !== undefined && position < this.size) return this
    // A later version went the same way: the shared Map begins with just these ids. So it is when
    // React's strict mode runs every reduction twice, which must not copy twice per event.
    if (position === this.size) return new IdIndex(this.#positions, this.size + 1)
    const positions = this.#isNewest() ? this.#positions : this.#fork()
    positions.set(id, this.size)
    return new IdIndex(positions, this.size + 1)
  }

  // `empty` is common to all turns: if the first of them wrote to its Map, it would never be freed.
  #isNewest(): boolean {
    return this.size === this.#positions.size && this.size > 0
  }

  #fork(): Map<string, number> {
    const own = new Map<string, number>()
    // A Map iterates in the order of insertion, so this version's ids come first.
    for (const [id, position] of this.#positions) {
      if (position === this.size) break
      own.set(id, position)
    }
    return own
  }
}
