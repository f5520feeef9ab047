import { expect, test } from 'vitest'
import { dataOf, fixtures, stage, type VendorName } from '../openai/stage.ts'
import { send } from '../responses/support.ts'

async function startUsage(vendor: VendorName) {
  const { server } = await stage(vendor, fixtures(vendor, 'text'))
  const messages = [{ role: 'user', content: 'x'.repeat(400) }]
  const body = { model: 'vendor/m', max_tokens: 1000, messages, stream: true }
  const { text } = await send(server, 'POST /v1/messages', body)
  const start = dataOf(text).find((data) => data.includes('"message_start"'))
  return JSON.parse(start ?? '').message.usage
}

test("message_start has Anthropic's own count of the input", async () => {
  expect(await startUsage('anthropic-messages')).toEqual({
    input_tokens: 12,
    output_tokens: 0,
    cache_creation_input_tokens: 256,
    cache_read_input_tokens: 2048,
  })
})

test('message_start has an estimate if the provider counts at the end', async () => {
  expect(await startUsage('openai-chat')).toMatchObject({ input_tokens: 100 })
})
