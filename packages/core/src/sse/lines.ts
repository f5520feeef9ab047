import { SseLimitError } from './decode.ts'
import { Fragments } from './fragments.ts'
import { Utf8Decoder } from './utf8.ts'

const DEFAULT_MAX_LINE_CHARS = 10 * 1024 * 1024
const BYTE_ORDER_MARK = '\ufeff'

/** Splits JSON Lines into lines. Chunks may be split anywhere. */
export class LineDecoder {
  readonly #maxLineChars: number
  readonly #utf8 = new Utf8Decoder()
  readonly #line = new Fragments()
  #isFirst = true

  constructor({ maxLineChars = DEFAULT_MAX_LINE_CHARS }: { maxLineChars?: number } = {}) {
    this.#maxLineChars = maxLineChars
  }

  /** Returns the lines that the chunk completes. Throws when a line is too long. */
  feed(chunk: Uint8Array): string[] {
    return this.#read(this.#utf8.decode(chunk))
  }

  /** Returns the last line, which may lack its line break. */
  end(): string[] {
    const lines = this.#read(this.#utf8.end())
    if (this.#line.length > 0) lines.push(this.#takeLine(''))
    return lines
  }

  #read(text: string): string[] {
    const lines: string[] = []
    let start = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      lines.push(this.#takeLine(text.slice(start, end)))
      start = end + 1
    }
    if (start < text.length) this.#append(text.slice(start))
    return lines
  }

  #takeLine(end: string): string {
    this.#append(end)
    const line = this.#line.drain()
    const text = this.#isFirst && line.startsWith(BYTE_ORDER_MARK) ? line.slice(1) : line
    this.#isFirst = false
    return text.endsWith('\r') ? text.slice(0, -1) : text
  }

  #append(text: string): void {
    this.#line.push(text)
    if (this.#line.length > this.#maxLineChars) {
      throw new SseLimitError('maxLineChars', this.#maxLineChars)
    }
  }
}
