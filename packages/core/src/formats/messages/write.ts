import type { ErrorObject, StreamEvent } from '../../protocol/stream-event.ts'
import { encodeSse } from '../../sse/encode.ts'
import { type AnswerItem, AnswerReader } from '../answer.ts'
import {
  type EventWriter,
  encoderWriter,
  type ResponseStart,
  type WriterOptions,
} from '../format.ts'
import type { MessagesError, MessagesEvent, MessagesObject } from './wire.ts'
import { type MessagesHead, MessagesWriter } from './write-events.ts'

/**
 * Encodes one turn as a message of Anthropic's Messages API, event by event or whole. The events depend only on the log,
 * so they are the same in every process.
 */
export class MessagesEncoder {
  readonly #writer: MessagesWriter
  readonly #reader: AnswerReader

  constructor(head: MessagesHead) {
    this.#writer = new MessagesWriter(head, () => this.#reader.inputChars)
    this.#reader = new AnswerReader(this.#writer)
  }

  /** Whether the message has ended, or failed. */
  get isOver(): boolean {
    return this.#reader.isOver || this.error !== undefined
  }

  /** Whether the client knows the message. */
  get isStarted(): boolean {
    return this.#writer.isStarted
  }

  /** The message so far. */
  get message(): MessagesObject {
    return this.#writer.message
  }

  get error(): MessagesError | undefined {
    return this.#writer.error
  }

  /** The same with the code that it came from. */
  get failure(): ErrorObject | undefined {
    return this.#writer.failure
  }

  /** Returns the events that a StreamEvent adds, in order. */
  encode(event: StreamEvent): MessagesEvent[] {
    if (this.isOver) return []
    this.#reader.apply(event)
    return this.#writer.drainEvents()
  }

  /** Like `encode`, as SSE text. */
  encodeSse(event: StreamEvent): string {
    if (this.isOver) return ''
    const delta = this.#reader.encodeDelta(event, this.#encodeDelta)
    return delta ?? this.encode(event).map(messagesSse).join('')
  }

  readonly #encodeDelta = (item: AnswerItem, piece: string): string => {
    const frame = this.#writer.growOpen(item, piece)
    if (frame !== undefined) return `${frame.before}${JSON.stringify(piece)}${frame.after}`
    this.#writer.grow(item, piece)
    return this.#writer.drainEvents().map(messagesSse).join('')
  }

  /** The message so far for a client that joins late, as SSE text. What `encodeSse` returns next follows it. */
  joinSse(): string {
    return this.#writer.joinEvents().map(messagesSse).join('')
  }
}

/** Clients dispatch on the name of the event. */
function messagesSse(event: MessagesEvent): string {
  return encodeSse({ event: event.type, data: JSON.stringify(event) })
}

export function writeMessages(
  { turn_id: turnId, model_id: model }: ResponseStart,
  options: WriterOptions,
): EventWriter {
  return encoderWriter(new MessagesEncoder({ turnId, model }), options)
}
