/** Counts who follows a turn in this process: the last one that disconnects may cancel it. */
export class TurnReaders {
  readonly #counts = new Map<string, number>()

  /** Returns a function that ends the reading, and returns whether no reader is left. */
  add(tenant: string, turnId: string): () => boolean {
    // Tenant names contain no space.
    const key = `${tenant} ${turnId}`
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    let isReading = true
    return () => {
      if (isReading) this.#remove(key)
      isReading = false
      return !this.#counts.has(key)
    }
  }

  #remove(key: string): void {
    const count = (this.#counts.get(key) ?? 1) - 1
    if (count === 0) this.#counts.delete(key)
    else this.#counts.set(key, count)
  }
}
