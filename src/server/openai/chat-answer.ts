import type { Clock } from '../../async/clock.ts'
import { isSliceOver, nextSlice } from '../../async/time-slice.ts'
import type { ChatCompletionsOptions } from '../../dialects/chat-completions/encode.ts'
import { ChatCompletionsRecords } from '../../dialects/chat-completions/records.ts'
import type { EventRecord, Resync, Tail } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import type { ErrorObject, StreamEvent } from '../../protocol/stream-event.ts'
import { Frame } from '../streams/frame.ts'
import type { SseConnection } from '../streams/sse-connection.ts'

// A frame that is larger would only wait in one piece.
const MAX_FRAME_CHARS = 32 * 1024

/**
 * For clients of OpenAI a stream that just stops is a whole answer. They are told otherwise when it is the server
 * that stops, or the turn that is gone.
 */
const LAST_WORDS = interruption('STREAM_ERROR', 'The stream was broken off before the turn ended')
const DELETED = interruption('TURN_DELETED', 'The turn was deleted')

/** A turn as a stream of Chat Completions, read from the log `events` as it grows. */
export class ChatAnswer {
  readonly #records: AsyncIterator<EventRecord | Resync, void>
  readonly #encoder: ChatCompletionsRecords
  /** Asked for and not there yet. */
  #next: Promise<IteratorResult<EventRecord | Resync, void>> | undefined
  /** Encoded and not sent yet. */
  #text = ''
  #connection: SseConnection | undefined
  #isFlushing = false
  #isBehind = false

  constructor(tail: Tail<EventRecord>, options: ChatCompletionsOptions) {
    this.#records = tail[Symbol.asyncIterator]() as AsyncIterator<EventRecord | Resync, void>
    this.#encoder = new ChatCompletionsRecords(options)
  }

  /** Whether all of it is known. */
  get isWhole(): boolean {
    return this.#encoder.done
  }

  /**
   * Waits until the provider has said something, or until the turn ends without a word, which resolves with the
   * reason: as long as nothing is sent, the answer can still be a status. Not for longer than `ms`.
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
        const failure = failureOf(event)
        if (failure !== undefined) return failure
        const text = this.#encoder.encode(event)
        this.#text += text
        // Of the beginning of a response the client hears, but it says nothing.
        if (text !== '' && event.type !== 'response_start') return undefined
      }
    } finally {
      stopWaiting?.()
    }
  }

  /** Sends what there is and then what is added, to the end of the turn. */
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
      this.#text += this.#encoder.encode(eventOf(result.value))
      if (this.#text.length > MAX_FRAME_CHARS) this.#flush()
      else this.#flushSoon()
      if (this.#isBehind) {
        await connection.drained()
        this.#isBehind = false
      }
    }
    this.#flush()
  }

  /** When all records that are there have been read: they go out as one. */
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

/** Of a log whose beginning is gone no answer can be made. */
function eventOf(record: EventRecord | Resync): StreamEvent {
  if ('event' in record) return record.event
  throw new TurnstreamError('TURN_EXPIRED', `the log is ${record.resync}`)
}

/** How a turn ended that did not come to its end. */
function failureOf({ payload }: StreamEvent): ErrorObject | undefined {
  if (payload.type === 'response_error') return payload.error
  if (payload.type !== 'turn_aborted_by_user') return undefined
  return { code: 'ABORTED', message: `The turn was stopped: ${payload.reason ?? 'by somebody'}` }
}

function interruption(code: string, message: string): Frame {
  const error = { message, type: 'server_error', param: null, code }
  return new Frame(`data: ${JSON.stringify({ error })}\n\ndata: [DONE]\n\n`)
}
