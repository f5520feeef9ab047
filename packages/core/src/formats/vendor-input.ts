import { type Decoded, isNestedDeeperThan, MAX_JSON_NESTING, parseJson } from '../protocol/json.ts'
import type { ErrorObject, StreamEventPayload } from '../protocol/stream-event.ts'
import { SseDecoder } from '../sse/decode.ts'
import { LineDecoder } from '../sse/lines.ts'
import { DONE } from './fields.ts'
import type { Translation } from './translation.ts'

export type InputFormat = 'sse' | 'jsonl'

export interface InputFault {
  /** Line number (JSON lines) or event number (SSE), from 1. */
  at: number
  reason: string
}

const LESS_THAN = 0x3c
const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b
/** Whitespace and a byte order mark, which may precede anything. */
const BLANKS = new Set([0x09, 0x0a, 0x0d, 0x20, 0xef, 0xbb, 0xbf])

type InputRecord = string | { data: string }

/** Splits bytes, in any chunks, into events of SSE or JSON lines. Stops at the first malformed one. */
export class VendorInput {
  readonly #format: InputFormat | undefined
  readonly #onEvent: (event: unknown) => void
  #decoder: SseDecoder | LineDecoder | undefined
  #hasBegun = false
  position = 0
  fault: InputFault | undefined

  /** By default the format is detected from the first character. */
  constructor(onEvent: (event: unknown) => void, format?: InputFormat) {
    this.#onEvent = onEvent
    this.#format = format
    if (format !== undefined) this.#decoder = createDecoder(format)
  }

  feed(chunk: Uint8Array): void {
    if (this.fault !== undefined) return
    try {
      if (!this.#hasBegun) this.#begin(chunk)
      if (this.fault !== undefined || this.#decoder === undefined) return
      for (const record of this.#decoder.feed(chunk)) this.#apply(record)
    } catch (error) {
      // A limit of the decoder was exceeded.
      this.#fail(error)
    }
  }

  /** Ends the input. Drops a truncated event: the missing end is reported instead. */
  end(): void {
    if (this.fault !== undefined || this.#decoder === undefined) return
    try {
      for (const record of this.#decoder.end()) if (isReadable(record)) this.#apply(record)
    } catch (error) {
      this.#fail(error)
    }
  }

  #apply(record: InputRecord): void {
    if (this.fault !== undefined) return
    this.position += 1
    const text = typeof record === 'string' ? record : record.data
    if (typeof record === 'string' && text.trim() === '') return
    if (text === DONE) return this.#onEvent(DONE)
    const json = parse(text)
    if (json.ok) this.#onEvent(json.value)
    else this.fault ??= { at: this.position, reason: json.reason }
  }

  #fail(error: unknown): void {
    this.fault ??= {
      at: this.position,
      reason: error instanceof Error ? error.message : 'unreadable',
    }
  }

  /** `{` starts JSON lines, a tag an error page; everything else is SSE. */
  #begin(chunk: Uint8Array): void {
    const first = chunk.find((byte) => !BLANKS.has(byte))
    if (first === undefined) return
    this.#hasBegun = true
    const format = this.#format ?? (first === OPEN_BRACE ? 'jsonl' : 'sse')
    if (first === LESS_THAN) {
      this.#refuse('the input is a page of HTML or XML, not a stream')
    } else if (format === 'sse' && (first === OPEN_BRACE || first === OPEN_BRACKET)) {
      // SSE would treat these as unknown fields, and the response as empty.
      this.#refuse('the input is JSON, not a stream of events')
    } else this.#decoder ??= createDecoder(format)
  }

  #refuse(reason: string): void {
    this.position = 1
    this.fault = { at: 1, reason }
  }
}

function createDecoder(format: InputFormat): SseDecoder | LineDecoder {
  return format === 'sse' ? new SseDecoder({ flushOnEnd: true }) : new LineDecoder()
}

function parse(text: string): Decoded<unknown> {
  return isNestedDeeperThan(text, MAX_JSON_NESTING)
    ? { ok: false, reason: `nested more than ${MAX_JSON_NESTING} levels deep` }
    : parseJson(text)
}

function isReadable(record: InputRecord): boolean {
  const text = typeof record === 'string' ? record : record.data
  return text === DONE || parse(text).ok
}

const NONE: readonly StreamEventPayload[] = []

/** Parses and translates a vendor's bytes to payloads. Never waits. */
export class VendorReader {
  readonly #translation: Translation
  readonly #input: VendorInput
  #payloads = NONE
  /** Payloads of several events; may be appended to. */
  #own: StreamEventPayload[] = []
  #isOver = false

  constructor(translation: Translation, format?: InputFormat) {
    this.#translation = translation
    this.#input = new VendorInput((event) => this.#add(translation.translate(event)), format)
  }

  /** Set when the input is malformed; the last payload also reports it. */
  get fault(): InputFault | undefined {
    return this.#input.fault
  }

  feed(chunk: Uint8Array): readonly StreamEventPayload[] {
    if (this.#isOver) return []
    this.#input.feed(chunk)
    return this.#input.fault === undefined ? this.#drain() : this.end()
  }

  /** The input ended or failed: ends an open response truthfully. */
  end(reason?: ErrorObject): readonly StreamEventPayload[] {
    if (this.#isOver) return []
    this.#isOver = true
    if (reason === undefined) this.#input.end()
    const { fault } = this.#input
    const malformed = fault && {
      code: 'UPSTREAM_MALFORMED',
      message: `event ${fault.at} is malformed: ${fault.reason}`,
    }
    this.#add(this.#translation.end(reason ?? malformed))
    return this.#drain()
  }

  /** Most chunks hold one event, whose payloads are passed on without a copy. */
  #add(payloads: readonly StreamEventPayload[]): void {
    if (payloads.length === 0) return
    if (this.#payloads.length === 0) this.#payloads = payloads
    else if (this.#own === this.#payloads) for (const payload of payloads) this.#own.push(payload)
    else this.#payloads = this.#own = [...this.#payloads, ...payloads]
  }

  #drain(): readonly StreamEventPayload[] {
    const payloads = this.#payloads
    this.#payloads = NONE
    return payloads
  }
}
