import { describe, expect, test } from 'vitest'
import {
  anthropicMessages,
  anthropicToolCall,
  openaiResponses,
} from '../../bench/vendor-streams.mjs'
import { createReader } from '../../packages/core/src/formats/format.ts'
import { SOURCES, type SourceName } from '../../packages/core/src/formats/registry.ts'
import { ResponseReducer } from '../../packages/core/src/index.ts'

function reduce(vendor: SourceName, chunks: Uint8Array[]) {
  const unknown: string[] = []
  const source = createReader(vendor, SOURCES[vendor], {
    runId: 'run',
    threadId: 'thread',
    now: () => 0,
    onUnknown: (type) => unknown.push(type),
  })
  const reducer = new ResponseReducer()
  let deltas = 0
  for (const event of [...chunks.flatMap((chunk) => source.feed(chunk)), ...source.end()]) {
    if (event.type === 'item_delta') deltas += 1
    reducer.apply(event)
  }
  return { response: reducer.response, deltas, unknown }
}

describe.each([
  ['openai-responses', openaiResponses, 0],
  ['anthropic-messages', anthropicMessages, 1],
] as const)('the stream of %s', (vendor, make, silent) => {
  test('has the declared number of deltas and the text', () => {
    const stream = make(1000)
    const { response, deltas, unknown } = reduce(vendor, stream.chunks)
    expect(unknown).toEqual([])
    expect(deltas + silent).toBe(stream.deltas)
    expect(response).toMatchObject({
      status: 'complete',
      finish_reason: 'tool_calls',
      output_items: [
        { type: 'reasoning' },
        { type: 'message', content: stream.text },
        { type: 'function_call', name: 'write_file' },
      ],
    })
    expect(stream.text.length).toBe(700 * 4)
  })
})

test('the tool call has the requested number of fragments', () => {
  const { deltas, response } = reduce('anthropic-messages', anthropicToolCall(500).chunks)
  expect(deltas).toBe(500)
  expect(response.output_items).toMatchObject([{ type: 'function_call' }])
})
