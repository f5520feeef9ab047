import { stripVTControlCharacters } from 'node:util'
import { redactShapes } from '@turnstream/core/internal/protocol/redaction'

const MAX_LOG_CHARS = 2000

/** Splits a log into lines, without colours and secrets. Whole lines: a secret may lie across two chunks. */
export class LogLines {
  readonly #decoder = new TextDecoder()
  readonly #onLine: (line: string) => void
  #rest = ''

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
    const lines = `${this.#rest}${text}`.split('\n').map((line) => line.slice(0, MAX_LOG_CHARS))
    this.#rest = lines.pop() ?? ''
    for (const each of lines) {
      const line = redactShapes(stripVTControlCharacters(each).trim())
      if (line !== '') this.#onLine(line)
    }
  }
}
