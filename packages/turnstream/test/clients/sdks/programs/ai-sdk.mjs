/** The AI SDK, with its providers for OpenAI (Responses is its default) and Anthropic. */
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import { PROMPT, RESULT, WEATHER } from './tools.mjs'

const modelOf = ({ url, api }) => {
  const options = { apiKey: 'any', baseURL: `${url}/v1` }
  return api === 'messages'
    ? createAnthropic(options)('vendor/m')
    : createOpenAI(options)('vendor/m')
}

const toolsOf = (more) => ({
  get_weather: tool({
    description: WEATHER.description,
    inputSchema: jsonSchema(WEATHER.parameters),
    ...more,
  }),
})

export async function answer(options) {
  const failures = []
  const stream = streamText({
    model: modelOf(options),
    prompt: PROMPT,
    tools: toolsOf({}),
    maxRetries: 0,
    onError: ({ error }) => void failures.push(error),
    providerOptions: { openai: { reasoningSummary: 'auto', forceReasoning: true } },
  })
  await stream.consumeStream()
  if (failures.length > 0) throw failures[0]
  const [text, reasoning, calls, finish] = await Promise.all([
    stream.text,
    stream.reasoningText,
    stream.toolCalls,
    stream.finishReason,
  ])
  return { text, reasoning: reasoning ?? '', calls: calls.map(called), finish }
}

export async function loop(options) {
  const tools = toolsOf({ execute: () => RESULT })
  const ask = { model: modelOf(options), prompt: PROMPT, tools, maxRetries: 0 }
  const { steps, text } = await generateText({ ...ask, stopWhen: stepCountIs(3) })
  return { text, calls: steps[0].toolCalls.map(called) }
}

function called({ toolName: name, input }) {
  return { name, input }
}
