import { type Clock, pause } from '@turnstream/core/internal/async/clock'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type { EventRecord, Resync, Tail } from '@turnstream/core/internal/log/turn-log'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { ErrorObject, StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import { AnswerSize } from './answer-size.ts'
import { Frame } from './frames.ts'
import type { StreamKind } from './open-streams.ts'
import type { SseConnection } from './sse-connection.ts'

// A larger frame would only be buffered.
const MAX_FRAME_CHARS = 32 * 1024

export interface AnswerEncoder {
  readonly kind: StreamKind
  readonly isOver: boolean
  /** Whether a cancelled turn is an answer in this dialect. Otherwise it is an error. */
  readonly hasCancelled?: boolean
  /** How many times one event may repeat the texts of the whole answer; 0 by default. */
  readonly repeats?: number
  encodeSse(event: StreamEvent): string
  /** The last text of a stream that ends before the turn. Clients take a stream that stops for a complete one. */
  interruptionSse(error: ErrorObject): string
  /** For an encoder that returns nothing for what was stored when the stream opens: all of it, once it was read. */
  storedSse?(): string
  /** Data sent to clients that ignore comments, to keep them waiting; empty for a comment. */
  heartbeatSse?(): string
}

/** Streams a turn in the dialect of a vendor, read from the log `events` as it grows. */
export class AnswerStream {
  readonly #records: AsyncIterator<EventRecord | Resync, void>
  readonly #encoder: AnswerEncoder
  readonly #size = new AnswerSize()
  #next: Promise<IteratorResult<EventRecord | Resync, void>> | undefined
  #text = ''
  #connection: SseConnection | undefined
  #isFlushing = false
  #hasJoined = false
  #isBehind = false

  constructor(tail: Tail<EventRecord>, encoder: AnswerEncoder) {
    this.#records = tail[Symbol.asyncIterator]() as AsyncIterator<EventRecord | Resync, void>
    this.#encoder = encoder
    if (encoder.storedSse !== undefined) void tail.caughtUp.then(this.#join)
  }

  get isComplete(): boolean {
    return this.#encoder.isOver
  }

  /** Waits up to `ms` for the first output. Resolves with the error of a turn that ends without any. */
  async begin(clock: Clock, ms: number): Promise<ErrorObject | undefined> {
    const late = new AbortController()
    const waited = pause(ms, clock, late.signal)
    try {
      for (;;) {
        this.#next ??= this.#records.next()
        const result = await Promise.race([this.#next, waited])
        if (result === undefined) return undefined
        this.#next = undefined
        if (result.done === true) return undefined
        const record = recordOf(result.value)
        const { event } = record
        if (!isStreamEvent(event)) continue
        this.#size.add(record)
        const isAnswer = this.#encoder.hasCancelled && event.type === 'turn_aborted_by_user'
        const failure = isAnswer ? undefined : failureOf(event)
        if (failure !== undefined) return failure
        const text = this.#encode(event)
        this.#text += text
        // The start of a response has a frame, but no output.
        if (text !== '' && event.type !== 'response_start') return undefined
      }
    } finally {
      late.abort()
    }
  }

  async sendTo(connection: SseConnection): Promise<void> {
    this.#connection = connection
    const encoder = this.#encoder
    const interruptBy = (code: string, message: string) => {
      connection.lastWords = () => this.#interruption(connection, code, message)
    }
    interruptBy('STREAM_ERROR', 'The stream ended before the turn')
    connection.heartbeat = () => encoder.heartbeatSse?.() ?? ''
    try {
      await this.#follow(connection)
    } catch (error) {
      if (hasCode(error, 'TURN_DELETED')) interruptBy('TURN_DELETED', 'The turn was deleted')
      throw error
    }
    if (this.isComplete) connection.lastWords = undefined
  }

  async #follow(connection: SseConnection): Promise<void> {
    await this.#sendAll(connection)
    for (;;) {
      const result = await (this.#next ?? this.#records.next())
      this.#next = undefined
      if (result.done === true) break
      if (isSliceOver()) await nextSlice()
      const record = recordOf(result.value)
      if (this.#size.add(record)) await this.#room(connection)
      this.#text += this.#encode(record.event)
      if (this.#isBehind || this.#text.length > MAX_FRAME_CHARS) await this.#sendAll(connection)
      else this.#flushSoon()
    }
    // The turn may have ended before the stream was opened.
    await this.#join()
    await this.#sendAll(connection)
  }

  /** Ignores malformed records and unknown types. Deltas, nearly all records, need no full check. */
  #encode(event: StreamEvent): string {
    const isDelta = event.type === 'item_delta' && typeof event.payload?.delta_content === 'string'
    return isDelta || isStreamEvent(event) ? this.#encoder.encodeSse(event) : ''
  }

  /** What the next event may take, with what the encoder keeps. */
  get #bytes(): number {
    return this.#size.chars * (1 + (this.#encoder.repeats ?? 0))
  }

  /** Undefined if the key's clients leave too much unread: it may repeat the whole answer. */
  #interruption(connection: SseConnection, code: string, message: string): Frame | undefined {
    if (connection.isHeldBack(this.#bytes)) return undefined
    return new Frame(this.#encoder.interruptionSse({ code, message }))
  }

  /** Waits for room before the next event is encoded: what it repeats of the answer would be held, too. */
  async #room(connection: SseConnection): Promise<void> {
    connection.slot.keep(this.#size.chars)
    const bytes = this.#bytes
    if (!connection.isHeldBack(bytes)) return
    this.#send(connection)
    // The headers of the response come with the first frame.
    connection.beat()
    await connection.room(bytes)
  }

  readonly #join = async (): Promise<void> => {
    if (this.#encoder.storedSse === undefined) return
    if (this.#connection !== undefined) await this.#room(this.#connection)
    // Nobody reads the answer of a client that left.
    if (this.#hasJoined || this.#connection?.signal.aborted === true) return
    this.#hasJoined = true
    this.#text += this.#encoder.storedSse?.() ?? ''
    if (this.#connection !== undefined) this.#flushSoon()
  }

  /** Sends everything encoded in one frame, once all available records have been read. */
  #flushSoon(): void {
    if (this.#isFlushing) return
    this.#isFlushing = true
    process.nextTick(this.#flush)
  }

  readonly #flush = (): void => {
    this.#isFlushing = false
    if (this.#connection === undefined) return
    if (this.#text.length > MAX_FRAME_CHARS) void this.#sendAll(this.#connection)
    else this.#send(this.#connection)
  }

  /** Sends everything encoded, once the key's clients have read enough, and waits for a slow client. */
  async #sendAll(connection: SseConnection): Promise<void> {
    // The headers of the response come with the first frame.
    if (connection.isHeldBack(this.#text.length)) connection.beat()
    while (connection.isHeldBack(this.#text.length)) await connection.room(this.#text.length)
    this.#send(connection)
    if (!this.#isBehind) return
    await connection.drained()
    this.#isBehind = false
  }

  #send(connection: SseConnection): void {
    if (this.#text === '') return
    const frame = new Frame(this.#text)
    this.#text = ''
    if (!connection.send(frame)) this.#isBehind = true
  }
}

/** A log whose beginning was removed has no complete answer. */
function recordOf(record: EventRecord | Resync): EventRecord {
  if ('event' in record) return record
  throw new TurnstreamError('TURN_EXPIRED', `the log is ${record.resync}`)
}

function failureOf({ payload }: StreamEvent): ErrorObject | undefined {
  if (payload.type === 'response_error') return payload.error
  if (payload.type !== 'turn_aborted_by_user') return undefined
  return { code: 'ABORTED', message: `The turn was stopped: ${payload.reason ?? 'cancelled'}` }
}
