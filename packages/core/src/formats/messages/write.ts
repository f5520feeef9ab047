import type { ErrorObject } from '../../protocol/stream-event.ts'
import { AnswerEncoder } from '../answer-encoder.ts'
import { encoderWriter, type TargetFormat } from '../format.ts'
import { messagesError } from './errors.ts'
import type { MessagesError, MessagesEvent, MessagesObject } from './wire.ts'
import { type MessagesHead, MessagesWriter } from './write-events.ts'

/** Encodes one turn as a message of Anthropic's Messages API, event by event or whole. */
export class MessagesEncoder extends AnswerEncoder<MessagesEvent> {
  readonly #writer: MessagesWriter

  constructor(head: MessagesHead) {
    const writer = new MessagesWriter(head)
    super(writer)
    this.#writer = writer
  }

  /** Whether the client knows the message. */
  get isStarted(): boolean {
    return this.#writer.isStarted
  }

  /** The message so far. */
  get message(): MessagesObject {
    return this.#writer.message
  }

  /** Why there is no whole message. */
  get error(): MessagesError | undefined {
    return this.failure && messagesError(this.failure)
  }

  /** The same with the code that it came from. */
  get failure(): ErrorObject | undefined {
    return this.#writer.failure
  }

  /** The message so far for a client that joins late, as SSE text. What `encodeSse` returns next follows it. */
  joinSse(): string {
    return this.#writer.toSse(this.#writer.joinEvents())
  }
}

export const writeMessages: TargetFormat = ({ turn_id: turnId, model_id: model }, options) =>
  encoderWriter(new MessagesEncoder({ turnId, model }), options)
