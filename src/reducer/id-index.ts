/** What the versions of an index share. Only ever added to. */
interface SharedIds {
  readonly ids: string[]
  /** Absent as long as the ids are sorted, and so can be found without it. */
  positions: Map<string, number> | undefined
}

/**
 * Ids in the order in which they came, as an immutable value that grows by one id in O(1).
 *
 * A copied `Set` per event would make a turn quadratic, so successive versions share one append-only
 * list and differ only in `size`: an id at or past a version's size belongs to a later version and
 * is not seen. Only the newest version adds to the list in place; an older one that grows in another
 * direction gets a list of its own, at the cost of one copy for that branch.
 */
export class IdIndex {
  static readonly empty: IdIndex = new IdIndex({ ids: [], positions: undefined }, 0)

  readonly size: number
  readonly #shared: SharedIds

  private constructor(shared: SharedIds, size: number) {
    this.#shared = shared
    this.size = size
  }

  has(id: string): boolean {
    return this.position(id) !== undefined
  }

  /** How many ids came before this one. */
  position(id: string): number | undefined {
    const { ids, positions } = this.#shared
    // Ids that sort by time, as event ids do, come in order: then one look at the last tells that
    // an id is new, where a Map of 100,000 ids misses the processor's caches several times.
    if (!positions) return sortedPosition(ids, this.size, id)
    const position = positions.get(id)
    return position !== undefined && position < this.size ? position : undefined
  }

  /** The index with `id` at its end. The caller has looked: an id that is in it is not added. */
  add(id: string): IdIndex {
    // A later version went the same way, as when React's strict mode reduces every event twice.
    const isThere = this.#shared.ids[this.size] === id
    const shared = isThere || this.#isNewest() ? this.#shared : fork(this.#shared, this.size)
    if (!isThere) push(shared, id)
    return new IdIndex(shared, this.size + 1)
  }

  // `empty` is common to all turns: what the first of them wrote into it would never be freed.
  #isNewest(): boolean {
    return this.size === this.#shared.ids.length && this.size > 0
  }
}

function push(shared: SharedIds, id: string): void {
  const { ids } = shared
  const last = ids.at(-1)
  if (!shared.positions && last !== undefined && id < last) shared.positions = positionsOf(ids)
  shared.positions?.set(id, ids.length)
  ids.push(id)
}

function fork({ ids, positions }: SharedIds, size: number): SharedIds {
  const own = ids.slice(0, size)
  return { ids: own, positions: positions && positionsOf(own) }
}

function positionsOf(ids: readonly string[]): Map<string, number> {
  return new Map(ids.map((id, position) => [id, position]))
}

function sortedPosition(ids: readonly string[], size: number, id: string): number | undefined {
  const last = ids[size - 1]
  if (last === undefined || last < id) return undefined
  let low = 0
  let high = size - 1
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((ids[middle] ?? '') < id) low = middle + 1
    else high = middle
  }
  return ids[low] === id ? low : undefined
}
