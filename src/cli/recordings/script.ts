import type { Recording } from '../../adapters/scripted/wire.ts'
import { EXECUTED_BY_PROVIDER } from '../../protocol/item-marks.ts'
import type { OutputItem } from '../../protocol/output-item.ts'
import type { ErrorObject, StreamEvent, StreamEventPayload } from '../../protocol/stream-event.ts'

/** The ids in every built-in recording; who plays it puts those of its own turn in their place. */
export const RECORDED = { turnId: 'recorded-turn', threadId: 'recorded-thread' } as const

/** How long before each delta, in turn. */
export type Pace = readonly number[]

/** 30 to 60 deltas a second, unevenly, as models send them. */
const MODEL_PACE: Pace = [19, 23, 31, 17, 26, 20, 33, 18, 22, 28, 17]

export interface RecordedCall {
  readonly name: string
  readonly args: Record<string, unknown>
  readonly output: Record<string, unknown>
  /** How long the tool takes. */
  readonly ms: number
}

interface OpenCall extends RecordedCall {
  readonly id: string
  readonly callId: string
  readonly argsText: string
}

/** Writes a turn down as a provider would have sent it, each event with its time. */
export class Script {
  readonly #events: StreamEvent[] = []
  readonly #pace: Pace
  #time = 0
  #deltas = 0
  #items = 0
  #calls = 0
  #chars = 0

  constructor(model: string, pace: Pace = MODEL_PACE) {
    this.#pace = pace
    this.#add(0, {
      type: 'response_start',
      response_id: RECORDED.turnId,
      turn_id: RECORDED.turnId,
      thread_id: RECORDED.threadId,
      model_id: model,
      provider_id: 'scripted',
      created_at: 0,
    })
  }

  /** What the user says, for who plays a recording without a server that knows it. */
  ask(content: string): this {
    const id = `${RECORDED.turnId}-user-prompt`
    this.#start(0, { item_id: id, item_type: 'message' })
    return this.#done({ type: 'message', id, content, origin: 'user' })
  }

  think(afterMs: number, content: string): this {
    const id = this.#text(afterMs, 'reasoning', content)
    return this.#done({ type: 'reasoning', id, content, origin: 'agent' })
  }

  say(afterMs: number, content: string): this {
    const id = this.#text(afterMs, 'message', content)
    return this.#done({ type: 'message', id, content, origin: 'agent' })
  }

  /** Calls that are made at once: their arguments arrive in turn, their outputs as the tools finish. */
  call(afterMs: number, calls: readonly RecordedCall[]): this {
    const open = calls.map((call) => this.#openCall(afterMs, call))
    this.#streamInTurn(open)
    for (const { id, name, argsText, callId } of open) {
      this.#done({
        type: 'function_call',
        id,
        name,
        arguments: argsText,
        call_id: callId,
        provider_metadata: { executed_by: EXECUTED_BY_PROVIDER },
      })
    }
    let elapsed = 0
    for (const { callId, output, ms } of open.toSorted((a, b) => a.ms - b.ms)) {
      this.#answer(ms - elapsed, callId, JSON.stringify(output))
      elapsed = ms
    }
    return this
  }

  /** The text breaks off, and the response with it. */
  breakOff(afterMs: number, content: string, error: ErrorObject): Recording {
    const id = this.#text(afterMs, 'message', content)
    this.#add(400, { type: 'item_error', item_id: id, error })
    this.#add(0, { type: 'response_error', response_id: RECORDED.turnId, error })
    return this.#events
  }

  end(): Recording {
    const completion_tokens = Math.ceil(this.#chars / 4)
    const usage = { prompt_tokens: 0, completion_tokens, total_tokens: completion_tokens }
    this.#add(0, {
      type: 'response_done',
      response_id: RECORDED.turnId,
      status: 'complete',
      finish_reason: 'stop',
      usage: { ...usage, estimated: true },
    })
    return this.#events
  }

  #openCall(afterMs: number, call: RecordedCall): OpenCall {
    const id = this.#nextItem()
    this.#calls += 1
    const callId = `recorded-call-${this.#calls}`
    this.#start(afterMs, { item_id: id, item_type: 'function_call', name: call.name })
    return { ...call, id, callId, argsText: JSON.stringify(call.args) }
  }

  #streamInTurn(calls: readonly OpenCall[]): void {
    const parts = calls.map(({ argsText }) => piecesOf(argsText))
    const longest = Math.max(...parts.map(({ length }) => length))
    for (let at = 0; at < longest; at++) {
      for (const [index, { id }] of calls.entries()) {
        const piece = parts[index]?.[at]
        if (piece !== undefined) this.#delta(id, piece)
      }
    }
  }

  #answer(afterMs: number, call_id: string, output: string): void {
    const id = this.#nextItem()
    this.#start(afterMs, { item_id: id, item_type: 'function_call_output' })
    this.#done({ type: 'function_call_output', id, call_id, output, success: true })
  }

  #text(afterMs: number, item_type: 'message' | 'reasoning', content: string): string {
    const id = this.#nextItem()
    this.#start(afterMs, { item_id: id, item_type })
    for (const piece of piecesOf(content)) this.#delta(id, piece)
    return id
  }

  #delta(item_id: string, delta_content: string): void {
    const afterMs = this.#pace[this.#deltas % this.#pace.length] ?? 0
    this.#deltas += 1
    this.#chars += delta_content.length
    this.#add(afterMs, { type: 'item_delta', item_id, delta_content })
  }

  #start(afterMs: number, item: Omit<StreamEventPayload<'item_start'>, 'type'>): void {
    this.#add(afterMs, { type: 'item_start', ...item })
  }

  #done(final_item: OutputItem): this {
    this.#add(0, { type: 'item_done', item_id: final_item.id, final_item })
    return this
  }

  #nextItem(): string {
    this.#items += 1
    return `recorded-${this.#items}`
  }

  #add(afterMs: number, payload: StreamEventPayload): void {
    this.#time += afterMs
    const sequence = String(this.#events.length + 1).padStart(12, '0')
    this.#events.push({
      event_id: `00000000-0000-8000-8000-${sequence}`,
      timestamp: this.#time,
      trace_context: { traceparent: '00-00000000000000000000000000000001-0000000000000001-01' },
      run_id: RECORDED.turnId,
      type: payload.type,
      payload,
    } as StreamEvent)
  }
}

/** Cuts a text as models do, mostly into words with the space before them, and loses none of it. */
function piecesOf(text: string): string[] {
  return text.match(/\s*\S{1,7}|\s+$/gu) ?? []
}
