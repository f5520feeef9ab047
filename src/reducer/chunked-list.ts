// Replacing one of n values copies a chunk and the list of chunks, 32 + n/32 references: 95 for the
// 2,000 items that a turn may have, where the best size would copy 90.
const CHUNK_SIZE = 32

type Chunks<T> = readonly (readonly T[])[]

/**
 * An immutable list whose versions share all chunks but the one that changed.
 *
 * One flat array would be copied whole for every delta. Two levels are enough for the length of a
 * turn, and cheaper there than a deeper tree.
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
