import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  blockDelta,
  blockStart,
  blockStop,
  ending,
  jsonDelta,
  messageStart,
  textBlock,
  translate,
} from './events.ts'

describe('a malformed event ends the response with the reason', () => {
  test.each([
    [blockStart(-1, { type: 'text' }), 'content_block_start: index is not an integer'],
    [blockStart(0.5, { type: 'text' }), 'content_block_start: index is not an integer'],
    [blockStart(2 ** 60, { type: 'text' }), 'content_block_start: index is not an integer'],
    [blockStart('0', { type: 'text' }), 'content_block_start: index is not an integer'],
    [blockStart(0, null), 'content_block_start: content_block is not an object'],
    [blockStart(0, {}), 'content_block_start: content_block.type is not a string'],
    [
      blockStart(0, { type: 'tool_use', id: 't' }),
      'content_block_start: content_block.name is not a string',
    ],
    [
      blockStart(0, { type: 'tool_use', name: 't', input: { a: 1n } }),
      'content_block_start: content_block.input is not JSON',
    ],
    [
      blockStart(0, { type: 'mcp_tool_result', content: [] }),
      'content_block_start: content_block.tool_use_id is not a string',
    ],
    [
      blockStart(0, { type: 'mcp_tool_result', tool_use_id: 't', content: 1n }),
      'content_block_start: content_block.content is not JSON',
    ],
    [blockDelta(null, { type: 'text_delta' }), 'content_block_delta: index is not an integer'],
    [blockDelta(0, 'x'), 'content_block_delta: delta is not an object'],
    [blockDelta(0, {}), 'content_block_delta: delta.type is not a string'],
    [
      blockDelta(0, { type: 'text_delta', text: null }),
      'content_block_delta: delta.text is not a string',
    ],
    [
      blockDelta(0, { type: 'input_json_delta', partial_json: {} }),
      'content_block_delta: delta.partial_json is not a string',
    ],
    [
      blockDelta(0, { type: 'citations_delta', citation: 1 }),
      'content_block_delta: delta.citation is not an object',
    ],
    [jsonDelta(0, '{'), 'content_block_delta: block 0 does not accept input_json_delta'],
    [
      blockDelta(7, { type: 'thinking_delta', thinking: 'x' }),
      'content_block_delta: block 7 does not accept thinking_delta',
    ],
    [
      blockDelta(8, { type: 'citations_delta', citation: {} }),
      'content_block_delta: block 8 does not accept citations_delta',
    ],
    [jsonDelta(3, '{'), 'content_block_delta: block 3 does not accept input_json_delta'],
    [blockStop([]), 'content_block_stop: index is not an integer'],
    [{ type: 'error' }, 'error: error is not an object'],
  ])('%o', (event, message) => {
    const open = [
      blockStart(6, { type: 'thinking', thinking: 'Hm' }),
      blockStart(7, { type: 'tool_use', id: 't1', name: 'a' }),
      blockStart(8, { type: 'redacted_thinking', data: 'd' }),
      blockStart(0, { type: 'text', text: 'Ha' }),
    ]
    const payloads = translate([messageStart(), ...open, event, ...textBlock(1, 'x'), ...ending()])
    const error = { code: 'UPSTREAM_MALFORMED', message }
    expect(payloads.at(-1)).toEqual({ type: 'response_error', response_id: 'run', error })
    const [response] = responsesOf(payloads)
    expect(response?.output_items.map((item) => item['error'])).toEqual([
      error,
      error,
      error,
      error,
    ])
  })
})
