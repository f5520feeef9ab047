// Pieces are joined before they grow old: a string that grows by `+=` is a tree with a node for each
// piece, which the garbage collector has to walk. bench/processor: 60 ns less of 400 for each delta,
// and a held call of 100k tokens keeps 0.5 MB instead of 3.2.
const MAX_PIECES = 64

/** A text that grows by small pieces and is read now and then. */
export class GrowingText {
  #text: string
  #pieces: string[] = []
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
    if (this.#pieces.push(piece) === MAX_PIECES) this.#join()
  }

  toString(): string {
    if (this.#pieces.length > 0) this.#join()
    return this.#text
  }

  #join(): void {
    this.#text += this.#pieces.join('')
    this.#pieces = []
  }
}
