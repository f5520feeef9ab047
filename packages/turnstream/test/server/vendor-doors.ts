/** The official clients of the vendors' APIs, each as a conversation that sends back what it was told. */
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'

// oxlint-disable-next-line typescript/no-explicit-any -- the messages of three APIs
type Message = any

interface Told {
  readonly turnId: string
  readonly text: string
  readonly callIds: readonly string[]
}

export interface Conversation {
  /** What the client would send. May be changed. */
  messages: Message[]
  ask(text: string): Promise<Told>
  /** Answers the calls of the last answer. */
  answerCalls(callIds: readonly string[], output: string): Promise<Told>
}

interface Options {
  readonly url: string
  readonly model: string
  readonly headers?: Record<string, string>
  readonly isStreamed?: boolean
  readonly messages?: readonly Message[]
  readonly apiKey?: string
  /** The last turn, for `previous_response_id`. */
  readonly previous?: string
}

const PARAMETERS = { type: 'object' as const, properties: { city: { type: 'string' } } }
const SYSTEM = 'Be short.'

function openai({ url, headers, apiKey = 'any' }: Options): OpenAI {
  return new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0, defaultHeaders: headers ?? {} })
}

function chat(options: Options): Conversation {
  const client = openai(options)
  const { model, isStreamed = true } = options
  const messages: Message[] = [{ role: 'system', content: SYSTEM }]
  const said: Conversation = {
    messages: options.messages ? [...options.messages] : messages,
    ask: (content) => send([{ role: 'user', content }]),
    answerCalls: (ids, content) =>
      send(ids.map((tool_call_id) => ({ role: 'tool', tool_call_id, content }))),
  }
  const tools = [
    { type: 'function' as const, function: { name: 'look_up', parameters: PARAMETERS } },
  ]
  async function send(next: Message[]): Promise<Told> {
    said.messages = [...said.messages, ...next]
    const body = { model, messages: said.messages, tools }
    const completion = isStreamed
      ? await client.chat.completions.stream(body).finalChatCompletion()
      : await client.chat.completions.create(body)
    const { message } = completion.choices[0] ?? {}
    said.messages.push(message)
    return {
      turnId: completion.id.replace('chatcmpl-', ''),
      text: message?.content ?? '',
      callIds: message?.tool_calls?.map(({ id }) => id) ?? [],
    }
  }
  return said
}

function responses(options: Options, isStateful = false): Conversation {
  const client = openai(options)
  const { model, isStreamed = true } = options
  let previous = options.previous && `resp_${options.previous}`
  const said: Conversation = {
    messages: [...(options.messages ?? [])],
    ask: (content) => send([{ role: 'user', content }]),
    answerCalls: (ids, output) =>
      send(ids.map((call_id) => ({ type: 'function_call_output', call_id, output }))),
  }
  const tools = [
    { type: 'function' as const, name: 'look_up', parameters: PARAMETERS, strict: false },
  ]
  async function send(next: Message[]): Promise<Told> {
    said.messages = [...said.messages, ...next]
    const input = isStateful ? next : said.messages
    const reference = isStateful && previous !== undefined ? { previous_response_id: previous } : {}
    const body = { model, input, tools, instructions: SYSTEM, ...reference }
    const response = isStreamed
      ? await client.responses.stream(body).finalResponse()
      : await client.responses.create(body)
    previous = response.id
    said.messages.push(...response.output)
    return {
      turnId: response.id.replace('resp_', ''),
      text: response.output_text,
      callIds: response.output.flatMap((item) =>
        item.type === 'function_call' ? [item.call_id] : [],
      ),
    }
  }
  return said
}

function messages(options: Options): Conversation {
  const { url, model, headers, isStreamed = true, apiKey = 'any' } = options
  const client = new Anthropic({
    apiKey,
    baseURL: url,
    maxRetries: 0,
    defaultHeaders: headers ?? {},
  })
  const said: Conversation = {
    messages: [...(options.messages ?? [])],
    ask: (content) => send({ role: 'user', content }),
    answerCalls: (ids, content) =>
      send({
        role: 'user',
        content: ids.map((tool_use_id) => ({ type: 'tool_result', tool_use_id, content })),
      }),
  }
  const tools = [{ name: 'look_up', input_schema: PARAMETERS }]
  async function send(next: Message): Promise<Told> {
    said.messages = [...said.messages, next]
    const body = { model, max_tokens: 1000, system: SYSTEM, messages: said.messages, tools }
    const message = isStreamed
      ? await client.messages.stream(body).finalMessage()
      : await client.messages.create(body)
    const { content } = message
    said.messages.push({ role: 'assistant', content })
    return {
      turnId: message.id.replace('msg_', ''),
      text: content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
      callIds: content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : [])),
    }
  }
  return said
}

export const DOORS = {
  'chat completions': chat,
  responses,
  'responses with previous_response_id': (options: Options) => responses(options, true),
  messages,
} satisfies Record<string, (options: Options) => Conversation>

export type DoorName = keyof typeof DOORS

export const DOOR_NAMES = Object.keys(DOORS) as DoorName[]
