import { stripVTControlCharacters } from 'node:util'
import { redactShapes } from '@turnstream/core/internal/protocol/redaction'

const MAX_LOG_CHARS = 2000

/** Splits a log into lines, without colours and secrets. Whole lines: a secret may lie across two chunks. */
export class LogLines {
  readonly #decoder = new TextDecoder()
  readonly #onLine: (line: string) => void
  #line = ''

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine
  }

  feed(chunk: Uint8Array): void {
    this.#add(this.#decoder.decode(chunk, { stream: true }))
  }

  end(): void {
    this.#add(`${this.#decoder.decode()}\n`)
  }

  #add(text: string): void {
    const [rest = '', ...starts] = text.split('\n')
    this.#grow(rest)
    for (const start of starts) {
      this.#flush()
      this.#grow(start)
    }
  }

  #grow(text: string): void {
    this.#line += text.slice(0, MAX_LOG_CHARS - this.#line.length)
  }

  #flush(): void {
    const line = redactShapes(stripVTControlCharacters(this.#line).trim())
    this.#line = ''
    if (line !== '') this.#onLine(line)
  }
}
