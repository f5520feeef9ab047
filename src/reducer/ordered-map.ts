import { IdIndex } from './id-index.ts'

// Replacing one of n values copies a chunk and the list of chunks, 32 + n/32 references: 95 for the
// 2,000 items that a turn may have, where the best size would copy 90.
const CHUNK_SIZE = 32

type Chunks<T> = readonly (readonly T[])[]

/**
 * An immutable list whose versions share all chunks but the one that changed.
 *
 * A flat array would be copied for every delta. Two levels are enough for the length of a turn, and cheaper than a
 * deeper tree.
 */
export class ChunkedList<T> {
  static readonly empty: ChunkedList<never> = new ChunkedList([], 0)

  readonly size: number
  readonly #chunks: Chunks<T>

  private constructor(chunks: Chunks<T>, size: number) {
    this.#chunks = chunks
    this.size = size
  }

  at(index: number): T | undefined {
    return this.#chunks[Math.floor(index / CHUNK_SIZE)]?.[index % CHUNK_SIZE]
  }

  append<U>(value: U): ChunkedList<T | U> {
    return new ChunkedList(withValue(this.#chunks, this.size, value), this.size + 1)
  }

  replace<U>(index: number, value: U): ChunkedList<T | U> {
    if (index < 0 || index >= this.size) throw new RangeError(`no value at index ${index}`)
    return new ChunkedList(withValue(this.#chunks, index, value), this.size)
  }

  toArray(): T[] {
    const values: T[] = []
    for (const chunk of this.#chunks) values.push(...chunk)
    return values
  }
}

function withValue<T, U>(chunks: Chunks<T>, index: number, value: U): Chunks<T | U> {
  const chunkIndex = Math.floor(index / CHUNK_SIZE)
  const chunk: (T | U)[] = chunks[chunkIndex]?.slice() ?? []
  chunk[index % CHUNK_SIZE] = value
  const copy: (readonly (T | U)[])[] = chunks.slice()
  copy[chunkIndex] = chunk
  return copy
}

/** The value set last, which is not in the list until another id is set. */
interface Latest<V> {
  readonly id: string
  readonly position: number
  readonly value: V
}

/**
 * An immutable map that keeps every value at the place where its id first appeared.
 *
 * Deltas come in runs for one item: as long as the id stays the same, neither index nor list is
 * touched. In bench/reducer, with 2,000 items, an event costs 332 ns by that instead of 582 ns.
 */
export class OrderedMap<V> {
  static readonly empty: OrderedMap<never> = new OrderedMap(
    IdIndex.empty,
    ChunkedList.empty,
    undefined,
  )

  readonly #ids: IdIndex
  /** The value of an id stands at the id's position. */
  readonly #values: ChunkedList<V>
  readonly #latest: Latest<V> | undefined

  private constructor(ids: IdIndex, values: ChunkedList<V>, latest: Latest<V> | undefined) {
    this.#ids = ids
    this.#values = values
    this.#latest = latest
  }

  get(id: string): V | undefined {
    if (id === this.#latest?.id) return this.#latest.value
    const position = this.#ids.position(id)
    return position === undefined ? undefined : this.#values.at(position)
  }

  /** Puts `value` in the place of the id's former value, or at the end when the id is new. */
  set(id: string, value: V): OrderedMap<V> {
    const latest = this.#latest
    if (id === latest?.id) {
      return new OrderedMap(this.#ids, this.#values, { id, position: latest.position, value })
    }
    const values = latest ? this.#values.replace(latest.position, latest.value) : this.#values
    const position = this.#ids.position(id)
    return position === undefined
      ? new OrderedMap(this.#ids.add(id), values.append(value), {
          id,
          position: values.size,
          value,
        })
      : new OrderedMap(this.#ids, values, { id, position, value })
  }

  values(): V[] {
    const values = this.#values.toArray()
    if (this.#latest) values[this.#latest.position] = this.#latest.value
    return values
  }
}
