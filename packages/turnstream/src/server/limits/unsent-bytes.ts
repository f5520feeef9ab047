import { onAbort, type StopSignal } from '@turnstream/core/internal/async/on-abort'
import { once } from '../once.ts'

/** Bytes that a key's clients have not read yet, and of its requests. May exceed the bound by one response or frame. */
export class UnsentBytes {
  readonly #max: number
  #bytes = 0
  #requests = 0
  /** The part of them that streams keep until they end. */
  #retained = 0
  /** Oldest first. */
  readonly #keepers = new Map<object, number>()
  readonly #waiting = new Set<() => void>()

  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#bytes + this.#requests
  }

  get isFull(): boolean {
    return this.#bytes >= this.#max
  }

  fits(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#max
  }

  fitsRequest(bytes: number): boolean {
    return this.size === 0 || this.size + bytes <= this.#max
  }

  /** Counts the bytes of a request until the returned function is first called. Only other requests have to wait. */
  holdRequest(bytes: number): () => void {
    this.#requests += bytes
    return once(() => {
      this.#requests -= bytes
    })
  }

  /** Counts bytes until the returned function is first called. */
  hold(bytes: number): () => void {
    this.#bytes += bytes
    return once(() => {
      this.#bytes -= bytes
      if (this.#bytes - this.#retained < this.#max) this.#wakeAll()
    })
  }

  /** Counts bytes in place of those that `keeper` kept before. */
  keep(keeper: object, bytes: number): void {
    this.#count(bytes - (this.#keepers.get(keeper) ?? 0))
    this.#keepers.set(keeper, bytes)
  }

  forget(keeper: object): void {
    this.#count(-(this.#keepers.get(keeper) ?? 0))
    // The next one becomes the oldest.
    if (this.#keepers.delete(keeper)) this.#wakeAll()
  }

  /** The oldest keeper does not wait for the others: otherwise all could wait for each other. */
  mustWait(keeper: object): boolean {
    const isOldest = this.#keepers.keys().next().value === keeper
    return isOldest ? this.#bytes - this.#retained >= this.#max : this.isFull
  }

  /** Resolves when there may be room or `signal` aborts. Another caller may take the room first. */
  room(signal: StopSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        stopListening()
        this.#waiting.delete(wake)
        resolve()
      }
      const stopListening = onAbort(signal, wake)
      this.#waiting.add(wake)
    })
  }

  #count(bytes: number): void {
    this.#retained += bytes
    this.#bytes += bytes
  }

  #wakeAll(): void {
    for (const wake of this.#waiting) wake()
  }
}
