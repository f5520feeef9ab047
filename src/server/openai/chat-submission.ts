import type { Attachment } from '../../protocol/output-item.ts'
import type { HistoryItem, Submission, TurnInput, TurnSettings } from '../../turns/turn-request.ts'
import { omitNullish, type SubmitHeaders, toSubmission } from '../routes/submit.ts'
import type { ChatBody, ChatMessage } from './chat-schemas.ts'
import { ParameterError } from './errors.ts'

/** Maps a request to a turn in a new thread, with the earlier messages as history. */
export function chatSubmission(body: ChatBody, headers: SubmitHeaders): Submission {
  const thread = parseMessages(body.messages)
  return { ...toSubmission({ model: body.model }, headers), settings: toSettings(body), ...thread }
}

/** Parameters stored with the thread; undefined if there are none. */
export function threadMetadata(body: ChatBody): Record<string, unknown> | undefined {
  const { user, safety_identifier, prompt_cache_key, store, metadata } = body
  const given = omitNullish({ user, safety_identifier, prompt_cache_key, store, metadata })
  return Object.keys(given).length === 0 ? undefined : given
}

function toSettings(body: ChatBody): TurnSettings {
  const { tool_choice: choice, stop } = body
  return omitNullish({
    tools: body.tools?.map(({ function: { name, description, parameters, strict } }) => ({
      name,
      ...omitNullish({ description, strict }),
      // A function without parameters takes none.
      parameters: parameters ?? { type: 'object', properties: {} },
    })),
    toolChoice: typeof choice === 'object' && choice ? { name: choice.function.name } : choice,
    parallelToolCalls: body.parallel_tool_calls,
    responseFormat: toResponseFormat(body.response_format),
    reasoningEffort: body.reasoning_effort,
    maxOutputTokens: body.max_completion_tokens ?? body.max_tokens,
    temperature: body.temperature,
    topP: body.top_p,
    stop: typeof stop === 'string' ? [stop] : stop,
  })
}

function toResponseFormat(format: ChatBody['response_format']): TurnSettings['responseFormat'] {
  if (format?.type !== 'json_schema') return format ?? undefined
  const { name, schema, strict } = format.json_schema
  return { type: 'json_schema', name, schema, ...omitNullish({ strict }) }
}

interface ChatThread {
  /** Everything up to the last assistant message; missing if there is none. */
  readonly history?: readonly HistoryItem[]
  /** Everything after it: the prompt and the results of the client's tools. */
  readonly input: readonly TurnInput[]
}

type Message<Role extends ChatMessage['role']> = Extract<ChatMessage, { role: Role }>

// Each becomes two records of the turn.
const MAX_ITEMS = 4096

/** Splits the messages into history and input of a turn. Throws for inconsistent messages, as OpenAI does. */
function parseMessages(messages: readonly ChatMessage[]): ChatThread {
  const reader = new ThreadReader()
  for (const [index, message] of messages.entries()) reader.add(message, `messages[${index}]`)
  return reader.thread()
}

/** A call without a result yet. */
interface OpenCall {
  readonly name: string
  readonly param: string
}

class ThreadReader {
  #history: HistoryItem[] = []
  #input: TurnInput[] = []
  readonly #open = new Map<string, OpenCall>()
  #images = 0

  add(message: ChatMessage, param: string): void {
    if (message.role === 'tool') return this.#addOutput(message, param)
    this.#refuseOpen()
    switch (message.role) {
      case 'system':
      case 'developer':
        this.#addText('system', textOf(message.content))
        return
      case 'user':
        return this.#addPrompt(message, `${param}.content`)
      case 'assistant':
        return this.#addAnswer(message, param)
    }
  }

  thread(): ChatThread {
    this.#refuseOpen()
    const history = this.#history
    const input = this.#input
    if (history.length + input.length > MAX_ITEMS) {
      throw new ParameterError('messages', `has more than ${MAX_ITEMS} messages and calls`)
    }
    return { input, ...(history.length > 0 && { history }) }
  }

