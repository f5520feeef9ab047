import {
  ChatCompletionsEncoder,
  chatCompletionsSse,
} from '../../../src/dialects/chat-completions/encode.ts'
import { v2Sse } from '../../../src/dialects/v2/encode.ts'
import { xapiSse } from '../../../src/dialects/xapi/encode.ts'
import type { StreamEvent } from '../../../src/protocol/stream-event.ts'
import type { Recording } from './recording.ts'

export const DIALECTS = ['v2', 'xapi', 'chat-completions'] as const
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
    this.#encode = { v2: this.#v2, xapi: this.#xapi, 'chat-completions': this.#chat() }[dialect]
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

  #chat(): (index: number) => void {
    let encoder: ChatCompletionsEncoder | undefined
    return (index) => {
      const event = this.#recording.events[index]
      if (event === undefined) return
      encoder ??= chatEncoder(event)
      const text = encoder === undefined ? '' : chatCompletionsSse(encoder, event)
      if (text !== '') this.#push(text, index + 1)
    }
  }

  #push(frame: string, events: number): void {
    this.frames.push(frame)
    this.eventsOf.push(events)
    this.bytes.push((this.bytes.at(-1) ?? 0) + utf8Length(frame))
  }
}

function chatEncoder(event: StreamEvent): ChatCompletionsEncoder | undefined {
  if (event.type !== 'response_start') return undefined
  const { response_id, model_id, created_at } = event.payload
  const created = Math.floor(created_at / 1000)
  return new ChatCompletionsEncoder({ id: `chatcmpl-${response_id}`, model: model_id, created })
}

const utf8 = new TextEncoder()

function utf8Length(text: string): number {
  return utf8.encode(text).length
}
