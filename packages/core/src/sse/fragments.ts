const RECENT_MAX = 1024

/**
 * Text that arrives in pieces. Each character is copied at most three times, however small the pieces are.
 * Full batches are joined, so that a peer sending byte by byte does not make us store an object per byte.
 */
export class Fragments {
  #older: string[] = []
  #recent: string[] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  push(text: string): void {
    this.#length += text.length
    if (this.#recent.push(text) < RECENT_MAX) return
    this.#older.push(this.#recent.join(''))
    this.#recent = []
  }

  /** Returns all text and clears the buffer. */
  drain(): string {
    const text = this.#older.length === 0 ? '' : this.#older.join('')
    const all = text + this.#recent.join('')
    this.clear()
    return all
  }

  clear(): void {
    this.#older.length = 0
    this.#recent.length = 0
    this.#length = 0
  }
}
