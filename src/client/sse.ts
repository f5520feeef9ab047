import type { SseEvent } from '../sse/decode.ts'

/** A stream may not make a page hold more than this, in UTF-16 units. */
const MAX_EVENT_CHARS = 32 * 1024 * 1024

/**
 * Decodes an event stream, as `SseDecoder` does and with the same tests, in a fifth of its size. That one is for servers
 * with thousands of streams.
 */
export class EventReader {
  readonly #onComment: (text: string) => void
  // Node 26 would also remove a second byte order mark that comes in another chunk.
  readonly #utf8 = new TextDecoder('utf-8', { ignoreBOM: true })
  #isFirst = true
  #afterCr = false
  /** The last line so far. */
  #line = ''
  #event = ''
  #data: string | undefined
  #id = ''
  #nextId = ''

  constructor(onComment: (text: string) => void = () => {}) {
    this.#onComment = onComment
  }

  /** Returns the events that this chunk completes. Throws RangeError when one is too large. */
  feed(chunk: Uint8Array): SseEvent[] {
    const events: SseEvent[] = []
    let text = this.#utf8.decode(chunk, { stream: true })
    if (text === '') return events
    if (this.#isFirst && text.startsWith('\uFEFF')) text = text.slice(1)
    this.#isFirst = false
    // The second half of a CRLF.
    if (this.#afterCr && text.startsWith('\n')) text = text.slice(1)
    this.#afterCr = text.endsWith('\r')
    const lines = text.split(/\r\n|\r|\n/)
    lines[0] = this.#line + lines[0]
    this.#line = lines.pop() ?? ''
    for (const line of lines) {
      if (line === '') this.#dispatch(events)
      else this.#read(line)
    }
    if (this.#line.length + (this.#data?.length ?? 0) > MAX_EVENT_CHARS) {
      throw new RangeError('An event is too large')
    }
    return events
  }

  #read(line: string): void {
    const [, name = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/su.exec(line) ?? []
    if (line[0] === ':') this.#onComment(value)
    else if (name === 'data')
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`
    else if (name === 'event') this.#event = value
    else if (name === 'id' && !value.includes('\0')) this.#nextId = value
  }

  #dispatch(events: SseEvent[]): void {
    this.#id = this.#nextId
    if (this.#data !== undefined) {
      events.push({ event: this.#event, data: this.#data, id: this.#id })
    }
    this.#data = undefined
    this.#event = ''
  }
}
