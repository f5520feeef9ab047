/** What is called, by whom, and what comes of it. */
import {
  byCodex,
  call,
  clientTool,
  completed,
  type Fields,
  message,
  note,
  output,
  type Row,
  raw,
  rawCall,
  rawCompleted,
  rawOutput,
  said,
  started,
} from './events.ts'

export const command = (fields: Fields = {}) => ({
  type: 'commandExecution',
  id: 'c',
  command: 'ls',
  cwd: '/',
  status: 'inProgress',
  aggregatedOutput: null,
  exitCode: null,
  ...fields,
})
const outputDelta = (delta: string, itemId = 'c') =>
  note('item/commandExecution/outputDelta', { itemId, delta })
const listed = byCodex(call('c', 'commandExecution', '{"command":"ls","cwd":"/"}'))
const tool = (type: string, fields: Fields) => ({ type, id: 'x', status: 'completed', ...fields })

export const toolRows: Row[] = [
  {
    name: 'a command is a call that codex runs, and its output',
    events: [
      started(command()),
      outputDelta('b\n'),
      completed(command({ status: 'completed', aggregatedOutput: 'a\nb\n', exitCode: 0 })),
    ],
    items: [listed, byCodex(output('c', 'a\nb\n'))],
  },
  {
    name: 'a command without a last word has printed what was streamed',
    events: [
      started(command()),
      outputDelta('a\n'),
      outputDelta('b\n'),
      completed(command({ status: 'failed', exitCode: 1 })),
    ],
    items: [listed, byCodex(output('c', 'a\nb\n', false))],
  },
  {
    name: 'a command that exits with an error has not succeeded',
    events: [completed(command({ status: 'completed', aggregatedOutput: '', exitCode: 2 }))],
    items: [listed, byCodex(output('c', '', false))],
  },
  {
    name: 'a command that was declined has not succeeded',
    events: [
      started(command()),
      note('item/commandExecution/requestApproval', { itemId: 'c', command: 'ls' }),
      completed(command({ status: 'declined' })),
    ],
    items: [listed, byCodex(output('c', '', false))],
  },
  {
    name: 'output of a command that nobody started is dropped',
    events: [outputDelta('x', 'ghost')],
    items: [],
  },
  {
    name: 'a change of files tells what it changes',
    events: [
      started(tool('fileChange', { changes: [{ path: 'a', diff: '+' }], status: 'inProgress' })),
      note('item/fileChange/patchUpdated', { itemId: 'x', changes: [] }),
      completed(tool('fileChange', { changes: [{ path: 'a', diff: '+' }] })),
    ],
    items: [
      byCodex(call('x', 'fileChange', '{"changes":[{"path":"a","diff":"+"}]}')),
      byCodex(output('x', '{"status":"completed"}')),
    ],
  },
  {
    name: 'an MCP tool goes by its own name',
    events: [
      started(tool('mcpToolCall', { server: 's', tool: 'find', arguments: { q: 1 } })),
      note('item/mcpToolCall/progress', { itemId: 'x', message: 'half' }),
      completed(
        tool('mcpToolCall', {
          server: 's',
          tool: 'find',
          arguments: { q: 1 },
          result: { content: [{ type: 'text', text: 'here' }] },
        }),
      ),
    ],
    items: [byCodex(call('x', 'find', '{"q":1}')), byCodex(output('x', 'here'))],
  },
  {
    name: 'an MCP tool that fails says why',
    events: [
      completed(
        tool('mcpToolCall', { tool: 'find', status: 'failed', error: { message: 'no server' } }),
      ),
    ],
    items: [byCodex(call('x', 'find', '{}')), byCodex(output('x', 'no server', false))],
  },
  {
    name: 'an MCP result that is not all text is JSON',
    events: [
      completed(tool('mcpToolCall', { tool: 'see', result: { content: [{ type: 'image' }] } })),
    ],
    items: [
      byCodex(call('x', 'see', '{}')),
      byCodex(output('x', '{"content":[{"type":"image"}]}')),
    ],
  },
  {
    name: 'what is searched for is known at the end of the search',
    events: [
      started(tool('webSearch', { query: '', action: null })),
      completed(tool('webSearch', { query: 'cats', action: { type: 'search' } })),
    ],
    items: [
      byCodex(call('x', 'webSearch', '{"query":"cats","action":{"type":"search"}}')),
      byCodex(output('x', '')),
    ],
  },
  {
    name: 'a plan is what came of planning',
    events: [
      started(tool('plan', { text: '' })),
      note('item/plan/delta', { itemId: 'x', delta: '1. ' }),
      note('item/plan/delta', { itemId: 'x', delta: 'go' }),
      completed(tool('plan', { text: '1. go' })),
    ],
    items: [byCodex(call('x', 'plan', '{}')), byCodex(output('x', '1. go'))],
  },
  {
    name: 'other tools show what they were given and what they gave',
    events: [
      started(tool('imageView', { path: '/a.png' })),
      completed(tool('imageView', { path: '/a.png' })),
    ],
    items: [
      byCodex(call('x', 'imageView', '{"path":"/a.png"}')),
      byCodex(output('x', '{"status":"completed","path":"/a.png"}')),
    ],
  },
  {
    name: 'the raw call gives the exact words, the item says that codex runs it',
    events: [
      rawCall('c', 'exec_command', '{"cmd": "ls"}'),
      started(command()),
      completed(command({ status: 'completed', aggregatedOutput: 'a', exitCode: 0 })),
      rawOutput('c', 'Exit code: 0\na'),
    ],
    items: [byCodex(call('c', 'exec_command', '{"cmd": "ls"}')), byCodex(output('c', 'a'))],
  },
  {
    name: 'a custom tool is called with its input',
    events: [
      raw({ type: 'custom_tool_call', call_id: 'x', name: 'apply_patch', input: '*** Begin' }),
      started(tool('fileChange', { changes: [], status: 'inProgress' })),
      completed(tool('fileChange', { changes: [] })),
    ],
    items: [
      byCodex(call('x', 'apply_patch', '{"input":"*** Begin"}')),
      byCodex(output('x', '{"status":"completed"}')),
    ],
  },
  {
    name: 'a call that has no item is answered by what the model is told',
    events: [
      rawCall('p', 'update_plan', '{"plan":[]}'),
      rawCompleted(),
      rawOutput('p', 'Plan updated'),
      ...said('m', 'Done'),
    ],
    items: [
      byCodex(call('p', 'update_plan', '{"plan":[]}')),
      byCodex(output('p', 'Plan updated')),
      message('Done'),
    ],
  },
  {
    name: 'a call that is no JSON was not run',
    events: [
      rawCall('p', 'get_weather', '{"city":'),
      rawOutput('p', 'failed to parse function arguments'),
      rawCompleted(),
      ...said('m', 'Sorry'),
    ],
    items: [
      byCodex(call('p', 'get_weather', '{"city":')),
      byCodex(output('p', 'failed to parse function arguments', false)),
      message('Sorry'),
    ],
  },
  {
    name: 'a client that answers while the turn waits has run its tool',
    events: [
      started(clientTool('w')),
      note('item/tool/call', { callId: 'w', tool: 'get_weather', arguments: { city: 'Paris' } }),
      completed(
        clientTool('w', { success: true, contentItems: [{ type: 'inputText', text: '18 C' }] }),
      ),
      ...said('m', '18 degrees'),
    ],
    items: [
      call('w', 'get_weather', '{"city":"Paris"}'),
      output('w', '18 C'),
      message('18 degrees'),
    ],
  },
  {
    name: 'a refusal by the client is an answer when the model continues',
    events: [
      started(clientTool('w')),
      completed(clientTool('w', { status: 'failed', success: false, contentItems: [] })),
      ...said('m', 'Then not'),
    ],
    items: [
      call('w', 'get_weather', '{"city":"Paris"}'),
      output('w', '', false),
      message('Then not'),
    ],
  },
  {
    name: 'a call id that is used again names another call',
    events: [1, 2].flatMap((n) => [
      started(command({ command: `run ${n}` })),
      completed(
        command({
          command: `run ${n}`,
          status: 'completed',
          aggregatedOutput: `${n}`,
          exitCode: 0,
        }),
      ),
    ]),
    items: [1, 2].flatMap((n) => [
      byCodex(call('c', 'commandExecution', `{"command":"run ${n}","cwd":"/"}`)),
      byCodex(output('c', `${n}`)),
    ]),
  },
]
