import type { CallEnd, CassetteRequest } from '../protocol/cassette.ts'
import { type CallFields, encodeEntry } from './cassette.ts'
import { type HeaderFields, Redaction, secretsOf } from './redact.ts'
import { vendorOf } from './vendors.ts'

export interface RecordedRequest {
  readonly method: string
  readonly url: string
  readonly headers: HeaderFields
  /** Undefined if it was too large to record. */
  readonly body: string | undefined
}

export interface CallRecorderOptions {
  /** Number of the call in its cassette, from 1. */
  readonly call: number
  /** Milliseconds since the cassette was created. */
  readonly at: () => number
  /** Takes a line. Returns false when the cassette is full. `isEnd` is the last line of a call. */
  readonly write: (line: string, isEnd: boolean) => boolean
  /** Further values to redact. */
  readonly secrets?: readonly string[]
}

/** Records one provider call as lines of a cassette. Secrets of the request never reach a line. */
export class CallRecorder {
  readonly #options: CallRecorderOptions
  readonly #redaction: Redaction
  readonly #bytes: ReturnType<Redaction['bytes']>
  #isOver = false

  constructor(request: RecordedRequest, options: CallRecorderOptions) {
    const { headers, url, method, body } = request
    this.#options = options
    this.#redaction = new Redaction([...secretsOf(headers, url), ...(options.secrets ?? [])])
    this.#bytes = this.#redaction.bytes()
    const vendor = vendorOf(url)
    const recorded: CassetteRequest = {
      ...(vendor !== undefined && { vendor }),
      method,
      url: this.#redaction.url(url),
      headers: this.#redaction.headers(headers),
      ...(body === undefined ? { truncated: true } : { body: this.#redaction.body(body) }),
    }
    this.#write({ request: recorded })
  }

  response(status: number, headers: HeaderFields): void {
    this.#write({ response: { status, headers: this.#redaction.headers(headers) } })
  }

  chunk(chunk: Uint8Array): void {
    if (this.#isOver) return
    this.#writeBytes(this.#bytes.feed(chunk))
  }

  end(reason: CallEnd): void {
    if (this.#isOver) return
    this.#writeBytes(this.#bytes.end())
    this.#write({ end: reason })
    this.#isOver = true
  }

  #writeBytes(bytes: Uint8Array): void {
    if (bytes.length > 0) this.#write({ bytes })
  }

  #write(fields: CallFields): void {
    if (this.#isOver) return
    const { call, at, write } = this.#options
    const place = { at: at(), call }
    if (write(encodeEntry({ ...place, ...fields }), 'end' in fields)) return
    this.#isOver = true
    write(encodeEntry({ ...place, end: 'limit' }), true)
  }
}
