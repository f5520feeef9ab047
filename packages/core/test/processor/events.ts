/** Short ways to write StreamEvents down. */

import { type Fields, payloads } from '../../../conformance/src/turn-log/payloads.ts'
import type { OutputItem, StreamEvent, StreamEventPayload } from '../../src/index.ts'

export const TURN_ID = 'turn-1'
export const THREAD_ID = 'thread-1'

let counter = 0

export function event(payload: StreamEventPayload): StreamEvent {
  counter += 1
  const [made] = payloads.toEvents([payload], TURN_ID) as [StreamEvent]
  return { ...made, event_id: `event-${counter}`, timestamp: counter }
}

export function start(fields: Fields<'response_start'> = {}): StreamEvent {
  const model = { model_id: 'claude-sonnet-4-20250514', provider_id: 'anthropic' }
  return event(payloads.responseStart({ response_id: TURN_ID, ...model, ...fields }))
}

export function open(id: string, fields?: Fields<'item_start'>): StreamEvent {
  return event(payloads.itemStart(id, fields))
}

export function delta(id: string, text: string): StreamEvent {
  return event(payloads.itemDelta(id, text))
}

export function finish(id: string, item: OutputItem): StreamEvent {
  return event(payloads.itemDone(item, id))
}

type Origin = 'user' | 'agent' | 'system'

export function done(id: string, content: string, origin?: Origin): StreamEvent {
  return event(payloads.itemDone(payloads.message(id, content, origin)))
}

export function thought(id: string, content: string): StreamEvent {
  return event(payloads.itemDone(payloads.reasoning(id, content)))
}

export function call(id: string, call_id: string, args: string, name = 'read_file'): StreamEvent {
  return event(payloads.itemDone(payloads.functionCall(id, { name, arguments: args, call_id })))
}

export function output(id: string, call_id: string, text: string, success = true): StreamEvent {
  const fields = { call_id, output: text, success }
  return event(payloads.itemDone(payloads.functionCallOutput(id, fields)))
}

export function fail(id: string, code: string, message: string): StreamEvent {
  return event(payloads.itemError(id, { code, message }))
}

export function cancel(id: string, reason?: string): StreamEvent {
  return event(payloads.itemCancelled(id, reason))
}

export function responseDone(fields: Fields<'response_done'> = {}): StreamEvent {
  const ended = { response_id: TURN_ID, finish_reason: 'stop' }
  return event(payloads.responseDone({ ...ended, ...fields }))
}

export function responseError(code: string, message: string): StreamEvent {
  return event(payloads.responseError({ code, message }, TURN_ID))
}

export function aborted(reason: string): StreamEvent {
  return event(payloads.turnAborted(reason))
}

export function usage(prompt: number, completion: number): StreamEvent {
  return event(payloads.usageUpdate(payloads.tokenUsage(prompt, completion), TURN_ID))
}

export const { tokenUsage: tokens } = payloads
