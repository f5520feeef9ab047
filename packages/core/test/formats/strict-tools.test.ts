import { expect, test } from 'vitest'
import { buildOpenaiChatRequest } from '../../src/formats/chat-completions/request-out.ts'
import { buildGeminiRequest } from '../../src/formats/gemini/request-out.ts'
import { buildAnthropicMessagesRequest } from '../../src/formats/messages/request-out.ts'
import { buildOpenaiResponsesRequest } from '../../src/formats/responses/request-out.ts'

const tool = { name: 'f', parameters: {} }
const request = (strict?: boolean) => ({
  model: 'm',
  input: [],
  tools: [{ ...tool, ...(strict !== undefined && { strict }) }],
})

test.each([true, false])('strict: %s is sent to vendors that support it', (strict) => {
  const asked = request(strict)
  expect(buildOpenaiChatRequest(asked, {}).body).toMatchObject({
    tools: [{ function: { strict } }],
  })
  expect(buildOpenaiResponsesRequest(asked).body).toMatchObject({ tools: [{ strict }] })
  expect(buildAnthropicMessagesRequest(asked).body).toMatchObject({ tools: [{ strict }] })
})

test('a tool without strict sends it only where the default differs', () => {
  const texts = [
    JSON.stringify(buildOpenaiChatRequest(request(), {}).body),
    JSON.stringify(buildAnthropicMessagesRequest(request()).body),
  ]
  for (const text of texts) expect(text).not.toContain('strict')
  expect(buildOpenaiResponsesRequest(request()).body).toMatchObject({ tools: [{ strict: false }] })
})

test('Gemini refuses a strict tool and accepts others', () => {
  expect(() => buildGeminiRequest(request(true))).toThrow(
    'tools: Gemini does not support strict schemas',
  )
  expect(buildGeminiRequest(request(false)).body).toHaveProperty('tools')
})
