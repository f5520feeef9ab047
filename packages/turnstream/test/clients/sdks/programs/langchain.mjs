/** LangChain with OpenAI's Responses API. */
import { HumanMessage, ToolMessage } from '@langchain/core/messages'
import { ChatOpenAI } from '@langchain/openai'
import { PROMPT, RESULT, WEATHER } from './tools.mjs'

const modelOf = (url) =>
  new ChatOpenAI({
    model: 'vendor/m',
    apiKey: 'any',
    maxRetries: 0,
    useResponsesApi: true,
    configuration: { baseURL: `${url}/v1` },
  }).bindTools([{ type: 'function', function: WEATHER }])

export async function answer({ url }) {
  let message
  for await (const chunk of await modelOf(url).stream(PROMPT)) {
    message = message === undefined ? chunk : message.concat(chunk)
  }
  return summary(message)
}

export async function loop({ url }) {
  const model = modelOf(url)
  const said = [new HumanMessage(PROMPT)]
  let message = await model.invoke(said)
  const { calls } = summary(message)
  while (message.tool_calls.length > 0) {
    said.push(message)
    for (const { id } of message.tool_calls) {
      said.push(new ToolMessage({ tool_call_id: id, content: RESULT }))
    }
    message = await model.invoke(said)
  }
  return { ...summary(message), calls }
}

function summary(message) {
  return {
    text: message.text || (message.additional_kwargs.refusal ?? ''),
    calls: (message.tool_calls ?? []).map(({ name, args }) => ({ name, input: args })),
  }
}
