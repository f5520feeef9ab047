/** Short ways to write StreamEvents down. */
import type { StreamEvent, StreamEventPayload } from '../../src/protocol/stream-event.ts'

export const TURN_ID = 'turn-1'
export const THREAD_ID = 'thread-1'

let counter = 0

export function event(payload: StreamEventPayload): StreamEvent {
  counter += 1
  return {
    event_id: `event-${counter}`,
    timestamp: counter,
    trace_context: { traceparent: '00-0-0-01' },
    run_id: TURN_ID,
    type: payload.type,
    payload,
  } as StreamEvent
}

export function start(fields: Partial<StreamEventPayload<'response_start'>> = {}): StreamEvent {
  return event({
    type: 'response_start',
    response_id: TURN_ID,
    turn_id: TURN_ID,
    thread_id: THREAD_ID,
    model_id: 'claude-sonnet-4-20250514',
    provider_id: 'anthropic',
    created_at: 0,
    ...fields,
  })
}

type StartFields = Omit<Partial<StreamEventPayload<'item_start'>>, 'type'>

export function open(item_id: string, fields: StartFields = {}): StreamEvent {
  return event({ type: 'item_start', item_id, item_type: 'message', ...fields })
}

export function delta(item_id: string, delta_content: string): StreamEvent {
  return event({ type: 'item_delta', item_id, delta_content })
}

type FinalItem = StreamEventPayload<'item_done'>['final_item']

export function finish(item_id: string, final_item: FinalItem): StreamEvent {
  return event({ type: 'item_done', item_id, final_item })
}

type Origin = 'user' | 'agent' | 'system'

export function done(id: string, content: string, origin: Origin = 'agent'): StreamEvent {
  return finish(id, { type: 'message', id, content, origin })
}

export function thought(id: string, content: string): StreamEvent {
  return finish(id, { type: 'reasoning', id, content, origin: 'agent' })
}

export function call(id: string, call_id: string, args: string, name = 'read_file'): StreamEvent {
  return finish(id, { type: 'function_call', id, name, arguments: args, call_id })
}

export function output(id: string, call_id: string, text: string, success = true): StreamEvent {
  return finish(id, { type: 'function_call_output', id, call_id, output: text, success })
}

export function fail(item_id: string, code: string, message: string): StreamEvent {
  return event({ type: 'item_error', item_id, error: { code, message } })
}

export function cancel(item_id: string, reason?: string): StreamEvent {
  return event({ type: 'item_cancelled', item_id, ...(reason !== undefined && { reason }) })
}

type DoneFields = Omit<Partial<StreamEventPayload<'response_done'>>, 'type'>

export function responseDone(fields: DoneFields = {}): StreamEvent {
  return event({
    type: 'response_done',
    response_id: TURN_ID,
    status: 'complete',
    finish_reason: 'stop',
    ...fields,
  })
}

export function responseError(code: string, message: string): StreamEvent {
  return event({ type: 'response_error', response_id: TURN_ID, error: { code, message } })
}

export function aborted(reason: string): StreamEvent {
  return event({ type: 'turn_aborted_by_user', turn_id: TURN_ID, reason })
}

export function usage(prompt: number, completion: number): StreamEvent {
  return event({ type: 'usage_update', response_id: TURN_ID, usage: tokens(prompt, completion) })
}

export function tokens(prompt: number, completion: number) {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
  }
}