  #addText(origin: 'user' | 'system', content: string): void {
    this.#input.push({ type: 'message', origin, content })
  }

  #addOutput({ tool_call_id, content, name }: Message<'tool'>, param: string): void {
    const call = this.#open.get(tool_call_id)
    if (call === undefined) {
      const why = 'does not match a preceding tool call'
      throw new ParameterError(`${param}.tool_call_id`, why)
    }
    if ((name ?? call.name) !== call.name) {
      throw new ParameterError(`${param}.name`, `differs from the name of the call, ${call.name}`)
    }
    this.#open.delete(tool_call_id)
    this.#input.push({
      type: 'function_call_output',
      call_id: tool_call_id,
      output: textOf(content),
      success: true,
    })
  }

  #addAnswer({ content, refusal, tool_calls }: Message<'assistant'>, param: string): void {
    const calls = tool_calls ?? []
    const said = typeof content === 'string' || content == null ? content : textOf(content)
    const text = said ?? refusal ?? undefined
    if (text === undefined && calls.length === 0) {
      throw new ParameterError(`${param}.content`, 'is required without tool_calls')
    }
    this.#history.push(...this.#input)
    this.#input = []
    if (text !== undefined && text !== '') {
      this.#history.push({ type: 'message', origin: 'agent', content: text })
    }
    for (const [index, call] of calls.entries()) {
      const { name, arguments: args } = call.function
      if (this.#open.has(call.id)) {
        throw new ParameterError(`${param}.tool_calls[${index}].id`, 'is used more than once')
      }
      this.#open.set(call.id, { name, param })
      this.#history.push({ type: 'function_call', call_id: call.id, name, arguments: args })
    }
  }

  /** Vendors refuse a call without a result. */
  #refuseOpen(): void {
    const [first] = this.#open
    if (first === undefined) return
    const [id, { param }] = first
    throw new ParameterError(`${param}.tool_calls`, `${id} has no result in a tool message`)
  }

  /** One item, unless text follows an image: images come after the text of their item. */
  #addPrompt({ content }: Message<'user'>, param: string): void {
    if (typeof content === 'string') return this.#addText('user', content)
    const items: { texts: string[]; images: Attachment[] }[] = []
    for (const [index, part] of content.entries()) {
      let last = items.at(-1)
      if (last === undefined || (part.type === 'text' && last.images.length > 0)) {
        last = { texts: [], images: [] }
        items.push(last)
      }
      if (part.type === 'text') last.texts.push(part.text)
      else last.images.push(this.#image(part.image_url.url, `${param}[${index}].image_url.url`))
    }
    for (const { texts, images } of items) {
      const attachments = images.length > 0 ? { attachments: images } : undefined
      const content = texts.join('\n')
      this.#input.push({ type: 'message', origin: 'user', content, ...attachments })
    }
  }

  #image(url: string, param: string): Attachment {
    this.#images += 1
    if (this.#images > MAX_IMAGES) {
      throw new ParameterError(param, `exceeds the limit of ${MAX_IMAGES} images`)
    }
    return parseDataUrl(url, param)
  }
}

type Part = { readonly text: string } | { readonly refusal: string }

/** Joins text parts as lines: providers have no common form for them. */
function textOf(content: string | readonly Part[]): string {
  if (typeof content === 'string') return content
  return content.map((part) => ('text' in part ? part.text : part.refusal)).join('\n')
}

/** Maximum images per request. */
const MAX_IMAGES = 20

// The largest size that every vendor accepts.
const MAX_IMAGE_BYTES = 5 * 1024 * 1024

const DATA_URL = /^data:([^;,]{1,100});base64,/i
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** Magic bytes of each type. `?` matches any byte. */
const SIGNATURES: Record<string, string> = {
  'image/png': '\u0089PNG',
  'image/jpeg': '\u00ff\u00d8\u00ff',
  'image/gif': 'GIF8',
  'image/webp': 'RIFF????WEBP',
}

/** Parses the image in a data URL. Other URLs are refused: the server fetches nothing. */
function parseDataUrl(url: string, param: string): Attachment {
  const [prefix, type = ''] = DATA_URL.exec(url) ?? []
  if (prefix === undefined) {
    const why = /^https?:/i.test(url)
      ? 'cannot be fetched: send a data URL such as data:image/png;base64,…'
      : 'must be an image as data:image/png;base64,…'
    throw new ParameterError(param, why)
  }
  const media_type = type.toLowerCase() === 'image/jpg' ? 'image/jpeg' : type.toLowerCase()
  const signature = SIGNATURES[media_type]
  if (signature === undefined) {
    throw new ParameterError(param, 'must be image/png, image/jpeg, image/gif or image/webp')
  }
  const data = url.slice(prefix.length)
  if (data.length % 4 !== 0 || !BASE64.test(data)) {
    throw new ParameterError(param, 'is not valid base64')
  }
  if ((data.length / 4) * 3 > MAX_IMAGE_BYTES + 2) {
    throw new ParameterError(param, `is larger than ${MAX_IMAGE_BYTES} bytes`)
  }
  if (!beginsWith(data, signature)) throw new ParameterError(param, `is not ${media_type}`)
  return { type: 'image', media_type, data }
}

function beginsWith(base64: string, signature: string): boolean {
  const start = Buffer.from(base64.slice(0, 16), 'base64').toString('latin1')
  return Array.from(signature).every((char, index) => char === '?' || char === start[index])
}
