import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import type {
  ErrorObject,
  StreamEvent,
  StreamEventPayload,
  Usage,
} from '@turnstream/core/internal/protocol/stream-event'

type Payload<Type extends StreamEvent['type']> = StreamEventPayload<Type>
/** What a payload of this type may be given. */
export type Fields<Type extends StreamEvent['type']> = Partial<Omit<Payload<Type>, 'type'>>
type Item<Type extends OutputItem['type']> = Extract<OutputItem, { type: Type }>

const RESPONSE_ID = 'response-1'
const TURN_ID = 'turn-1'

type CallFields = Omit<Item<'function_call'>, 'type' | 'id'>
type OutputFields = Omit<Item<'function_call_output'>, 'type' | 'id'>

/** Builders of StreamEvent payloads, for tests of providers and of code that reads events. */
export const payloads = {
  responseStart: (fields: Fields<'response_start'> = {}): Payload<'response_start'> => {
    return {
      type: 'response_start',
      response_id: RESPONSE_ID,
      turn_id: TURN_ID,
      thread_id: 'thread-1',
      model_id: 'model-1',
      provider_id: 'provider-1',
      created_at: 0,
      ...fields,
    }
  },
  /** Starts a message by default; `fields` can override it. */
  itemStart: (item_id: string, fields: Fields<'item_start'> = {}): Payload<'item_start'> => {
    return { type: 'item_start', item_id, item_type: 'message', ...fields }
  },
  itemDelta: (item_id: string, delta_content: string): Payload<'item_delta'> => {
    return { type: 'item_delta', item_id, delta_content }
  },
  itemDone: (final_item: OutputItem, item_id = final_item.id): Payload<'item_done'> => {
    return { type: 'item_done', item_id, final_item }
  },
  itemError: (item_id: string, error: ErrorObject): Payload<'item_error'> => {
    return { type: 'item_error', item_id, error }
  },
  itemCancelled: (item_id: string, reason?: string): Payload<'item_cancelled'> => {
    return { type: 'item_cancelled', item_id, ...(reason !== undefined && { reason }) }
  },
  usageUpdate: (usage: Usage, response_id = RESPONSE_ID): Payload<'usage_update'> => {
    return { type: 'usage_update', response_id, usage }
  },
  responseDone: (fields: Fields<'response_done'> = {}): Payload<'response_done'> => {
    return { type: 'response_done', response_id: RESPONSE_ID, status: 'complete', ...fields }
  },
  responseError: (error: ErrorObject, response_id = RESPONSE_ID): Payload<'response_error'> => {
    return { type: 'response_error', response_id, error }
  },
  turnAborted: (reason: string, turn_id = TURN_ID): Payload<'turn_aborted_by_user'> => {
    return { type: 'turn_aborted_by_user', turn_id, reason }
  },
  message: (
    id: string,
    content: string,
    origin: Item<'message'>['origin'] = 'agent',
  ): Item<'message'> => {
    return { type: 'message', id, content, origin }
  },
  reasoning: (id: string, content: string): Item<'reasoning'> => {
    return { type: 'reasoning', id, content, origin: 'agent' }
  },
  functionCall: (id: string, fields: CallFields): Item<'function_call'> => {
    return { type: 'function_call', id, ...fields }
  },
  functionCallOutput: (id: string, fields: OutputFields): Item<'function_call_output'> => {
    return { type: 'function_call_output', id, ...fields }
  },
  tokenUsage: (prompt: number, completion: number, more: Partial<Usage> = {}): Usage => {
    const total_tokens = prompt + completion
    return { prompt_tokens: prompt, completion_tokens: completion, total_tokens, ...more }
  },
  /** Makes events of payloads, with ids that count from `event-0` and times a millisecond apart. */
  toEvents: (all: readonly StreamEventPayload[], run_id = 'run-1'): StreamEvent[] => {
    return all.map((payload, index) => {
      const trace_context = { traceparent: '00-0-0-01' }
      const envelope = {
        event_id: `event-${index}`,
        timestamp: 1000 + index,
        trace_context,
        run_id,
      }
      return { ...envelope, type: payload.type, payload } as StreamEvent
    })
  },
}
