import {
  ChatCompletionsEncoder,
  chatCompletionsSse,
} from '../../../packages/core/src/formats/chat-completions/write.ts'
import { MessagesEncoder } from '../../../packages/core/src/formats/messages/write.ts'
import { ResponsesEncoder } from '../../../packages/core/src/formats/responses/write.ts'
import { v2Sse } from '../../../packages/core/src/formats/v2/write.ts'
import { xapiSse } from '../../../packages/core/src/formats/xapi/write.ts'
import type {
  StreamEvent,
  StreamEventPayload,
} from '../../../packages/core/src/protocol/stream-event.ts'
import type { Recording } from './recording.ts'

export const DIALECTS = ['v2', 'xapi', 'chat-completions', 'responses', 'messages'] as const
export type Dialect = (typeof DIALECTS)[number]

/** What a client is sent, frame by frame. Only frames that are new since the last call are encoded. */
export class DialectFrames {
  readonly #recording: Recording
  readonly #encode: (index: number) => void
  /** Each frame, how many events it needs, and how many bytes were sent with it. */
  readonly frames: string[] = []
  readonly eventsOf: number[] = []
  readonly bytes: number[] = []
  #encoded = 0

  constructor(recording: Recording, dialect: Dialect) {
    this.#recording = recording
    this.#encode = {
      v2: this.#v2,
      xapi: this.#xapi,
      'chat-completions': this.#vendor(chatEncoder),
      responses: this.#vendor(responsesEncoder),
      messages: this.#vendor(messagesEncoder),
    }[dialect]
    this.#source = dialect === 'xapi' ? recording.emissions : recording.events
  }

  readonly #source: readonly unknown[]

  update(): void {
    for (; this.#encoded < this.#source.length; this.#encoded++) this.#encode(this.#encoded)
  }

  readonly #v2 = (index: number): void => {
    const event = this.#recording.events[index]
    if (event !== undefined)
      this.#push(v2Sse(this.#recording.offsets[index] ?? '', event), index + 1)
  }

  /** The offset of a snapshot is given by the store, so it is not known here. */
  readonly #xapi = (index: number): void => {
    const emission = this.#recording.emissions[index]
    if (emission === undefined) return
    this.#push(xapiSse(`…/${index + 1}`, JSON.stringify(emission.output)), emission.events)
  }

  #vendor(createEncoder: (start: Start) => Encode): (index: number) => void {
    let encode: Encode | undefined
    return (index) => {
      const event = this.#recording.events[index]
      if (event === undefined) return
      if (event.type === 'response_start') encode ??= createEncoder(event.payload)
      const text = encode?.(event) ?? ''
      if (text !== '') this.#push(text, index + 1)
    }
  }

  #push(frame: string, events: number): void {
    this.frames.push(frame)
    this.eventsOf.push(events)
    this.bytes.push((this.bytes.at(-1) ?? 0) + utf8Length(frame))
  }
}

type Start = StreamEventPayload<'response_start'>
/** Returns the frames that an event adds. */
type Encode = (event: StreamEvent) => string

function chatEncoder({ response_id, model_id, created_at }: Start): Encode {
  const created = Math.floor(created_at / 1000)
  const id = `chatcmpl-${response_id}`
  const encoder = new ChatCompletionsEncoder({ id, model: model_id, created })
  return (event) => chatCompletionsSse(encoder, event)
}

function responsesEncoder({ turn_id, model_id, created_at }: Start): Encode {
  const head = { turnId: turn_id, model: model_id, createdAt: created_at }
  const encoder = new ResponsesEncoder(head)
  return (event) => encoder.encodeSse(event)
}

function messagesEncoder({ turn_id, model_id }: Start): Encode {
  const encoder = new MessagesEncoder({ turnId: turn_id, model: model_id })
  return (event) => encoder.encodeSse(event)
}

const utf8 = new TextEncoder()

function utf8Length(text: string): number {
  return utf8.encode(text).length
}
