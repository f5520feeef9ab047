import type { Clock } from '../../async/clock.ts'
import { isSliceOver, nextSlice } from '../../async/time-slice.ts'
import {
  ChatCompletionsEncoder,
  type ChatCompletionsOptions,
} from '../../dialects/chat-completions/encode.ts'
import type { EventRecord, Resync, Tail } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import type { ErrorObject, StreamEvent } from '../../protocol/stream-event.ts'
import { isStreamEvent } from '../../protocol/stream-event-guard.ts'
import { Frame } from '../streams/frames.ts'
import type { SseConnection } from '../streams/sse-connection.ts'

// A larger frame would only wait in one piece.
const MAX_FRAME_CHARS = 32 * 1024

/** OpenAI's clients take a stream that stops for a complete answer. They get an error when the turn goes on or is gone. */
const LAST_WORDS = interruption('STREAM_ERROR', 'The stream was broken off before the turn ended')
const DELETED = interruption('TURN_DELETED', 'The turn was deleted')

/** A turn as a stream of Chat Completions, read from the log `events` as it grows. */
export class ChatAnswer {
  readonly #records: AsyncIterator<EventRecord | Resync, void>
  readonly #encoder: ChatCompletionsEncoder
  /** Requested and not there yet. */
  #next: Promise<IteratorResult<EventRecord | Resync, void>> | undefined
  /** Encoded and not sent yet. */
  #text = ''
  #connection: SseConnection | undefined
  #isFlushing = false
  #isBehind = false

  constructor(tail: Tail<EventRecord>, options: ChatCompletionsOptions) {
    this.#records = tail[Symbol.asyncIterator]() as AsyncIterator<EventRecord | Resync, void>
    this.#encoder = new ChatCompletionsEncoder(options)
  }

  /** Whether the answer has ended. */
  get isWhole(): boolean {
    return this.#encoder.done
  }

  /**
   * Waits for the first output, or for at most `ms`. Resolves with the error of a turn that ends without output: as long
   * as nothing is sent, the response can still have a status.
   */
  async begin(clock: Clock, ms: number): Promise<ErrorObject | undefined> {
    let stopWaiting: (() => void) | undefined
    const late = new Promise<'late'>((resolve) => {
      stopWaiting = clock.after(ms, () => resolve('late'))
    })
    try {
      for (;;) {
        this.#next ??= this.#records.next()
        const result = await Promise.race([this.#next, late])
        if (result === 'late') return undefined
        this.#next = undefined
        if (result.done === true) return undefined
        const event = eventOf(result.value)
        if (!isStreamEvent(event)) continue
        const failure = failureOf(event)
        if (failure !== undefined) return failure
        const text = this.#encode(event)
        this.#text += text
        // The start of a response has a chunk, but is no output.
        if (text !== '' && event.type !== 'response_start') return undefined
      }
    } finally {
      stopWaiting?.()
    }
  }

  /** Sends the answer to the end of the turn. */
  async sendTo(connection: SseConnection): Promise<void> {
    this.#connection = connection
    connection.lastWords = LAST_WORDS
    try {
      await this.#follow(connection)
    } catch (error) {
      if (error instanceof TurnstreamError && error.code === 'TURN_DELETED') {
        connection.lastWords = DELETED
      }
      throw error
    }
    if (this.isWhole) connection.lastWords = undefined
  }

  async #follow(connection: SseConnection): Promise<void> {
    this.#flushSoon()
    for (;;) {
      const result = await (this.#next ?? this.#records.next())
      this.#next = undefined
      if (result.done === true) break
      if (isSliceOver()) await nextSlice()
      this.#text += this.#encode(eventOf(result.value))
      if (this.#text.length > MAX_FRAME_CHARS) this.#flush()
      else this.#flushSoon()
      if (this.#isBehind) {
        await connection.drained()
        this.#isBehind = false
      }
    }
    this.#flush()
  }

  /** Nothing for a record that is malformed or of an unknown type. Deltas, nearly all of them, need no full check. */
  #encode(event: StreamEvent): string {
    const isDelta = event.type === 'item_delta' && typeof event.payload?.delta_content === 'string'
    return isDelta || isStreamEvent(event) ? this.#encoder.encodeSse(event) : ''
  }

  /** Sends what was encoded once all available records have been read, in one frame. */
  #flushSoon(): void {
    if (this.#isFlushing) return
    this.#isFlushing = true
    process.nextTick(this.#flush)
  }

  readonly #flush = (): void => {
    this.#isFlushing = false
    if (this.#text === '') return
    const frame = new Frame(this.#text)
    this.#text = ''
    if (this.#connection?.send(frame) === false) this.#isBehind = true
  }
}

/** A log whose beginning is gone has no answer. */
function eventOf(record: EventRecord | Resync): StreamEvent {
  if ('event' in record) return record.event
  throw new TurnstreamError('TURN_EXPIRED', `the log is ${record.resync}`)
}

/** The error of a turn that failed or was cancelled. */
function failureOf({ payload }: StreamEvent): ErrorObject | undefined {
  if (payload.type === 'response_error') return payload.error
  if (payload.type !== 'turn_aborted_by_user') return undefined
  return { code: 'ABORTED', message: `The turn was stopped: ${payload.reason ?? 'by somebody'}` }
}

function interruption(code: string, message: string): Frame {
  const error = { message, type: 'server_error', param: null, code }
  return new Frame(`data: ${JSON.stringify({ error })}\n\ndata: [DONE]\n\n`)
}
