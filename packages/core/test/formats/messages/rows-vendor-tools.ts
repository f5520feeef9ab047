/** Blocks that only this vendor has, and the items that carry them. */
import { blockDelta, blockStart, blockStop, type Fields, jsonDelta } from './events.ts'
import { type ContentRow, call, message, reasoning } from './rows-content.ts'

const executed = (item: Fields, block: Fields) => ({
  ...item,
  executed_by: 'provider',
  anthropic: { block },
})
const output = (call_id: string, output: string, success = true) => ({
  type: 'function_call_output',
  call_id,
  output,
  success,
})
const searchResult = { type: 'web_search_result', url: 'https://a', encrypted_content: 'e' }

export const vendorRows: ContentRow[] = [
  {
    name: 'a tool that the vendor runs is a call and its output, and nothing to answer',
    blocks: [
      blockStart(0, { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} }),
      jsonDelta(0, '{"query":"x"}'),
      blockStop(0),
      blockStart(1, { type: 'web_search_tool_result', tool_use_id: 's1', content: [searchResult] }),
      blockStop(1),
    ],
    items: [
      executed(call('s1', 'web_search', '{"query":"x"}'), { type: 'server_tool_use' }),
      executed(output('s1', JSON.stringify([searchResult])), { type: 'web_search_tool_result' }),
    ],
  },
  {
    name: 'a result that is an error did not succeed',
    blocks: [
      blockStart(0, {
        type: 'bash_code_execution_tool_result',
        tool_use_id: 's1',
        content: { type: 'bash_code_execution_tool_result_error', error_code: 'unavailable' },
      }),
    ],
    items: [
      executed(
        output(
          's1',
          '{"type":"bash_code_execution_tool_result_error","error_code":"unavailable"}',
          false,
        ),
        { type: 'bash_code_execution_tool_result' },
      ),
    ],
  },
  {
    name: 'an MCP tool that says so did not succeed',
    blocks: [
      blockStart(0, {
        type: 'mcp_tool_use',
        id: 'm1',
        name: 'echo',
        server_name: 'srv',
        input: {},
      }),
      blockStop(0),
      blockStart(1, { type: 'mcp_tool_result', tool_use_id: 'm1', is_error: true, content: 'no' }),
    ],
    items: [
      executed(call('m1', 'echo', '{}'), { type: 'mcp_tool_use', server_name: 'srv' }),
      executed(output('m1', '"no"', false), { type: 'mcp_tool_result', is_error: true }),
    ],
  },
  {
    name: 'a result without content is null',
    blocks: [blockStart(0, { type: 'advisor_tool_result', tool_use_id: 's1' })],
    items: [executed(output('s1', 'null'), { type: 'advisor_tool_result' })],
  },
  {
    name: 'a compaction says its content in a delta',
    blocks: [
      blockStart(0, { type: 'compaction', content: null }),
      blockDelta(0, { type: 'compaction_delta', content: 'Sum', encrypted_content: 'e' }),
      blockStop(0),
    ],
    items: [
      reasoning('', { block: { type: 'compaction', content: 'Sum', encrypted_content: 'e' } }),
    ],
  },
  {
    name: 'a file in the container is a message without text',
    blocks: [blockStart(0, { type: 'container_upload', file_id: 'f' }), blockStop(0)],
    items: [message('', { block: { type: 'container_upload', file_id: 'f' } })],
  },
]
