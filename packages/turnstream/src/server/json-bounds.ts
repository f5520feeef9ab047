import { RequestInvalidError } from '@turnstream/core/internal/formats/request-errors'
import { MAX_JSON_NESTING, MAX_JSON_VALUES } from '@turnstream/core/internal/protocol/json'

/** Members of one object. Engines and validators need far more time for them than for elements. */
export const MAX_JSON_MEMBERS = 5000

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** Counts the values of a JSON text while it arrives, before it is parsed. Text that is not JSON may pass. */
export class JsonBounds {
  #values = 0
  #level = 0
  /** By level: the members of an object, or -1 for an array. */
  readonly #members = new Int32Array(MAX_JSON_NESTING + 2)
  #isInString = false
  /** Backslashes at the end of the last chunk, in a string. */
  #backslashes = 0

  /** REQUEST_INVALID if there are too many values, or too many levels. */
  add(chunk: Uint8Array): void {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    let at = 0
    while (at < bytes.length)
      at = this.#isInString ? this.#skipString(bytes, at) : this.#scan(bytes, at)
  }

  /** Returns where the first string ends, or the end of the chunk. */
  #skipString(bytes: Buffer, start: number): number {
    for (let at = start; ; ) {
      const quote = bytes.indexOf(QUOTE, at)
      const end = quote === -1 ? bytes.length : quote
      let first = end
      while (first > at && bytes[first - 1] === BACKSLASH) first -= 1
      const before = first === start ? this.#backslashes : 0
      const backslashes = end - first + before
      if (quote === -1) {
        this.#backslashes = backslashes % 2
        return end
      }
      this.#backslashes = 0
      at = end + 1
      if (backslashes % 2 === 1) continue
      this.#isInString = false
      return at
    }
  }

  /** Returns where the next string starts, or the end of the chunk. */
  #scan(bytes: Buffer, start: number): number {
    for (let at = start; at < bytes.length; at++) {
      switch (bytes[at]) {
        case QUOTE:
          this.#isInString = true
          this.#backslashes = 0
          return at + 1
        case COMMA:
          this.#addValue()
          break
        case OPEN_ARRAY:
          this.#open(-1)
          break
        case OPEN_OBJECT:
          this.#open(1)
          break
        case CLOSE_ARRAY:
        case CLOSE_OBJECT:
          this.#level = Math.max(0, this.#level - 1)
          break
        default:
      }
    }
    return bytes.length
  }

  #open(members: number): void {
    this.#level += 1
    if (this.#level > MAX_JSON_NESTING) {
      throw tooLarge(`is nested more than ${MAX_JSON_NESTING} levels deep`)
    }
    this.#members[this.#level] = members
    this.#countValue()
  }

  #addValue(): void {
    const members = this.#members[this.#level] ?? 0
    if (members >= MAX_JSON_MEMBERS) {
      throw tooLarge(`has an object with more than ${MAX_JSON_MEMBERS} fields`)
    }
    if (members > 0) this.#members[this.#level] = members + 1
    this.#countValue()
  }

  #countValue(): void {
    this.#values += 1
    if (this.#values > MAX_JSON_VALUES) throw tooLarge(`has more than ${MAX_JSON_VALUES} values`)
  }
}

function tooLarge(message: string): RequestInvalidError {
  return new RequestInvalidError([{ path: 'body', message }])
}
