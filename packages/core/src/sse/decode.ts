import { Fragments } from './fragments.ts'
import { Utf8Decoder } from './utf8.ts'

export interface SseEvent {
  /** The event name; empty when there is none, which browsers dispatch as `message`. */
  event: string
  /** The `data` lines, joined with a line feed. */
  data: string
  /** The last id the stream set, in this event or earlier; empty when there is none. */
  id: string
}

export interface SseDecoderOptions {
  /** Maximum length of a line in UTF-16 units. Default 10 Mi. */
  maxLineChars?: number
  /** Maximum data of an event in UTF-16 units. Default 16 Mi. */
  maxEventChars?: number
  /**
   * If `true`, `end()` returns a last block that lacks only its blank line, as some servers send it. The
   * block must have data and end after a line or within a data line, so it may be incomplete. Default
   * `false`, as in the specification.
   */
  flushOnEnd?: boolean
  /** Receives what follows the colon of a comment line. Must not throw. */
  onComment?: (text: string) => void
}

const DEFAULT_MAX_LINE_CHARS = 10 * 1024 * 1024
const DEFAULT_MAX_EVENT_CHARS = 16 * 1024 * 1024

const LF = 0x0a
const BYTE_ORDER_MARK = 0xfe_ff
const DIGITS = /^[0-9]+$/

/**
 * Decodes an event stream as in §9.2.6 of the WHATWG HTML standard. Chunks are UTF-8 or text and may be split anywhere.
 *
 * State between chunks: the current line (`#line`), the current block (`#event`, `#data`, `#moreData`, `#nextId`), and
 * the stream's `lastEventId` and `retryMs`. The data is bounded by `maxEventChars`, everything else by `maxLineChars`.
 */
export class SseDecoder {
  readonly #maxLineChars: number
  readonly #maxEventChars: number
  /** A line of up to this length is within both bounds. */
  readonly #maxPlainChars: number
  readonly #flushOnEnd: boolean
  readonly #onComment: ((text: string) => void) | undefined
  readonly #utf8 = new Utf8Decoder()
  #failure: SseLimitError | undefined
  #ended = false

  #atStart = true
  /** The last chunk ended with CR, so a line feed at the start of the next one belongs to it. */
  #afterCr = false
  readonly #line = new Fragments()

  #event = ''
  /** The first data line; undefined before it. */
  #data: string | undefined
  readonly #moreData = new Fragments()
  #nextId = ''

  #lastEventId = ''
  #retryMs: number | undefined

  constructor(options: SseDecoderOptions = {}) {
    this.#maxLineChars = bound('maxLineChars', options.maxLineChars ?? DEFAULT_MAX_LINE_CHARS)
    this.#maxEventChars = bound('maxEventChars', options.maxEventChars ?? DEFAULT_MAX_EVENT_CHARS)
    this.#maxPlainChars = Math.min(this.#maxLineChars, this.#maxEventChars)
    this.#flushOnEnd = options.flushOnEnd ?? false
    this.#onComment = options.onComment
  }

  /** Where to resume: the id at the last blank line, even if that block had no data. */
  get lastEventId(): string {
    return this.#lastEventId
  }

  /** The reconnection delay that the stream requested; always finite. */
  get retryMs(): number | undefined {
    return this.#retryMs
  }

