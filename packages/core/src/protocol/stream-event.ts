import type { MessageOrigin, OutputItem } from './output-item.ts'

/** One event of the `events` log. */
export type StreamEvent = {
  [Type in StreamEventType]: {
    event_id: string
    timestamp: number
    trace_context: TraceContext
    run_id: string
    type: Type
    payload: StreamEventPayload<Type>
  }
}[StreamEventType]

export type StreamEventPayload<Type extends StreamEventType = StreamEventType> = Payloads[Type]
export type StreamEventType = keyof Payloads

/** All payloads that the `events` log may hold, by type. */
interface Payloads {
  response_start: {
    type: 'response_start'
    response_id: string
    turn_id: string
    thread_id: string
    agent_id?: string
    model_id: string
    provider_id: string
    created_at: number
    /** The provider did not get the complete thread: this many of the oldest turns were left out. */
    history_truncated?: { turns_dropped: number }
    /** The caller gave the history: earlier turns of the thread do not precede this one. */
    history_given?: boolean
    /** The turn of the thread that this one replaces, together with all later ones. */
    replaces?: string
    /** Parameters of the request that the response repeats in the caller's dialect. */
    parameters?: Record<string, unknown>
  }
  item_start: {
    type: 'item_start'
    item_id: string
    item_type: ItemType
    initial_content?: string
    origin?: MessageOrigin
    name?: string
    arguments?: string
    call_id?: string
    code?: string
    provider_metadata?: Record<string, unknown>
  }
  item_delta: { type: 'item_delta'; item_id: string; delta_content: string }
  item_done: {
    type: 'item_done'
    item_id: string
    final_item: OutputItem
    finish_reason?: string | null
    answers?: AnsweredCall
  }
  item_error: { type: 'item_error'; item_id: string; error: ErrorObject }
  item_cancelled: { type: 'item_cancelled'; item_id: string; reason?: string }
  usage_update: { type: 'usage_update'; response_id: string; usage?: Usage }
  heartbeat: { type: 'heartbeat' }
  response_done: {
    type: 'response_done'
    response_id: string
    status: TurnStatus
    usage?: Usage
    finish_reason?: string | null
    provider_finish_reason?: string | null
    stop_sequence?: string
  }
  response_error: { type: 'response_error'; response_id: string; error: ErrorObject; usage?: Usage }
  turn_aborted_by_user: {
    type: 'turn_aborted_by_user'
    turn_id: string
    reason?: string
    usage?: Usage
  }
}

export type ItemType = 'message' | 'reasoning' | 'function_call' | 'function_call_output' | 'error'

export type TurnStatus = 'complete' | 'error' | 'aborted'

export interface ErrorObject {
  code: string
  message: string
}

/** Token counts of the provider; `estimated` marks estimates. */
export interface Usage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  cached_tokens?: number
  cache_write_tokens?: number
  reasoning_tokens?: number
  estimated?: boolean
}

/** `traceparent` is any string: a malformed trace must cost the trace, not the turn. */
export interface TraceContext {
  traceparent: string
  tracestate?: string
}

/** The call of an earlier turn that an output of the client answers. */
export interface AnsweredCall {
  item_id: string
  name: string
  arguments: string
}

/** A well-formed event of a type that this version does not know. */
export interface UnknownStreamEvent extends Omit<StreamEvent, 'type' | 'payload'> {
  type: string
  payload: { type: string }
}

export type DecodedStreamEvent =
  | { ok: true; known: true; value: StreamEvent }
  | { ok: true; known: false; value: UnknownStreamEvent }
  | { ok: false; reason: string }
