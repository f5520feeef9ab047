import { describe, expect, test } from 'vitest'
import { outputItem } from '../../../src/formats/responses/request-out.ts'
import type { Fields } from './events.ts'

const call_id = 'c'
const result = (output: string, success = true) => ({ call_id, output, success })
const exit = (exit_code: number) => ({ type: 'exit', exit_code })

describe('a client tool output, by the kind of its call', () => {
  test.each<[string, ReturnType<typeof result>, Fields]>([
    ['function_call', result('out'), { type: 'function_call_output', call_id, output: 'out' }],
    [
      'custom_tool_call',
      result('out'),
      { type: 'custom_tool_call_output', call_id, output: 'out' },
    ],
    [
      'local_shell_call',
      result('out'),
      { type: 'local_shell_call_output', id: 'c', output: 'out' },
    ],
    [
      'shell_call',
      result('a'),
      {
        type: 'shell_call_output',
        call_id,
        output: [{ stdout: 'a', stderr: '', outcome: exit(0) }],
      },
    ],
    [
      'shell_call',
      result('boom', false),
      {
        type: 'shell_call_output',
        call_id,
        output: [{ stdout: 'boom', stderr: '', outcome: exit(1) }],
      },
    ],
    [
      'shell_call',
      result('[{"stdout":"a"}]'),
      { type: 'shell_call_output', call_id, output: [{ stdout: 'a' }] },
    ],
    [
      'apply_patch_call',
      result('done'),
      { type: 'apply_patch_call_output', call_id, status: 'completed', output: 'done' },
    ],
    [
      'apply_patch_call',
      result('no such file', false),
      { type: 'apply_patch_call_output', call_id, status: 'failed', output: 'no such file' },
    ],
    [
      'computer_call',
      result('{"type":"computer_screenshot"}'),
      { type: 'computer_call_output', call_id, output: { type: 'computer_screenshot' } },
    ],
    [
      'mcp_approval_request',
      result('{"approve":true}'),
      { type: 'mcp_approval_response', approval_request_id: 'c', approve: true },
    ],
    [
      'mcp_approval_request',
      result('fine'),
      { type: 'mcp_approval_response', approval_request_id: 'c', approve: false },
    ],
  ])('%s', (kind, output, expected) => {
    expect(outputItem(kind, output)).toEqual(expected)
  })

  test.each([
    ['computer_call', 'a computer_call takes a screenshot object'],
    ['hologram_call', 'a hologram_call takes no output'],
  ])('of the wrong kind is refused: %s', (kind, reason) => {
    expect(() => outputItem(kind, result('out'))).toThrow(`input: the output of c: ${reason}`)
  })
})
