import { parseJsonSafe } from '../../protocol/json.ts'
import type { StreamEvent } from '../../protocol/stream-event.ts'
import { isStreamEvent } from '../../protocol/stream-event-guard.ts'
import {
  ChatCompletionsEncoder,
  type ChatCompletionsOptions,
  chatCompletionsSse,
} from './encode.ts'
import { CHUNK_OBJECT, type ChatTextField } from './wire.ts'

// As our own deltas are written, and nothing else: inside a string the quotation marks would be escaped.
const DELTA = '"type":"item_delta","payload":{"type":"item_delta","item_id":"'
const CONTENT = '","delta_content":"'
const END = '"}}'

/**
 * Tells the log `events` of one turn, record by record, as an SSE stream of Chat Completions. Nearly all records
 * are deltas of a text: of those neither the record is parsed nor the chunk made as an object. For tokens of 5
 * characters that takes 0.6 µs instead of 5.
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

  /** The frames that a record adds. */
  take(data: string): string {
    const delta = deltaOf(data)
    const grown = delta && this.#encoder.growText(delta.itemId, delta.text)
    if (delta === undefined || grown === undefined) return this.#parse(data)
    const { field, text } = grown
    if (text === '') return ''
    const json = text === delta.text ? delta.json : JSON.stringify(text)
    return this.#before[field] + json + this.#after
  }

  /** The same for a record that was parsed already. */
  encode(event: StreamEvent): string {
    return chatCompletionsSse(this.#encoder, event)
  }

  #parse(data: string): string {
    const event = parseJsonSafe(data)
    return isStreamEvent(event) ? this.encode(event) : ''
  }
}

interface Delta {
  readonly itemId: string
  readonly text: string
  /** The text as JSON. */
  readonly json: string
}

/** What a record says, if it is a delta with no other fields than those that every one has. */
function deltaOf(data: string): Delta | undefined {
  const start = data.indexOf(DELTA)
  if (start === -1 || !data.endsWith(END)) return undefined
  const idAt = start + DELTA.length
  const idEnd = data.indexOf(CONTENT, idAt)
  const itemId = data.slice(idAt, idEnd)
  const json = data.slice(idEnd + CONTENT.length - 1, -END.length + 1)
  if (idEnd === -1 || itemId.includes('\\')) return undefined
  const bare = json.slice(1, -1)
  if (!bare.includes('\\') && !bare.includes('"')) return { itemId, text: bare, json }
  const text = parseJsonSafe(json)
  // What is no JSON comes back as it is: other fields follow the text.
  return typeof text === 'string' && text !== json ? { itemId, text, json } : undefined
}
