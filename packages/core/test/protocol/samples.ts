/** One well-formed event of every type, with every optional field in it. */
import type { StreamEvent, StreamEventPayload } from '../../src/index.ts'

const usage = {
  prompt_tokens: 1,
  completion_tokens: 2,
  total_tokens: 3,
  cached_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 1,
  estimated: true,
}
const metadata = { signature: 'abc', nested: { list: [1, null] } }

const finalItems: StreamEventPayload<'item_done'>['final_item'][] = [
  { type: 'message', id: 'm', content: 'hi', origin: 'user', provider_metadata: metadata },
  {
    type: 'message',
    id: 'p',
    content: '',
    origin: 'user',
    attachments: [{ type: 'image', media_type: 'image/png', data: 'AAAA' }],
  },
  { type: 'reasoning', id: 'r', content: 'hm', origin: 'agent' },
  { type: 'function_call', id: 'f', name: 'f', arguments: '{}', call_id: 'c' },
  {
    type: 'function_call',
    id: 'g',
    name: 'g',
    arguments: '{}',
    call_id: 'd',
    approval: { id: 'a', status: 'requested' },
  },
  { type: 'approval_request', id: 'w', approval_id: 'b', call_id: 'd' },
  {
    type: 'approval_response',
    id: 'v',
    approval_id: 'a',
    call_id: 'd',
    approved: false,
    reason: 'no',
    answered_by: 'ops',
    answered_at: 3,
  },
  { type: 'function_call_output', id: 'o', call_id: 'c', output: '', success: false },
  { type: 'error', id: 'e', code: 'E', message: 'why', details: [1] },
  { type: 'cancelled', id: 'x', reason: 'stop' },
]

const samplePayloads: StreamEventPayload[] = [
  {
    type: 'response_start',
    response_id: 'r',
    turn_id: 't',
    thread_id: 'h',
    agent_id: 'a',
    model_id: 'm',
    provider_id: 'p',
    created_at: 1,
  },
  {
    type: 'item_start',
    item_id: 'i',
    item_type: 'function_call',
    initial_content: '',
    origin: 'agent',
    name: 'f',
    arguments: '{',
    call_id: 'c',
    code: 'x',
    provider_metadata: metadata,
  },
  { type: 'item_delta', item_id: 'i', delta_content: 'text' },
  ...finalItems.map(
    (final_item): StreamEventPayload => ({ type: 'item_done', item_id: 'i', final_item }),
  ),
  { type: 'item_error', item_id: 'i', error: { code: 'E', message: 'why' } },
  { type: 'item_cancelled', item_id: 'i', reason: 'stop' },
  { type: 'usage_update', response_id: 'r', usage },
  { type: 'heartbeat' },
  {
    type: 'response_done',
    response_id: 'r',
    status: 'complete',
    usage,
    finish_reason: 'stop',
    provider_finish_reason: null,
    stop_sequence: 'END',
  },
  { type: 'response_error', response_id: 'r', error: { code: 'E', message: 'why' } },
  { type: 'turn_aborted_by_user', turn_id: 't', reason: 'stop' },
]

export const sampleEvents: StreamEvent[] = samplePayloads.map(
  (payload, index) =>
    ({
      event_id: `e${index}`,
      timestamp: index,
      trace_context: { traceparent: 'anything', tracestate: 'a=b' },
      run_id: 'r',
      type: payload.type,
      payload,
    }) as StreamEvent,
)
