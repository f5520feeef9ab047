/** The output of a call as the vendor wants it, which depends on the kind of the call. */
import { TurnstreamError } from '../../protocol/errors.ts'
import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import type { Fields } from './ending.ts'

export interface ToolOutput {
  call_id: string
  output: string
  success: boolean
}

const WRITERS = new Map<string, (output: ToolOutput) => Fields>([
  ['function_call', ({ call_id, output }) => ({ type: 'function_call_output', call_id, output })],
  [
    'custom_tool_call',
    ({ call_id, output }) => ({ type: 'custom_tool_call_output', call_id, output }),
  ],
  [
    'local_shell_call',
    ({ call_id, output }) => ({ type: 'local_shell_call_output', id: call_id, output }),
  ],
  ['shell_call', shellOutput],
  [
    'apply_patch_call',
    ({ call_id, output, success }) => ({
      type: 'apply_patch_call_output',
      call_id,
      status: success ? 'completed' : 'failed',
      output,
    }),
  ],
  ['computer_call', computerOutput],
  ['mcp_approval_request', approval],
])

/** Throws when there is no such thing as an output of that kind of call. */
export function outputItem(kind: string, output: ToolOutput): Fields {
  const write = WRITERS.get(kind)
  if (write === undefined) throw refusal(output, `a ${kind} takes none`)
  return write(output)
}

/** A list of chunks as the vendor has it, or plain text, which is what the command wrote. */
function shellOutput({ call_id, output, success }: ToolOutput): Fields {
  const chunks = parseJsonSafe(output)
  const outcome = { type: 'exit', exit_code: success ? 0 : 1 }
  const plain = [{ stdout: output, stderr: '', outcome }]
  return { type: 'shell_call_output', call_id, output: Array.isArray(chunks) ? chunks : plain }
}

function computerOutput(output: ToolOutput): Fields {
  const screenshot = parseJsonSafe(output.output)
  if (!isRecord(screenshot)) throw refusal(output, 'a computer_call takes a screenshot object')
  return { type: 'computer_call_output', call_id: output.call_id, output: screenshot }
}

/** Only the word itself approves; that a tool did not fail does not. */
function approval({ call_id, output }: ToolOutput): Fields {
  const answer = parseJsonSafe(output)
  const approve = isRecord(answer) && answer['approve'] === true
  return { type: 'mcp_approval_response', approval_request_id: call_id, approve }
}

function refusal({ call_id }: ToolOutput, reason: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', `input: the output of ${call_id}: ${reason}`)
}
