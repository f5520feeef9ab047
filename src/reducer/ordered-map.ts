import { ChunkedList } from './chunked-list.ts'
import { IdIndex } from './id-index.ts'

/** An immutable map that keeps every value at the place where its id first appeared. */
export class OrderedMap<V> {
  static readonly empty: OrderedMap<never> = new OrderedMap(IdIndex.empty, ChunkedList.empty)

  readonly #ids: IdIndex
  /** The value of an id stands at the id's position. */
  readonly #values: ChunkedList<V>

  private constructor(ids: IdIndex, values: ChunkedList<V>) {
    this.#ids = ids
    this.#values = values
  }

  get(id: string): V | undefined {
    const position = this.#ids.position(id)
    return position === undefined ? undefined : this.#values.at(position)
  }

  /** Puts `value` in the place of the id's former value, or at the end when the id is new. */
  set<U>(id: string, value: U): OrderedMap<V | U> {
    const position = this.#ids.position(id)
    return position === undefined
      ? new OrderedMap(this.#ids.add(id), this.#values.append(value))
      : new OrderedMap(this.#ids, this.#values.replace(position, value))
  }

  values(): V[] {
    return this.#values.toArray()
  }
}
