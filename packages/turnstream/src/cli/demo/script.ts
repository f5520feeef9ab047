import type { Recording } from '@turnstream/core/internal/formats/v2/recording'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type {
  ItemType,
  StreamEvent,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'

/** A player replaces it with the id of its turn. */
const TURN_ID = 'recorded-turn'

/** Delays before the deltas, in ms, repeated: 30 to 60 per second, unevenly, like a model. */
const PACE = [19, 23, 31, 17, 26, 20, 33, 18, 22, 28, 17]

/** Builds a turn as a provider would have sent it, with timestamps. */
export class Script {
  readonly #events: StreamEvent[] = []
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
    const id = this.#text(afterMs, 'reasoning', content)
    return this.#done({ type: 'reasoning', id, content, origin: 'agent' })
  }

  say(afterMs: number, content: string): this {
    const id = this.#text(afterMs, 'message', content)
    return this.#done({ type: 'message', id, content, origin: 'agent' })
  }

  /** Adds a call that the server or the client runs. */
  request(afterMs: number, name: string, args: object, call_id: string): this {
    const id = this.#start(afterMs, 'function_call', name)
    const text = JSON.stringify(args)
    for (const piece of piecesOf(text)) this.#delta(id, piece)
    return this.#done({ type: 'function_call', id, call_id, name, arguments: text })
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

  #text(afterMs: number, type: 'message' | 'reasoning', content: string): string {
    const id = this.#start(afterMs, type)
    for (const piece of piecesOf(content)) this.#delta(id, piece)
    return id
  }

  #start(afterMs: number, item_type: ItemType, name?: string): string {
    this.#items += 1
    const item_id = `recorded-${this.#items}`
    this.#add(afterMs, { type: 'item_start', item_id, item_type, ...(name && { name }) })
    return item_id
  }

  #delta(item_id: string, delta_content: string): void {
    const afterMs = PACE[this.#deltas % PACE.length] ?? 0
    this.#deltas += 1
    this.#chars += delta_content.length
    this.#add(afterMs, { type: 'item_delta', item_id, delta_content })
  }

  #done(final_item: OutputItem): this {
    this.#add(0, { type: 'item_done', item_id: final_item.id, final_item })
    return this
  }

  #add(afterMs: number, payload: StreamEventPayload): void {
    this.#time += afterMs
    const sequence = String(this.#events.length + 1).padStart(12, '0')
    this.#events.push({
      event_id: `00000000-0000-8000-8000-${sequence}`,
      timestamp: this.#time,
      trace_context: { traceparent: '00-00000000000000000000000000000001-0000000000000001-01' },
      run_id: TURN_ID,
      type: payload.type,
      payload,
    } as StreamEvent)
  }
}

/** Cuts a text as models do, mostly into words with the space before them, and loses none of it. */
function piecesOf(text: string): string[] {
  return text.match(/\s*\S{1,7}|\s+$/gu) ?? []
}
