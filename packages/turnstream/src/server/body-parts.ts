/** How much of a body is stored together. A client may send every byte in a chunk of its own. */
export const MAX_PART_BYTES = 64 * 1024

/** The bytes of a body. Copies small chunks, each of which would take 400 bytes besides its own. */
export class BodyParts {
  #parts: Uint8Array[] = []
  /** The last part, and how much of it is used. */
  #part = Buffer.alloc(0)
  #used = 0

  get count(): number {
    return this.#parts.length + (this.#used > 0 ? 1 : 0)
  }

  add(chunk: Uint8Array): void {
    if (chunk.length > MAX_PART_BYTES / 2) {
      this.#closePart()
      this.#parts.push(chunk)
      return
    }
    if (this.#used + chunk.length > this.#part.length) {
      this.#closePart()
      this.#part = Buffer.allocUnsafe(MAX_PART_BYTES)
    }
    this.#part.set(chunk, this.#used)
    this.#used += chunk.length
  }

  clear(): void {
    this.#parts = []
    this.#part = Buffer.alloc(0)
    this.#used = 0
  }

  drain(): Buffer {
    this.#closePart()
    const bytes = Buffer.concat(this.#parts)
    this.clear()
    return bytes
  }

  #closePart(): void {
    if (this.#used > 0) this.#parts.push(this.#part.subarray(0, this.#used))
    this.#part = this.#part.subarray(this.#used)
    this.#used = 0
  }
}
