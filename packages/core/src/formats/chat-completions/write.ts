import type { StreamEvent } from '../../protocol/stream-event.ts'
import { encodeSse } from '../../sse/encode.ts'
import { type AnswerItem, AnswerReader } from '../answer.ts'
import {
  type EventWriter,
  encoderWriter,
  type ResponseStart,
  type WriterOptions,
} from '../format.ts'
import { type ChatFrame, DONE } from './wire.ts'
import { type ChatCompletionsOptions, ChatWriter } from './write-chunks.ts'

/** Encodes one response, event by event, as Chat Completions chunks. */
export class ChatCompletionsEncoder {
  readonly #writer: ChatWriter
  readonly #reader: AnswerReader

  constructor(options: ChatCompletionsOptions) {
    this.#writer = new ChatWriter(options)
    this.#reader = new AnswerReader(this.#writer)
  }

  /** Whether the response has ended. Only `[DONE]` follows. */
  get isOver(): boolean {
    return this.#writer.isOver
  }

  /** Returns the frames that the event adds, in order. */
  encode(event: StreamEvent): ChatFrame[] {
    this.#reader.apply(event)
    return this.#writer.drainFrames()
  }

  /** Like `encode`, as SSE text, with `[DONE]` after the end. */
  encodeSse(event: StreamEvent): string {
    if (this.isOver) return ''
    const delta = this.#reader.encodeDelta(event, this.#encodeDelta)
    return delta ?? this.#toSse(this.encode(event))
  }

  readonly #encodeDelta = (item: AnswerItem, piece: string): string => {
    const frame = this.#writer.growOpen(item, piece)
    if (frame !== undefined) return `${frame.before}${JSON.stringify(piece)}${frame.after}`
    this.#writer.grow(item, piece)
    return this.#toSse(this.#writer.drainFrames())
  }

  #toSse(frames: readonly ChatFrame[]): string {
    const data = frames.map((frame) => JSON.stringify(frame))
    if (this.isOver) data.push(DONE)
    return data.map((each) => encodeSse({ data: each })).join('')
  }
}

export function writeChatCompletions(
  { response_id, model_id: model, created_at }: ResponseStart,
  options: WriterOptions,
): EventWriter {
  const encoder = new ChatCompletionsEncoder({
    id: `chatcmpl-${response_id}`,
    model,
    created: Math.floor(created_at / 1000),
    includeUsage: options.includeUsage,
  })
  return encoderWriter(encoder, options)
}
