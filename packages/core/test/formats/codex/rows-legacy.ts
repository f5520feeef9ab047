/** What earlier app-servers told, often more than once. */
import {
  agentItem,
  byCodex,
  call,
  legacy,
  message,
  output,
  type Row,
  reasoning,
  textDelta,
  userMessage,
} from './events.ts'

export const legacyRows: Row[] = [
  {
    name: 'a text that is told in three ways is told once',
    events: ['Hel', 'lo'].flatMap((delta) => [
      legacy('agent_message_content_delta', { item_id: 'm', delta }),
      textDelta('m', delta),
      legacy('agent_message_delta', { delta }),
    ]),
    items: [message('Hello')],
  },
  {
    name: 'an item that is named after it was streamed is the one that was streamed',
    events: [
      legacy('agent_message_delta', { delta: 'He' }),
      legacy('agent_message_delta', { delta: 'llo' }),
      legacy('item_started', {
        item: { AgentMessage: { id: 'm', content: [{ Text: { text: 'Hello' } }] } },
      }),
      legacy('item_completed', {
        item: { AgentMessage: { id: 'm', content: [{ Text: { text: 'Hello' } }] } },
      }),
      legacy('agent_message', { message: 'Hello' }),
      legacy('agent_message_delta', { delta: 'Again' }),
      legacy('item_completed', agentItem('n', 'Again')),
      legacy('agent_message', { message: 'Again' }),
    ],
    items: [message('Hello'), message('Again')],
  },
  {
    name: 'a whole text ends what was streamed of it',
    events: [
      legacy('agent_message_delta', { delta: 'He' }),
      legacy('agent_message', { message: 'Hello' }),
      legacy('agent_message', { message: 'Alone' }),
    ],
    items: [message('Hello'), message('Alone')],
  },
  {
    name: 'an item that follows its whole text repeats it',
    events: [
      legacy('agent_message', { message: 'Hello' }),
      legacy('item_started', agentItem('m', 'Hello')),
      legacy('item_completed', agentItem('m', 'Hello')),
    ],
    items: [message('Hello')],
  },
  {
    name: 'an item without deltas is its whole text',
    events: [
      legacy('item_started', agentItem('m', '')),
      legacy('item_completed', agentItem('m', 'Hello')),
      legacy('agent_message', { message: 'Hello' }),
    ],
    items: [message('Hello')],
  },
  {
    name: 'the words of the user are told once',
    events: [
      legacy('item_completed', {
        item: { type: 'UserMessage', id: 'q', content: [{ type: 'text', text: 'Why?' }] },
      }),
      legacy('user_message', { message: 'Why?' }),
    ],
    items: [userMessage('Why?')],
  },
  {
    name: 'sections of the reasoning are paragraphs',
    events: [
      legacy('agent_reasoning_delta', { delta: 'one' }),
      legacy('agent_reasoning_section_break'),
      legacy('agent_reasoning_delta', { delta: 'two' }),
      legacy('item_completed', {
        item: { type: 'Reasoning', id: 'r', summary_text: [], raw_content: [] },
      }),
      legacy('agent_reasoning', { text: 'two' }),
    ],
    items: [reasoning('one\n\ntwo')],
  },
  {
    name: 'reasoning with a name is told once',
    events: [
      legacy('item_started', {
        item: { type: 'Reasoning', id: 'r', summary_text: [], raw_content: [] },
      }),
      legacy('reasoning_content_delta', { item_id: 'r', summary_index: 0, delta: 'a' }),
      legacy('agent_reasoning_delta', { delta: 'a' }),
      legacy('item_completed', {
        item: { type: 'Reasoning', id: 'r', summary_text: ['a'], raw_content: ['b'] },
      }),
      legacy('agent_reasoning', { text: 'a' }),
      legacy('agent_reasoning_raw_content', { text: 'b' }),
    ],
    items: [reasoning('a\n\nb')],
  },
  {
    name: 'a command that ends without a last word has printed its chunks',
    events: [
      legacy('exec_command_begin', { call_id: 'c', command: ['ls'], cwd: '/' }),
      // The second character is cut in two.
      ...[Uint8Array.of(0x68, 0xc3), Uint8Array.of(0xa9, 0x0a)].map((bytes) =>
        legacy('exec_command_output_delta', {
          call_id: 'c',
          stream: 'stdout',
          chunk: Buffer.from(bytes).toString('base64'),
        }),
      ),
      legacy('exec_command_end', { call_id: 'c', command: ['ls'], cwd: '/', exit_code: 1 }),
    ],
    items: [
      byCodex(call('c', 'commandExecution', '{"command":["ls"],"cwd":"/"}')),
      byCodex(output('c', 'hé\n', false)),
    ],
  },
  {
    name: 'a patch, an MCP tool, a search and an image are calls',
    events: [
      legacy('patch_apply_begin', { call_id: 'p', changes: { a: { add: { content: 'x' } } } }),
      legacy('patch_apply_end', { call_id: 'p', stdout: 'Done', stderr: '', success: true }),
      legacy('mcp_tool_call_begin', {
        call_id: 'm',
        invocation: { server: 's', tool: 'find', arguments: { q: 1 } },
      }),
      legacy('mcp_tool_call_end', {
        call_id: 'm',
        result: { Ok: { content: [{ type: 'text', text: 'hit' }] } },
      }),
      legacy('mcp_tool_call_end', {
        call_id: 'n',
        invocation: { server: 's', tool: 'get' },
        result: { Err: 'gone' },
      }),
      legacy('web_search_begin', { call_id: 'w' }),
      legacy('web_search_end', { call_id: 'w', query: 'cats' }),
      legacy('view_image_tool_call', { call_id: 'v', path: '/a.png' }),
    ],
    items: [
      byCodex(call('p', 'fileChange', '{"changes":{"a":{"add":{"content":"x"}}}}')),
      byCodex(output('p', 'Done')),
      byCodex(call('m', 'find', '{"q":1}')),
      byCodex(output('m', 'hit')),
      byCodex(call('n', 'get', '{}')),
      byCodex(output('n', 'gone', false)),
      byCodex(call('w', 'webSearch', '{"query":"cats"}')),
      byCodex(output('w', '')),
      byCodex(call('v', 'imageView', '{"path":"/a.png"}')),
      byCodex(output('v', '{"path":"/a.png"}')),
    ],
  },
  {
    name: 'a raw item goes by where it stands, not by its own type',
    events: [
      legacy('raw_response_item', { type: 'message', id: 'h', role: 'user', content: [] }),
      legacy('raw_response_item', {
        type: 'function_call',
        call_id: 'c',
        name: 'shell',
        arguments: '{"a": 1}',
      }),
      legacy('exec_command_begin', { call_id: 'c', command: ['ls'], cwd: '/' }),
      legacy('exec_command_end', {
        call_id: 'c',
        command: ['ls'],
        cwd: '/',
        exit_code: 0,
        aggregated_output: 'x',
      }),
    ],
    items: [byCodex(call('c', 'shell', '{"a": 1}')), byCodex(output('c', 'x'))],
  },
  {
    name: 'an attempt that is given up is cancelled',
    events: [
      legacy('agent_message_delta', { delta: 'Lost' }),
      legacy('stream_error', { message: 'Reconnecting... 1/2' }),
      legacy('agent_message_delta', { delta: 'Kept' }),
    ],
    items: [{ ...message('Lost'), cancelled: { reason: 'attempt_reset' } }, message('Kept')],
  },
  {
    name: 'a tool of the client is left unmarked',
    events: [
      legacy('dynamic_tool_call_request', { callId: 'c', tool: 'f', arguments: { a: 1 } }),
      legacy('dynamic_tool_call_response', {
        call_id: 'c',
        tool: 'f',
        arguments: { a: 1 },
        content_items: [{ type: 'inputText', text: 'ok' }],
        success: true,
      }),
    ],
    items: [call('c', 'f', '{"a":1}'), output('c', 'ok')],
  },
  {
    name: 'a plan and a picture are made',
    events: [
      legacy('item_started', { item: { type: 'Plan', id: 'p', text: '' } }),
      legacy('plan_delta', { item_id: 'p', delta: '1. go' }),
      legacy('item_completed', { item: { type: 'Plan', id: 'p', text: '1. go' } }),
      legacy('image_generation_begin', { call_id: 'i' }),
      legacy('image_generation_end', { call_id: 'i', status: 'failed', revised_prompt: 'cat' }),
      legacy('item_completed', { item: { type: 'ImageGeneration', id: 'i', status: 'failed' } }),
    ],
    items: [
      byCodex(call('p', 'plan', '{}')),
      byCodex(output('p', '1. go')),
      byCodex(call('i', 'imageGeneration', '{}')),
      byCodex(output('i', '{"status":"failed","revisedPrompt":"cat"}', false)),
    ],
  },
  {
    name: 'raw reasoning is told once',
    events: [
      legacy('agent_reasoning_raw_content_delta', { delta: 'raw' }),
      legacy('reasoning_raw_content_delta', { item_id: 'r', content_index: 0, delta: 'raw' }),
      legacy('agent_reasoning_raw_content', { text: 'raw' }),
    ],
    items: [reasoning('raw')],
  },
  {
    name: 'a call that is told as an item is a call, and so is its output',
    events: [
      legacy('item_started', { item: { type: 'function_call', call_id: 'c', name: 'f' } }),
      legacy('item_completed', {
        item: { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      }),
      legacy('raw_response_completed', { token_usage: null }),
      legacy('item_completed', {
        item: { type: 'function_call_output', call_id: 'c', output: { content: 'ok' } },
      }),
      legacy('item_completed', agentItem('m', 'So')),
    ],
    items: [byCodex(call('c', 'f', '{}')), byCodex(output('c', 'ok')), message('So')],
  },
]
