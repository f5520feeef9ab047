import { type Decoded, parseJson } from '../protocol/decode.ts'
import { isNestedDeeperThan, MAX_JSON_NESTING } from '../protocol/json.ts'
import { SseDecoder } from '../sse/decode.ts'
import { LineDecoder } from '../sse/lines.ts'

export type InputFormat = 'sse' | 'jsonl'

/** What stands at the place of an event that could not be read. */
export interface InputFault {
  /** The number of the line (JSON lines) or of the event (SSE), from 1. */
  at: number
  reason: string
}

export interface VendorInputOptions {
  /** Told apart by its first character unless it is given. */
  format?: InputFormat
  maxLineChars?: number
}

const LESS_THAN = 0x3c
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
/** White space and a byte order mark, which may stand before anything. */
const BLANKS = new Set([0x09, 0x0a, 0x0d, 0x20, 0xef, 0xbb, 0xbf])

/** A line, or an event of SSE. */
type InputRecord = string | { data: string }

/** The last event of a Chat Completions stream; it is no JSON. */
const DONE = '[DONE]'

/**
 * The bytes of a vendor's stream as vendor events: SSE or one JSON to a line, cut anywhere. The first
 * thing that cannot be read ends the reading: `fault` says what and where.
 */
export class VendorInput {
  readonly #options: VendorInputOptions
  readonly #onEvent: (event: unknown) => void
  #decoder: SseDecoder | LineDecoder | undefined
  #count = 0
  #hasBegun = false
  #fault: InputFault | undefined

  constructor(onEvent: (event: unknown) => void, options: VendorInputOptions = {}) {
    this.#onEvent = onEvent
    this.#options = options
    if (options.format !== undefined) this.#decoder = this.#createDecoder(options.format)
  }

  get fault(): InputFault | undefined {
    return this.#fault
  }

  /** The number of the line or event that is being read, from 1. */
  get position(): number {
    return this.#count
  }

  feed(chunk: Uint8Array): void {
    this.#guard(() => {
      if (!this.#hasBegun) this.#begin(chunk)
      if (this.#decoder !== undefined && this.#fault === undefined) {
        this.#take(this.#decoder.feed(chunk))
      }
    })
  }

  /** What the input was cut in the middle of is no event: it is the lack of an end that tells. */
  end(): void {
    this.#guard(() => {
      if (this.#decoder === undefined) return
      const rest = this.#decoder.end().filter((record) => isReadable(textOf(record)))
      this.#take(rest)
    })
  }

  /** Decoders throw when a bound is exceeded, and only then. */
  #guard(read: () => void): void {
    if (this.#fault !== undefined) return
    try {
      read()
    } catch (error) {
      this.#setFault(error instanceof Error ? error.message : 'unreadable')
    }
  }

  #take(records: readonly InputRecord[]): void {
    for (const record of records) {
      if (this.#fault !== undefined) return
      this.#count += 1
      const text = textOf(record)
      if (typeof record === 'string' && text.trim() === '') continue
      if (text === DONE) {
        this.#onEvent(DONE)
        continue
      }
      const json = readJson(text)
      if (json.ok) this.#onEvent(json.value)
      else this.#setFault(json.reason)
    }
  }

  #setFault(reason: string): void {
    this.#fault ??= { at: this.#count, reason }
  }

  /** An object at the start is a line of JSON, a tag is an error page, all else is SSE. */
  #begin(chunk: Uint8Array): void {
    const first = chunk.find((byte) => !BLANKS.has(byte))
    if (first === undefined) return
    this.#hasBegun = true
    const { format = first === OPEN_BRACE ? 'jsonl' : 'sse' } = this.#options
    if (first === LESS_THAN) {
      this.#refuse('the input is a page of HTML or XML, not a stream')
    } else if (format === 'sse' && (first === OPEN_BRACE || first === OPEN_BRACKET)) {
      // To SSE these would be names of fields that nobody knows, and the answer an empty one.
      this.#refuse('the input is JSON, not a stream of events')
    } else this.#decoder ??= this.#createDecoder(format)
  }

  #refuse(reason: string): void {
    this.#count = 1
    this.#setFault(reason)
  }

  #createDecoder(format: InputFormat): SseDecoder | LineDecoder {
    const { maxLineChars } = this.#options
    const limits = maxLineChars === undefined ? {} : { maxLineChars }
    return format === 'sse'
      ? new SseDecoder({ ...limits, flushOnEnd: true })
      : new LineDecoder(limits)
  }
}

function textOf(record: InputRecord): string {
  return typeof record === 'string' ? record : record.data
}

function readJson(text: string): Decoded<unknown> {
  if (isNestedDeeperThan(text, MAX_JSON_NESTING)) {
    return { ok: false, reason: `nested more than ${MAX_JSON_NESTING} levels deep` }
  }
  return parseJson(text)
}

function isReadable(text: string): boolean {
  return text === DONE || readJson(text).ok
}
