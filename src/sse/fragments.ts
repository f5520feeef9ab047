const RECENT_MAX = 1024

/**
 * Text that arrives in pieces. Every character is copied at most three times, however small the
 * pieces are, and a full row of them becomes one string: a peer that sends byte by byte would
 * otherwise make us keep an object for each.
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

  /** All of it, leaving nothing behind. */
  take(): string {
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
