/** What providers say, written shortly, and what logs say, read shortly. */
import type { OutputItem } from '../../src/protocol/output-item.ts'
import type { StreamEventPayload, Usage } from '../../src/protocol/stream-event.ts'

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
    case 'approval_response':
      return `${item.approval_id} ${item.approved ? 'approved' : 'declined'} ${item.reason ?? ''}`
    case 'error':
      return item.code
    case 'cancelled':
      return 'cancelled'
  }
}

// What a provider says.

export const BEGIN: StreamEventPayload = {
  type: 'response_start',
  response_id: 'vendor-response',
  turn_id: 'vendor-turn',
  thread_id: 'vendor-thread',
  model_id: 'vendor-model',
  provider_id: 'vendor',
  created_at: 1,
}

type StartFields = Partial<Omit<StreamEventPayload<'item_start'>, 'type' | 'item_id'>>

export function open(item_id: string, fields: StartFields = {}): StreamEventPayload {
  return { type: 'item_start', item_id, item_type: 'message', ...fields }
}

export function delta(item_id: string, delta_content: string): StreamEventPayload {
  return { type: 'item_delta', item_id, delta_content }
}

export function done(item_id: string, content: string): StreamEventPayload {
  const final_item = { type: 'message', id: item_id, content, origin: 'agent' } as const
  return { type: 'item_done', item_id, final_item }
}

/** An answer in one piece. */
export function answer(item_id: string, content: string): StreamEventPayload[] {
  return [open(item_id), delta(item_id, content), done(item_id, content)]
}

export interface CallFields {
  readonly arguments?: string
  readonly call_id?: string
  readonly provider_metadata?: Record<string, unknown>
}

/** A whole call of a tool. */
export function call(item_id: string, name: string, fields: CallFields = {}): StreamEventPayload[] {
  const { arguments: args = '{}', call_id = `call-${item_id}`, provider_metadata } = fields
  const metadata = provider_metadata && { provider_metadata }
  return [
    open(item_id, { item_type: 'function_call', name, call_id, ...metadata }),
    delta(item_id, args),
    {
      type: 'item_done',
      item_id,
      final_item: {
        type: 'function_call',
        id: item_id,
        name,
        arguments: args,
        call_id,
        ...metadata,
      },
    },
  ]
}

export function usage(prompt: number, completion: number, more: Partial<Usage> = {}): Usage {
  const total_tokens = prompt + completion
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens, ...more }
}

export function used(figures: Usage): StreamEventPayload {
  return { type: 'usage_update', response_id: 'vendor-response', usage: figures }
}

type DoneFields = Partial<Omit<StreamEventPayload<'response_done'>, 'type'>>

export function end(fields: DoneFields | string = {}): StreamEventPayload {
  const given = typeof fields === 'string' ? { finish_reason: fields } : fields
  return {
    type: 'response_done',
    response_id: 'vendor-response',
    status: 'complete',
    finish_reason: 'stop',
    ...given,
  }
}

export function broken(code: string): StreamEventPayload {
  const error = { code, message: `of the vendor: ${code}` }
  return { type: 'response_error', response_id: 'vendor-response', error }
}
