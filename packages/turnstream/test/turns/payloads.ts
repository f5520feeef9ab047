/** What providers say, written shortly, and what logs say, read shortly. */

import { type Fields, payloads } from '../../../conformance/src/turn-log/payloads.ts'
import type { OutputItem, StreamEventPayload, Usage } from '../../../core/src/index.ts'

export function line(payload: StreamEventPayload): string {
  switch (payload.type) {
    case 'response_start':
      return `begin ${payload.response_id} ${payload.provider_id}/${payload.model_id}`
    case 'item_start':
      return `open ${payload.item_id} ${payload.item_type}`
    case 'item_delta':
      return `${payload.item_id} + ${payload.delta_content}`
    case 'item_done':
      return `done ${payload.item_id} ${textOf(payload.final_item)}`
    case 'item_error':
      return `error ${payload.item_id} ${payload.error.code}`
    case 'item_cancelled':
      return `cancelled ${payload.item_id} ${payload.reason}`
    case 'usage_update':
      return `usage ${payload.usage?.total_tokens}`
    case 'heartbeat':
      return 'heartbeat'
    case 'response_done':
      return `end ${payload.finish_reason} ${payload.usage?.total_tokens ?? '?'}`
    case 'response_error':
      return `end ${payload.error.code}`
    case 'turn_aborted_by_user':
      return `aborted ${payload.reason}`
  }
}

function textOf(item: OutputItem): string {
  switch (item.type) {
    case 'message':
    case 'reasoning':
      return item.content
    case 'function_call':
      return `${item.name}(${item.arguments})`
    case 'function_call_output':
      return `${item.call_id} ${item.success ? '=' : '!'} ${item.output}`
    case 'approval_request':
      return `${item.approval_id} for ${item.call_id}`
    case 'approval_response':
      return `${item.approval_id} ${item.approved ? 'approved' : 'declined'} ${item.reason ?? ''}`
    case 'error':
      return item.code
    case 'cancelled':
      return 'cancelled'
  }
}

// What a provider says.

const RESPONSE_ID = 'vendor-response'

export const BEGIN: StreamEventPayload = payloads.responseStart({
  response_id: RESPONSE_ID,
  turn_id: 'vendor-turn',
  thread_id: 'vendor-thread',
  model_id: 'vendor-model',
  provider_id: 'vendor',
})

export const { itemDelta: delta, itemStart: open, tokenUsage: usage } = payloads

export function done(id: string, content: string): StreamEventPayload {
  return payloads.itemDone(payloads.message(id, content))
}

/** An answer in one piece. */
export function answer(item_id: string, content: string): StreamEventPayload[] {
  return [payloads.itemStart(item_id), payloads.itemDelta(item_id, content), done(item_id, content)]
}

export interface CallFields {
  readonly arguments?: string
  readonly call_id?: string
  readonly provider_metadata?: Record<string, unknown>
}

/** A whole call of a tool. */
export function call(item_id: string, name: string, fields: CallFields = {}): StreamEventPayload[] {
  const { arguments: args = '{}', call_id = `call-${item_id}`, provider_metadata } = fields
  const made = { name, call_id, ...(provider_metadata && { provider_metadata }) }
  return [
    payloads.itemStart(item_id, { item_type: 'function_call', ...made }),
    payloads.itemDelta(item_id, args),
    payloads.itemDone(payloads.functionCall(item_id, { ...made, arguments: args })),
  ]
}

export function used(figures: Usage): StreamEventPayload {
  return payloads.usageUpdate(figures, RESPONSE_ID)
}

export function end(fields: Fields<'response_done'> | string = {}): StreamEventPayload {
  const given = typeof fields === 'string' ? { finish_reason: fields } : fields
  return payloads.responseDone({ response_id: RESPONSE_ID, finish_reason: 'stop', ...given })
}

export function broken(code: string): StreamEventPayload {
  return payloads.responseError({ code, message: `of the vendor: ${code}` }, RESPONSE_ID)
}
