import type { StreamEvent } from '../../protocol/stream-event.ts'
import { isStreamEvent } from '../../protocol/stream-event-guard.ts'
import {
  ChatCompletionsEncoder,
  type ChatCompletionsOptions,
  chatCompletionsSse,
} from './encode.ts'
import { CHUNK_OBJECT, type ChatTextField } from './wire.ts'

/**
 * Encodes the events of one turn as an SSE stream of Chat Completions. Nearly all of them are deltas of a text, for
 * which no chunk is made as an object: that takes an eighth of the time.
 */
export class ChatCompletionsRecords {
  readonly #encoder: ChatCompletionsEncoder
  readonly #before: Record<ChatTextField, string>
  readonly #after: string

  constructor(options: ChatCompletionsOptions) {
    const { id, created, model, includeUsage = false } = options
    this.#encoder = new ChatCompletionsEncoder(options)
    const head = JSON.stringify({ id, object: CHUNK_OBJECT, created, model }).slice(0, -1)
    const before = (field: ChatTextField) =>
      `data: ${head},"choices":[{"index":0,"delta":{"${field}":`
    this.#before = {
      content: before('content'),
      reasoning_content: before('reasoning_content'),
      refusal: before('refusal'),
    }
    const usage = includeUsage ? ',"usage":null' : ''
    this.#after = `},"logprobs":null,"finish_reason":null}]${usage}}\n\n`
  }

  /** Whether the stream has its last frame. */
  get done(): boolean {
    return this.#encoder.done
  }

  /** The frames that an event adds; none for what is malformed or of an unknown type. */
  encode(event: StreamEvent): string {
    if (event.type === 'item_delta' && typeof event.payload?.delta_content === 'string') {
      const { item_id, delta_content } = event.payload
      const grown = this.#encoder.growText(item_id, delta_content)
      if (grown !== undefined) {
        const { field, text } = grown
        return text === '' ? '' : this.#before[field] + JSON.stringify(text) + this.#after
      }
    }
    return isStreamEvent(event) ? chatCompletionsSse(this.#encoder, event) : ''
  }
}
