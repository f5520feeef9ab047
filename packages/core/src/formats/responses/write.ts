import type { ErrorObject, StreamEvent } from '../../protocol/stream-event.ts'
import { encodeSse } from '../../sse/encode.ts'
import { type AnswerItem, AnswerReader } from '../answer.ts'
import {
  type EventWriter,
  encoderWriter,
  type ResponseStart,
  type WriterOptions,
} from '../format.ts'
import { errorTypeOf, responsesError } from './errors.ts'
import { DONE, type ResponsesEvent, type ResponsesObject } from './wire.ts'
import { ResponsesWriter, type ResponsesWriterOptions } from './write-events.ts'

export interface ResponsesEncoderOptions extends ResponsesWriterOptions {
  /** Leaves out the events up to this number. -1, the default, leaves out none. */
  readonly startingAfter?: number
}

/**
 * Encodes one turn as a response of OpenAI's Responses API, event by event or whole. The events and their numbers depend
 * only on the log, so a number is a cursor in every process.
 */
export class ResponsesEncoder {
  readonly #writer: ResponsesWriter
  readonly #reader: AnswerReader
  readonly #after: number

  constructor(options: ResponsesEncoderOptions) {
    this.#writer = new ResponsesWriter(options, () => this.#reader.inputChars)
    this.#reader = new AnswerReader(this.#writer)
    this.#after = options.startingAfter ?? -1
  }

  /** Whether the response has ended. Only `[DONE]` follows. */
  get isOver(): boolean {
    return this.#reader.isOver
  }

  /** The number of the last event; -1 before the first. */
  get lastNumber(): number {
    return this.#writer.lastNumber
  }

  /** The response so far. */
  get response(): ResponsesObject {
    return this.#writer.response
  }

  /** Returns the events that a StreamEvent adds, in order. */
  encode(event: StreamEvent): ResponsesEvent[] {
    this.#reader.apply(event)
    return this.#writer.drainEvents().filter((each) => each.sequence_number > this.#after)
  }

  /** Like `encode`, as SSE text, with `[DONE]` after the end. */
  encodeSse(event: StreamEvent): string {
    if (this.isOver) return ''
    const delta = this.#reader.encodeDelta(event, this.#encodeDelta)
    if (delta !== undefined) return delta
    const frames = this.encode(event).map((each) =>
      encodeSse({ event: each.type, data: JSON.stringify(each) }),
    )
    if (this.isOver) frames.push(encodeSse({ data: DONE }))
    return frames.join('')
  }

  /** The last text of a stream that ends before the turn. Its numbers are not of the log: the turn may go on. */
  interruptionSse(error: ErrorObject): string {
    const failure = responsesError(error)
    const { lastNumber, response } = this
    const details = { type: errorTypeOf(failure.code), ...failure, param: null }
    const failed = { ...response, status: 'failed', error: failure }
    const events = [
      { type: 'error', sequence_number: lastNumber + 1, error: details },
      { type: 'response.failed', sequence_number: lastNumber + 2, response: failed },
    ]
    const frames = events.map((event) =>
      encodeSse({ event: event.type, data: JSON.stringify(event) }),
    )
    return frames.join('') + encodeSse({ data: DONE })
  }

  readonly #encodeDelta = (item: AnswerItem, piece: string): string => {
    const frame = this.#writer.frameOf(item)
    if (frame === undefined) return ''
    const number = this.#writer.takeNumber()
    if (number <= this.#after || this.#writer.isOmitted(item)) return ''
    return `${frame.start}${number}${frame.middle}${JSON.stringify(piece)}${frame.end}`
  }
}

export function writeResponses(
  { turn_id: turnId, model_id: model, created_at: createdAt }: ResponseStart,
  options: WriterOptions,
): EventWriter {
  return encoderWriter(new ResponsesEncoder({ turnId, model, createdAt }), options)
}
