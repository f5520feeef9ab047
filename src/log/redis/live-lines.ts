/** What is held for a turn at most: events of which a chunk needs more are put together by the store. */
const MAX_CHARS = 16 * 1024

/** So many texts are joined to one. Before that each may keep the whole event alive that it was cut from. */
const MAX_PARTS = 32

/**
 * The lines of log A that are in no chunk yet, as long as one writer knows them all. With them a chunk can
 * be written; without them a script has to read each, which costs the server about half of what adding it
 * did.
 */
export class LiveLines {
  #parts: string[] | undefined
  #chars = 0

  /** There are none: what was live is a chunk now. */
  clear(): void {
    this.#parts = []
    this.#chars = 0
  }

  /** There may be others. */
  forget(): void {
    this.#parts = undefined
  }

  add(lines: string): void {
    if (this.#parts === undefined || lines === '') return
    this.#chars += lines.length
    if (this.#chars > MAX_CHARS) {
      this.forget()
      return
    }
    this.#parts.push(lines)
    if (this.#parts.length === MAX_PARTS) this.#parts = [this.#parts.join('\n')]
  }

  /** All of them and these; undefined if not all are known. */
  followedBy(lines: string): string | undefined {
    if (this.#parts === undefined) return undefined
    return lines === '' ? this.#parts.join('\n') : [...this.#parts, lines].join('\n')
  }
}
