/** Tools of the vendor, and the calls and outputs that a reader sees of them. */
import { done, type Fields } from './events.ts'
import type { ItemRow } from './rows-items.ts'

const run = (wire: Fields, args: unknown, output: unknown, success = true): Fields[] => {
  const { type, id } = wire
  return [
    {
      type: 'function_call',
      name: type,
      call_id: id,
      arguments: JSON.stringify(args),
      executed_by: 'provider',
      openai: wire,
    },
    {
      type: 'function_call_output',
      call_id: id,
      output: JSON.stringify(output),
      success,
      executed_by: 'provider',
      openai: { type, id },
    },
  ]
}

/** A call whose output, if any, is an item of its own. */
const asked = (wire: Fields, args: unknown, executed_by?: string): Fields => ({
  type: 'function_call',
  name: wire['type'],
  call_id: wire['call_id'] ?? wire['id'],
  arguments: JSON.stringify(args),
  ...(executed_by !== undefined && { executed_by }),
  openai: wire,
})

const row = (name: string, wire: Fields, ...items: Fields[]): ItemRow => ({
  name,
  events: [done(0, wire)],
  items,
})

const webSearch = {
  type: 'web_search_call',
  id: 'ws',
  status: 'completed',
  action: { type: 'search', query: 'q', sources: [{ url: 'https://a.example' }] },
}
const fileSearch = {
  type: 'file_search_call',
  id: 'fs',
  status: 'completed',
  queries: ['q'],
  results: [{ file_id: 'f' }],
}
const code = {
  type: 'code_interpreter_call',
  id: 'ci',
  status: 'completed',
  code: '6*7',
  container_id: 'cn',
  outputs: [{ type: 'logs', logs: '42' }],
}
const image = { type: 'image_generation_call', id: 'ig', status: 'completed', result: 'aGk=' }
const mcp = {
  type: 'mcp_call',
  id: 'mcp',
  server_label: 's',
  name: 'ask',
  arguments: '{"q":1}',
  output: null,
  error: 'gone',
  status: 'failed',
}
const list = { type: 'mcp_list_tools', id: 'ml', server_label: 's', tools: [{ name: 'ask' }] }
const shell = {
  type: 'shell_call',
  id: 'sh',
  call_id: 'call_sh',
  status: 'completed',
  environment: { type: 'container_reference', container_id: 'cn' },
  action: { commands: ['ls'] },
}
const shellOutput = {
  type: 'shell_call_output',
  id: 'sho',
  call_id: 'call_sh',
  status: 'completed',
  output: [{ stdout: 'a', stderr: '' }],
}
const localShell = {
  type: 'local_shell_call',
  id: 'ls',
  call_id: 'call_ls',
  status: 'completed',
  action: { type: 'exec', command: ['ls'] },
}
const approval = {
  type: 'mcp_approval_request',
  id: 'mr',
  server_label: 's',
  name: 'ask',
  arguments: '{}',
}
const localAction = { action: { type: 'exec', command: ['ls'] } }
const shellArguments = { environment: shell.environment, action: { commands: ['ls'] } }

export const toolRows: ItemRow[] = [
  row(
    'a web search tells its sources as output',
    webSearch,
    ...run(
      webSearch,
      { action: { type: 'search', query: 'q' } },
      { status: 'completed', sources: webSearch.action.sources },
    ),
  ),
  row(
    'a file search',
    fileSearch,
    ...run(fileSearch, { queries: ['q'] }, { status: 'completed', results: fileSearch.results }),
  ),
  row(
    'a code interpreter',
    code,
    ...run(
      code,
      { code: '6*7', container_id: 'cn' },
      { status: 'completed', outputs: code.outputs },
    ),
  ),
  row('an image', image, ...run(image, {}, { status: 'completed', result: 'aGk=' })),
  row(
    'an image that was not finished',
    { ...image, status: 'incomplete' },
    ...run({ ...image, status: 'incomplete' }, {}, { status: 'incomplete', result: 'aGk=' }, false),
  ),
  row(
    'a call to an MCP server that failed',
    mcp,
    ...run(
      mcp,
      { server_label: 's', name: 'ask', arguments: '{"q":1}' },
      { output: null, error: 'gone', status: 'failed' },
      false,
    ),
  ),
  row(
    'the tools of an MCP server',
    list,
    ...run(list, { server_label: 's' }, { tools: list.tools }),
  ),
  {
    name: 'a shell that the vendor runs answers with an item of its own',
    events: [done(0, shell), done(1, shellOutput)],
    items: [
      asked(shell, shellArguments, 'provider'),
      {
        type: 'function_call_output',
        call_id: 'call_sh',
        output: JSON.stringify({ status: 'completed', output: shellOutput.output }),
        success: true,
        executed_by: 'provider',
        openai: shellOutput,
      },
    ],
  },
  row('a shell that the client runs waits for it', localShell, asked(localShell, localAction)),
  row(
    'a request for approval waits for the client',
    approval,
    asked(approval, { server_label: 's', name: 'ask', arguments: '{}' }),
  ),
  row(
    'a tool that is new to us is shown as one of the vendor',
    { type: 'hologram_call', id: 'h', shape: 'cube', result: 'shown' },
    ...run(
      { type: 'hologram_call', id: 'h', shape: 'cube', result: 'shown' },
      { shape: 'cube' },
      { result: 'shown' },
    ),
  ),
]

export const finishRows: { name: string; wires: Fields[]; reason: string }[] = [
  { name: 'tools that the vendor ran', wires: [webSearch, code, mcp, list], reason: 'stop' },
  { name: 'a shell that the vendor runs', wires: [shell], reason: 'stop' },
  { name: 'a shell that the client runs', wires: [localShell], reason: 'tool_calls' },
  { name: 'a request for approval', wires: [approval], reason: 'tool_calls' },
  {
    name: 'a search for tools by the vendor',
    wires: [{ type: 'tool_search_call', id: 't', execution: 'server' }],
    reason: 'stop',
  },
  {
    name: 'a search for tools by the client',
    wires: [{ type: 'tool_search_call', id: 't', execution: 'client' }],
    reason: 'tool_calls',
  },
  {
    name: 'a shell of the client that was answered in the same response',
    wires: [{ ...shell, environment: null }, shellOutput],
    reason: 'stop',
  },
]
