import { EventStamp } from '@turnstream/core/internal/formats/event-stamp'
import type { Recording } from '@turnstream/core/internal/formats/v2/recording'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type {
  StreamEvent,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'

/** A player replaces it with the id of its turn. */
const TURN_ID = 'recorded-turn'

/** Delays before the deltas, in ms, repeated: 30 to 60 per second, unevenly, like a model. */
const PACE = [19, 23, 31, 17, 26, 20, 33, 18, 22, 28, 17]

type Unnamed<Item> = Item extends OutputItem ? Omit<Item, 'id'> : never
type ScriptItem = Unnamed<Extract<OutputItem, { type: 'message' | 'reasoning' | 'function_call' }>>

/** Builds a turn as a provider would have sent it, with timestamps. */
export class Script {
  readonly #events: StreamEvent[] = []
  readonly #stamp = new EventStamp({ now: () => this.#time })
  #time = 0
  #deltas = 0
  #items = 0
  #chars = 0

  constructor(model: string) {
    this.#add(0, {
      type: 'response_start',
      response_id: TURN_ID,
      turn_id: TURN_ID,
      thread_id: 'recorded-thread',
      model_id: model,
      provider_id: 'scripted',
      created_at: 0,
    })
  }

  think(afterMs: number, content: string): this {
    return this.#item(afterMs, content, { type: 'reasoning', content, origin: 'agent' })
  }

  say(afterMs: number, content: string): this {
    return this.#item(afterMs, content, { type: 'message', content, origin: 'agent' })
  }

  /** Adds a call that the server or the client runs. */
  request(afterMs: number, name: string, args: object, call_id: string): this {
    const text = JSON.stringify(args)
    return this.#item(afterMs, text, { type: 'function_call', call_id, name, arguments: text })
  }

  end(finish_reason: 'stop' | 'tool_calls' = 'stop'): Recording {
    const completion_tokens = Math.ceil(this.#chars / 4)
    const usage = { prompt_tokens: 0, completion_tokens, total_tokens: completion_tokens }
    this.#add(0, {
      type: 'response_done',
      response_id: TURN_ID,
      status: 'complete',
      finish_reason,
      usage: { ...usage, estimated: true },
    })
    return this.#events
  }

  #item(afterMs: number, text: string, item: ScriptItem): this {
    this.#items += 1
    const item_id = `recorded-${this.#items}`
    const final_item = { ...item, id: item_id }
    const { type: item_type } = item
    const name = item_type === 'function_call' && { name: item.name }
    this.#add(afterMs, { type: 'item_start', item_id, item_type, ...name })
    for (const delta_content of piecesOf(text)) {
      this.#chars += delta_content.length
      const pace = PACE[this.#deltas++ % PACE.length] ?? 0
      this.#add(pace, { type: 'item_delta', item_id, delta_content })
    }
    return this.#add(0, { type: 'item_done', item_id, final_item })
  }

  #add(afterMs: number, payload: StreamEventPayload): this {
    this.#time += afterMs
    this.#events.push(this.#stamp.stamp(payload))
    return this
  }
}

/** Cuts a text as models do, mostly into words with the space before them, and loses none of it. */
const piecesOf = (text: string): string[] => text.match(/\s*\S{1,7}|\s+$/gu) ?? []
