import type { StreamEvent } from '../protocol/stream-event.ts'
import { encodeSse } from '../sse/encode.ts'
import { type AnswerItem, AnswerReader, type AnswerSink } from './answer.ts'

/** Makes the frames of a dialect from a response. */
export interface AnswerWriter<Frame> extends AnswerSink {
  /** Whether the stream has ended, perhaps before the response. */
  readonly isOver: boolean
  /** Those that the encoder has not taken yet. */
  readonly frames: Frame[]
  grow(item: AnswerItem, piece: string): void
  /** Returns a delta as SSE text, without a frame. Undefined if it takes more than that: then call `grow`. */
  encodeDelta(item: AnswerItem, piece: string): string | undefined
  /** Encodes frames, and the end of the stream if it is over. */
  toSse(frames: readonly Frame[]): string
}

/** Encodes one response, event by event. The frames depend only on the log, so they are the same in every process. */
export abstract class AnswerEncoder<Frame> {
  readonly #writer: AnswerWriter<Frame>
  readonly #reader: AnswerReader

  constructor(writer: AnswerWriter<Frame>) {
    this.#writer = writer
    this.#reader = new AnswerReader(writer)
  }

  /** Whether the response has ended, or failed. At most `[DONE]` follows. */
  get isOver(): boolean {
    return this.#reader.isOver || this.#writer.isOver
  }

  /** Returns the frames that the event adds, in order. */
  encode(event: StreamEvent): Frame[] {
    if (this.isOver) return []
    this.#reader.apply(event)
    return this.#writer.frames.splice(0)
  }

  /** Like `encode`, as SSE text, with `[DONE]` after the end in OpenAI's APIs. */
  encodeSse(event: StreamEvent): string {
    if (this.isOver) return ''
    const delta = this.#reader.encodeDelta(event, this.#encodeDelta)
    return delta ?? this.#writer.toSse(this.encode(event))
  }

  readonly #encodeDelta = (item: AnswerItem, piece: string): string => {
    const text = this.#writer.encodeDelta(item, piece)
    if (text !== undefined) return text
    this.#writer.grow(item, piece)
    return this.#writer.toSse(this.#writer.frames.splice(0))
  }
}

/** Encodes an event whose name clients dispatch on. */
export function eventSse(event: { readonly type: string }): string {
  return encodeSse({ event: event.type, data: JSON.stringify(event) })
}
