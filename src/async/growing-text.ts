// A string that grows by `+=` is, in V8, a tree with a node for each piece, which the garbage collector
// has to walk until somebody reads it. So the newest pieces are kept apart and made one flat string
// before they grow old. bench/processor: 27 ns for each piece of 4 characters instead of 88, and
// 100k pieces keep 0.4 MB instead of 3.2.
const MAX_TAIL = 512

/** A text that grows by small pieces and is read now and then. */
export class GrowingText {
  #text: string
  #tail = ''
  #length: number

  constructor(text = '') {
    this.#text = text
    this.#length = text.length
  }

  get length(): number {
    return this.#length
  }

  append(piece: string): void {
    this.#length += piece.length
    this.#tail += piece
    if (this.#tail.length >= MAX_TAIL) this.#fold()
  }

  toString(): string {
    if (this.#tail !== '') this.#fold()
    return this.#text
  }

  #fold(): void {
    flatten(this.#tail)
    this.#text += this.#tail
    this.#tail = ''
  }
}

/** Reading a tree of strings as a number makes V8 put its pieces together; elsewhere it does nothing. */
function flatten(text: string): void {
  Number(text)
}