  /**
   * Returns the events that this chunk completes. Throws SseLimitError once a bound is exceeded, and on every
   * later call. If the chunk completed events before that point, returns them and throws on the next call.
   */
  feed(chunk: Uint8Array | string): SseEvent[] {
    if (this.#ended) throw new Error('The decoder has ended. Create a new one for each stream.')
    if (this.#failure) throw this.#failure
    // Text after bytes that end inside a character: the character is never completed.
    const text = typeof chunk === 'string' ? this.#utf8.end() + chunk : this.#utf8.decode(chunk)
    const events: SseEvent[] = []
    this.#scan(text, events)
    return this.#delivered(events)
  }

  /** Ends the stream. Drops a block without its blank line, unless `flushOnEnd` is set. */
  end(): SseEvent[] {
    if (this.#failure) throw this.#failure
    const events: SseEvent[] = []
    if (this.#ended) return events
    this.#ended = true
    if (this.#flushOnEnd) this.#flush(events)
    this.#forget()
    return this.#delivered(events)
  }

  #delivered(events: SseEvent[]): SseEvent[] {
    if (this.#failure && events.length === 0) throw this.#failure
    return events
  }

  #scan(text: string, events: SseEvent[]): void {
    if (text === '') return
    const { length } = text
    let start = this.#skipPrefix(text)
    // Search again only after passing a match. A text with many of one and none of the other is still scanned once.
    let lf = -1
    let cr = -1
    while (start < length) {
      if (lf < start) lf = indexOrLength(text, '\n', start)
      if (cr < start) cr = indexOrLength(text, '\r', start)
      const end = cr < lf ? cr : lf
      if (end === length) {
        this.#keep(text, start)
        return
      }
      if (end === lf && this.#isWholeEvent(text, start, end)) {
        this.#data = valueOf(text, start + 4, end)
        this.#dispatch(events)
        start = end + 2
        continue
      }
      this.#endLine(text, start, end, events)
      if (this.#failure) return
      start = end + 1
      if (end === cr) {
        if (start === length) this.#afterCr = true
        else if (text.charCodeAt(start) === LF) start += 1
      }
    }
  }

  /** Fast path for an event with a single data line. Equivalent to calling `#endLine` twice. */
  #isWholeEvent(text: string, start: number, end: number): boolean {
    return (
      text.charCodeAt(end + 1) === LF &&
      this.#data === undefined &&
      this.#line.length === 0 &&
      end - start <= this.#maxPlainChars &&
      isData(text, start, end)
    )
  }

  /** Returns where the first line starts, after a byte order mark or the second half of a CRLF. */
  #skipPrefix(text: string): number {
    const first = text.charCodeAt(0)
    const skip = (this.#atStart && first === BYTE_ORDER_MARK) || (this.#afterCr && first === LF)
    this.#atStart = false
    this.#afterCr = false
    return skip ? 1 : 0
  }

  #keep(text: string, start: number): void {
    if (this.#line.length + text.length - start > this.#maxLineChars) this.#fail('maxLineChars')
    else this.#line.push(text.slice(start))
  }

  #endLine(text: string, start: number, end: number, events: SseEvent[]): void {
    if (this.#line.length + end - start > this.#maxLineChars) {
      this.#fail('maxLineChars')
    } else if (this.#line.length > 0) {
      const line = this.#line.drain() + text.slice(start, end)
      this.#readLine(line, 0, line.length)
    } else if (start === end) {
      this.#dispatch(events)
    } else {
      this.#readLine(text, start, end)
    }
  }

  /** Checks only positions where a known field can be, so unknown lines cost nothing, however long. */
  #readLine(text: string, start: number, end: number): void {
    switch (text.charCodeAt(start)) {
      case COLON:
        this.#onComment?.(text.slice(start + 1, end))
        break
      case LOWER_D:
        if (isData(text, start, end)) this.#addData(valueOf(text, start + 4, end))
        break
      case LOWER_E:
        if (isEvent(text, start, end)) this.#event = valueOf(text, start + 5, end)
        break
      case LOWER_I:
        if (isField('id', text, start, end)) this.#setId(valueOf(text, start + 2, end))
        break
      case LOWER_R:
        if (isField('retry', text, start, end)) this.#setRetry(valueOf(text, start + 5, end))
        break
    }
  }

  #addData(value: string): void {
    if (this.#data === undefined) this.#data = value
    else this.#moreData.push(`\n${value}`)
    if (this.#data.length + this.#moreData.length > this.#maxEventChars) this.#fail('maxEventChars')
  }

  #setId(value: string): void {
    if (!value.includes('\0')) this.#nextId = value
  }

  #setRetry(value: string): void {
    if (DIGITS.test(value)) this.#retryMs = Math.min(Number(value), Number.MAX_SAFE_INTEGER)
  }

  #dispatch(events: SseEvent[]): void {
    this.#lastEventId = this.#nextId
    if (this.#data !== undefined) {
      const data = this.#moreData.length === 0 ? this.#data : this.#data + this.#moreData.drain()
      events.push({ event: this.#event, data, id: this.#lastEventId })
    }
    this.#data = undefined
    this.#event = ''
  }

  #flush(events: SseEvent[]): void {
    this.#scan(this.#utf8.end(), events)
    if (this.#line.length > 0) {
      const line = this.#line.drain()
      // A partial id or name would be worse than none.
      if (!line.startsWith('data:')) return
      this.#readLine(line, 0, line.length)
    }
    if (this.#data !== undefined) this.#dispatch(events)
  }

  #fail(limit: SseLimit): void {
    const max = limit === 'maxLineChars' ? this.#maxLineChars : this.#maxEventChars
    this.#failure = new SseLimitError(limit, max)
    this.#forget()
  }

  #forget(): void {
    this.#line.clear()
    this.#moreData.clear()
    this.#data = undefined
  }
}

