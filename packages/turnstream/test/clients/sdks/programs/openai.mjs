/** The official client of OpenAI. */
import OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { PROMPT, RESULT, WEATHER } from './tools.mjs'

const TOOLS = [{ type: 'function', strict: false, ...WEATHER }]
const ASK = { model: 'vendor/m', input: PROMPT, tools: TOOLS }

const clientOf = (url) => new OpenAI({ apiKey: 'any', baseURL: `${url}/v1`, maxRetries: 0 })

export async function answer({ url }) {
  return summary(await clientOf(url).responses.stream(ASK).finalResponse())
}

export async function whole({ url }) {
  return summary(await clientOf(url).responses.create(ASK))
}

export async function chat({ url }) {
  const tools = [{ type: 'function', function: WEATHER }]
  const messages = [{ role: 'user', content: PROMPT }]
  const stream = clientOf(url).chat.completions.stream({ model: 'vendor/m', messages, tools })
  const { choices } = await stream.finalChatCompletion()
  const { message, finish_reason: finish } = choices[0]
  return {
    text: message.content || message.refusal || '',
    calls: (message.tool_calls ?? []).map(({ function: call }) => called(call)),
    finish,
  }
}

/** Cuts the stream after each event, resumes it both ways, and returns every response that this gives. */
export async function resume({ url }) {
  const client = clientOf(url)
  const { id } = await client.responses.create(ASK)
  const events = await collect(await client.responses.retrieve(id, { stream: true }))
  const responses = []
  for (const after of events.keys()) {
    const suffix = { stream: true, starting_after: after }
    const rest = await collect(await client.responses.retrieve(id, suffix))
    const isSuffix = JSON.stringify(rest) === JSON.stringify(events.slice(after + 1))
    const helper = client.responses.stream({ response_id: id, starting_after: after })
    const { text, calls } = summary(await helper.finalResponse())
    responses.push(JSON.stringify({ isSuffix, text, calls }))
  }
  return { responses: [...new Set(responses)].map((json) => JSON.parse(json)) }
}

/** Creates a response in the background, and polls it to its end. */
export async function background({ url }) {
  const client = clientOf(url)
  let response = await client.responses.create({ ...ASK, background: true })
  const statuses = [response.status]
  while (['queued', 'in_progress'].includes(response.status)) {
    response = await client.responses.retrieve(response.id)
    if (statuses.at(-1) !== response.status) statuses.push(response.status)
  }
  return { statuses, ...summary(response) }
}

/** Cancels a response whose provider has not ended, twice. */
export async function cancel({ url }) {
  const client = clientOf(url)
  const stream = await client.responses.create({ ...ASK, model: 'held/m', stream: true })
  const types = []
  const statuses = []
  for await (const event of stream) {
    types.push(event.type)
    if (event.type !== 'response.created') continue
    const { id } = event.response
    statuses.push((await client.responses.cancel(id)).status)
    statuses.push((await client.responses.cancel(id)).status)
    statuses.push((await client.responses.retrieve(id)).status)
  }
  return { types, statuses }
}

/** Joins a response that another process started. */
export async function join({ url, id }) {
  return summary(await clientOf(url).responses.stream({ response_id: id }).finalResponse())
}

/** Runs the tool that the model calls, and sends its result with the whole conversation. */
export async function loop({ url }) {
  const client = clientOf(url)
  const input = [{ role: 'user', content: PROMPT }]
  let response = await client.responses.create({ ...ASK, input })
  const calls = response.output.filter(({ type }) => type === 'function_call')
  while (response.output.some(({ type }) => type === 'function_call')) {
    input.push(...response.output)
    for (const { type, call_id } of response.output) {
      if (type === 'function_call')
        input.push({ type: 'function_call_output', call_id, output: RESULT })
    }
    response = await client.responses.create({ ...ASK, input })
  }
  return { ...summary(response), calls: calls.map(called) }
}

export async function parse({ url }) {
  const format = zodTextFormat(z.object({ answer: z.number() }), 'answer')
  const { output_parsed } = await clientOf(url).responses.parse({
    ...ASK,
    model: 'held/m',
    text: { format },
  })
  return output_parsed
}

function summary({ output, status, incomplete_details: details }) {
  const messages = output.filter(({ type }) => type === 'message').flatMap(({ content }) => content)
  const reasoning = output.filter(({ type }) => type === 'reasoning')
  const parts = reasoning.flatMap(({ summary: texts = [], content = [] }) => [
    ...texts,
    ...(content ?? []),
  ])
  return {
    text: messages.map(({ text, refusal }) => text ?? refusal).join(''),
    reasoning: parts.map(({ text }) => text).join(''),
    calls: output.filter(({ type }) => type === 'function_call').map(called),
    finish: details?.reason ?? status,
  }
}

function called({ name, arguments: text }) {
  return { name, input: JSON.parse(text) }
}

async function collect(events) {
  const all = []
  for await (const event of events) all.push(event)
  return all
}
