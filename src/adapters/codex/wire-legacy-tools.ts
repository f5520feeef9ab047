/** The begin and end of each tool that codex runs, as earlier app-servers tell of them. */
import { type Decoded, fault, itemEvent } from './events.ts'
import { type Fields, fieldsOf, idOf, jsonOf, textOf } from './fields.ts'

type Decode = (message: Fields) => Decoded

export const LEGACY_TOOL_EVENTS: readonly [string, Decode][] = [
  ['exec_command_begin', (message) => started(commandExecution(message))],
  ['exec_command_output_delta', outputChunk],
  ['exec_command_end', (message) => completed(commandExecution(message))],
  ['patch_apply_begin', (message) => started(fileChange(message))],
  ['patch_apply_end', (message) => completed(fileChange(message))],
  ['mcp_tool_call_begin', (message) => started(mcpToolCall(message))],
  ['mcp_tool_call_end', (message) => completed(mcpToolCall(message))],
  ['web_search_begin', (message) => started(webSearch(message))],
  ['web_search_end', (message) => completed(webSearch(message))],
  ['view_image_tool_call', (message) => completed(imageView(message))],
  ['image_generation_begin', (message) => started(imageGeneration(message))],
  ['image_generation_end', (message) => completed(imageGeneration(message))],
  ['dynamic_tool_call_request', (message) => started(dynamicToolCall(message))],
  ['dynamic_tool_call_response', (message) => completed(dynamicToolCall(message))],
  ['plan_delta', planDelta],
]

function started(item: Fields): Decoded {
  return item['id'] === undefined ? fault('call_id') : itemEvent('item_started', item)
}

function completed(item: Fields): Decoded {
  return item['id'] === undefined ? fault('call_id') : itemEvent('item_completed', item)
}

function callId(message: Fields): string | undefined {
  return idOf(message['call_id']) ?? idOf(message['callId'])
}

function commandExecution(message: Fields): Fields {
  const { command, cwd, source, exit_code, duration } = message
  const isDone = message['status'] ?? (exit_code === 0 ? 'completed' : 'failed')
  return {
    type: 'commandExecution',
    id: callId(message),
    command,
    cwd,
    source,
    status: isDone,
    aggregatedOutput: message['aggregated_output'] ?? message['formatted_output'],
    exitCode: exit_code,
    durationMs: milliseconds(duration),
  }
}

function fileChange(message: Fields): Fields {
  const isDone = message['success'] === true ? 'completed' : 'failed'
  const output = [message['stdout'], message['stderr']].map(textOf).filter(Boolean).join('\n')
  const { changes } = message
  return {
    type: 'fileChange',
    id: callId(message),
    changes,
    status: message['status'] ?? isDone,
    ...(output !== '' && { output }),
  }
}

/** The result is Rust's: `{Ok: …}` or `{Err: "…"}`. */
function mcpToolCall(message: Fields): Fields {
  const { server, tool, arguments: args } = fieldsOf(message['invocation'])
  const { Ok: result, Err: failure } = fieldsOf(message['result'])
  const isError = failure !== undefined || fieldsOf(result)['is_error'] === true
  return {
    type: 'mcpToolCall',
    id: callId(message),
    server,
    tool,
    arguments: args,
    status: isError ? 'failed' : 'completed',
    result,
    ...(failure !== undefined && { error: { message: textOf(failure) ?? jsonOf(failure) } }),
    durationMs: milliseconds(message['duration']),
  }
}

function webSearch(message: Fields): Fields {
  const { query, action, results } = message
  return { type: 'webSearch', id: callId(message), query: query ?? '', action, results }
}

function imageView(message: Fields): Fields {
  return { type: 'imageView', id: callId(message), path: message['path'] }
}

function imageGeneration(message: Fields): Fields {
  const { status, revised_prompt: revisedPrompt, result, saved_path: savedPath } = message
  return { type: 'imageGeneration', id: callId(message), status, revisedPrompt, result, savedPath }
}

function dynamicToolCall(message: Fields): Fields {
  const { namespace, tool, arguments: args, success } = message
  const contentItems = message['content_items'] ?? message['contentItems']
  return {
    type: 'dynamicToolCall',
    id: callId(message),
    namespace,
    tool,
    arguments: args,
    success,
    contentItems,
  }
}

function planDelta(message: Fields): Decoded {
  const [id, text] = [idOf(message['item_id']), textOf(message['delta'])]
  if (id === undefined) return fault('item_id')
  return text === undefined ? fault('delta') : { type: 'output_delta', id, text }
}

/** Chunks are base64 of bytes that may end inside a character. */
function outputChunk(message: Fields): Decoded {
  const [id, chunk] = [callId(message), textOf(message['chunk'])]
  if (id === undefined) return fault('call_id')
  const bytes = chunk === undefined ? undefined : bytesOf(chunk)
  return bytes === undefined ? fault('chunk') : { type: 'output_bytes', id, bytes }
}

function bytesOf(base64: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
  } catch {
    return undefined // not base64: the caller says so
  }
}

function milliseconds(duration: unknown): number | undefined {
  const { secs, nanos } = fieldsOf(duration)
  if (typeof secs !== 'number' || typeof nanos !== 'number') return undefined
  return Math.round(secs * 1000 + nanos / 1e6)
}
