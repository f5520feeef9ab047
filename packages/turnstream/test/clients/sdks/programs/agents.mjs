/** OpenAI's Agents SDK. */
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents'
import { PROMPT, RESULT, WEATHER } from './tools.mjs'

setTracingDisabled(true)

const runnerOf = (url) =>
  new Runner({ modelProvider: new OpenAIProvider({ apiKey: 'any', baseURL: `${url}/v1` }) })

/** Streams an answer. A tool that it calls gets a result, and the model answers again. */
export async function answer({ url }) {
  const calls = []
  const weather = tool({
    ...WEATHER,
    strict: true,
    execute: (input) => {
      calls.push({ name: WEATHER.name, input })
      return RESULT
    },
  })
  const agent = new Agent({
    name: 'a',
    instructions: 'Be brief.',
    model: 'vendor/m',
    tools: [weather],
  })
  const stream = await runnerOf(url).run(agent, PROMPT, { stream: true })
  let text = ''
  for await (const part of stream.toTextStream()) text += part
  await stream.completed
  return { text, final: stream.finalOutput, calls }
}

export { answer as loop }
