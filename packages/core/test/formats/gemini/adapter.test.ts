import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { createGeminiProvider } from '../../../../turnstream/src/index.ts'
import { startVendor } from '../../../../turnstream/test/providers/vendor-server.ts'
import { ResponseReducer, stamp } from '../../../src/index.ts'

test('a response is read over HTTP with the key in a header', async () => {
  const calls: unknown[] = []
  const server = await startVendor((response, { url, headers }) => {
    calls.push([url, headers['x-goog-api-key']])
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(readFileSync('test/fixtures/gemini/function-call.sse'))
  })
  const provider = createGeminiProvider({ baseUrl: server.url, apiKey: 'key', maxRetries: 0 })
  const run = { runId: 'run', turnId: 'turn', threadId: 'thread' }
  const reducer = new ResponseReducer()
  const payloads = provider.stream({ model: 'm', input: [] }, run)
  for await (const event of stamp(payloads)) reducer.apply(event)
  await server.close()
  expect(calls).toEqual([['/v1beta/models/m:streamGenerateContent?alt=sse', 'key']])
  expect(reducer.response).toMatchObject({
    status: 'complete',
    provider_id: 'gemini',
    model_id: 'gemini-test-1',
    finish_reason: 'tool_calls',
    output_items: [{ type: 'function_call', name: 'get_weather' }],
    usage: { prompt_tokens: 20, completion_tokens: 39, total_tokens: 59, reasoning_tokens: 30 },
  })
})