function indexOrLength(text: string, search: string, from: number): number {
  const index = text.indexOf(search, from)
  return index === -1 ? text.length : index
}

function bound(name: SseLimit, value: number): number {
  if (value >= 1 && (Number.isInteger(value) || value === Infinity)) return value
  throw new RangeError(`${name} must be an integer of at least 1 or Infinity, not ${value}`)
}

// Fields are compared in place; only values are sliced out of the text.
const SPACE = 0x20
const COLON = 0x3a
const LOWER_A = 0x61
const LOWER_D = 0x64
const LOWER_E = 0x65
const LOWER_I = 0x69
const LOWER_N = 0x6e
const LOWER_R = 0x72
const LOWER_T = 0x74
const LOWER_V = 0x76

// The two most frequent fields are compared inline: with `isField`, decoding the Anthropic-like load took
// 1.1 times as long (bench/sse, 64 KB chunks of text).
function isData(text: string, start: number, end: number): boolean {
  return (
    text.charCodeAt(start) === LOWER_D &&
    text.charCodeAt(start + 1) === LOWER_A &&
    text.charCodeAt(start + 2) === LOWER_T &&
    text.charCodeAt(start + 3) === LOWER_A &&
    (start + 4 === end || text.charCodeAt(start + 4) === COLON)
  )
}

function isEvent(text: string, start: number, end: number): boolean {
  return (
    text.charCodeAt(start) === LOWER_E &&
    text.charCodeAt(start + 1) === LOWER_V &&
    text.charCodeAt(start + 2) === LOWER_E &&
    text.charCodeAt(start + 3) === LOWER_N &&
    text.charCodeAt(start + 4) === LOWER_T &&
    (start + 5 === end || text.charCodeAt(start + 5) === COLON)
  )
}

function isField(name: string, text: string, start: number, end: number): boolean {
  if (!text.startsWith(name, start)) return false
  const after = start + name.length
  return after === end || text.charCodeAt(after) === COLON
}

/** Returns what follows the colon and an optional space. `afterName` may be the end of the line. */
function valueOf(text: string, afterName: number, end: number): string {
  const start = afterName + 1
  return text.slice(text.charCodeAt(start) === SPACE ? start + 1 : start, end)
}

/** The bounds of an SseDecoder. */
export type SseLimit = 'maxLineChars' | 'maxEventChars'

/** The peer exceeded the limit for a line or an event. `code` is stable; the message is for people. */
export class SseLimitError extends Error {
  override readonly name = 'SseLimitError'
  readonly code = 'SSE_LIMIT_EXCEEDED'
  /** The option that was exceeded. */
  readonly limit: SseLimit

  constructor(limit: SseLimit, max: number) {
    super(`The event stream exceeds a limit: more than ${max} characters (${limit})`)
    this.limit = limit
  }
}
