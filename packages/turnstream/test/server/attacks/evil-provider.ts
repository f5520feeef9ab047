import type { StreamEvent, StreamEventPayload } from '../../../../core/src/index.ts'
import { createScriptedProvider, type Provider } from '../../../src/index.ts'

const AT = 1_700_000_000_000

function eventsOf(payloads: readonly StreamEventPayload[]): StreamEvent[] {
  return payloads.map((payload, index) => ({
    ...{ event_id: `e${index}`, timestamp: AT, trace_context: { traceparent: '' }, run_id: 'r' },
    ...{ type: payload.type, payload },
  })) as StreamEvent[]
}

const IDS = { response_id: 'x', turn_id: 't', thread_id: 'h' }
const NAMES = { model_id: 'm', provider_id: 'evil', created_at: AT }

/** Says a text, and calls a tool with it, both in pieces; as `fails` it ends with an error that repeats it. */
export function evilProvider(text: string): Provider {
  const middle = Math.ceil(text.length / 2)
  const item = { type: 'message', id: 'a', content: text + text, origin: 'agent' } as const
  const call = {
    type: 'function_call',
    id: 'c',
    name: text,
    arguments: text,
    call_id: text,
  } as const
  const said: StreamEventPayload[] = [
    { type: 'response_start', ...IDS, ...NAMES },
    { type: 'item_start', item_id: 'a', item_type: 'message', origin: 'agent' },
    // Long enough that the first piece is shown by itself.
    { type: 'item_delta', item_id: 'a', delta_content: text },
    { type: 'item_delta', item_id: 'a', delta_content: text.slice(0, middle) },
    { type: 'item_delta', item_id: 'a', delta_content: text.slice(middle) },
    { type: 'item_done', item_id: 'a', final_item: item },
  ]
  const called: StreamEventPayload[] = [
    {
      ...{ type: 'item_start', item_id: 'c', item_type: 'function_call' },
      ...{ name: text, call_id: text },
    } as const,
    { type: 'item_delta', item_id: 'c', delta_content: text },
    { type: 'item_done', item_id: 'c', final_item: call },
    { type: 'response_done', response_id: 'x', status: 'complete', finish_reason: 'tool_calls' },
  ]
  const failed: StreamEventPayload[] = [
    { type: 'response_error', response_id: 'x', error: { code: text, message: text } },
  ]
  return createScriptedProvider({
    id: 'evil',
    recordings: { m: eventsOf([...said, ...called]), fails: eventsOf([...said, ...failed]) },
    speed: Infinity,
  })
}
