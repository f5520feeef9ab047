/** The official client of Anthropic. */
import Anthropic from '@anthropic-ai/sdk'
import { PROMPT, RESULT, WEATHER } from './tools.mjs'

const { parameters: input_schema, ...named } = WEATHER
const messages = [{ role: 'user', content: PROMPT }]
const ASK = { model: 'vendor/m', max_tokens: 1000, messages, tools: [{ ...named, input_schema }] }

const clientOf = (url) => new Anthropic({ apiKey: 'any', baseURL: url, maxRetries: 0 })

export async function answer({ url }) {
  return summary(await clientOf(url).messages.stream(ASK).finalMessage())
}

export async function whole({ url }) {
  return summary(await clientOf(url).messages.create(ASK))
}

/** Runs the tools that the model calls, and sends back everything as it came. */
export async function loop({ url }) {
  const client = clientOf(url)
  const said = [...messages]
  let message = await client.messages.create(ASK)
  const { calls } = summary(message)
  while (message.stop_reason === 'tool_use') {
    const uses = message.content.filter(({ type }) => type === 'tool_use')
    const results = uses.map(({ id }) => ({
      type: 'tool_result',
      tool_use_id: id,
      content: RESULT,
    }))
    const { role, content } = message
    said.push({ role, content }, { role: 'user', content: results })
    message = await client.messages.create({ ...ASK, messages: said })
  }
  return { ...summary(message), calls }
}

/** Runs the tools in a message thread, which sends only what is new. */
export async function runner({ url, stream }) {
  const tool = {
    ...named,
    type: 'custom',
    input_schema,
    run: () => RESULT,
    parse: (input) => input,
  }
  const ask = { ...ASK, tools: [tool], stream }
  return summary(await clientOf(url).beta.messages.toolRunner(ask).runUntilDone())
}

/** Sends prompts one after another in a message thread. */
export async function thread({ url, stream, prompts, more }) {
  const { messages: _messages, ...ask } = ASK
  const talk = clientOf(url).beta.messages.thread({ ...ask, ...more })
  let last
  for (const content of prompts) {
    const message = { role: 'user', content }
    last = await (stream ? talk.stream(message).finalMessage() : talk.send(message))
  }
  return summary(last)
}

function summary({ content, stop_reason: finish }) {
  const textsOf = (name) => content.filter(({ type }) => type === name).map((block) => block[name])
  const uses = content.filter(({ type }) => type === 'tool_use')
  return {
    text: textsOf('text').join(''),
    reasoning: textsOf('thinking').join(''),
    calls: uses.map(({ name, input }) => ({ name, input })),
    finish,
  }
}
