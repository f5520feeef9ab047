import type { ErrorObject } from '../../protocol/stream-event.ts'
import { encodeSse } from '../../sse/encode.ts'
import { AnswerEncoder, eventSse } from '../answer-encoder.ts'
import { DONE } from '../fields.ts'
import { encoderWriter, type TargetFormat } from '../format.ts'
import { errorTypeOf, responsesError } from './errors.ts'
import type { ResponsesEvent, ResponsesObject } from './wire.ts'
import { ResponsesWriter, type ResponsesWriterOptions } from './write-events.ts'

export interface ResponsesEncoderOptions extends ResponsesWriterOptions {
  /** Leaves out the events up to this number. -1, the default, leaves out none. */
  readonly startingAfter?: number
}

/** Encodes one turn as a response of OpenAI's Responses API. The number of an event is a cursor in every process. */
export class ResponsesEncoder extends AnswerEncoder<ResponsesEvent> {
  readonly #writer: ResponsesWriter

  constructor({ startingAfter = -1, ...options }: ResponsesEncoderOptions) {
    const writer = new ResponsesWriter(options, startingAfter)
    super(writer)
    this.#writer = writer
  }

  /** The number of the last event; -1 before the first. */
  get lastNumber(): number {
    return this.#writer.lastNumber
  }

  /** The response so far. */
  get response(): ResponsesObject {
    return this.#writer.response
  }

  /** The last text of a stream that ends before the turn. Its numbers are not of the log: the turn may go on. */
  interruptionSse(cause: ErrorObject): string {
    const error = responsesError(cause)
    const details = { type: errorTypeOf(error.code), ...error, param: null }
    const response = { ...this.response, status: 'failed', error }
    const first = this.lastNumber + 1
    const events = [
      { type: 'error', sequence_number: first, error: details },
      { type: 'response.failed', sequence_number: first + 1, response },
    ]
    return events.map(eventSse).join('') + encodeSse({ data: DONE })
  }
}

export const writeResponses: TargetFormat = (start, options) => {
  const { turn_id: turnId, model_id: model, created_at: createdAt } = start
  return encoderWriter(new ResponsesEncoder({ turnId, model, createdAt }), options)
}
