import type { HistoryItem, TurnInput } from '../../turns/turn-request.ts'
import type { ChatMessage } from '../schemas/chat-messages.ts'
import { attachmentOf, MAX_IMAGES } from './images.ts'
import { ParameterError } from './parameter-error.ts'

export interface ChatThread {
  /** Everything up to the last word of the assistant. */
  readonly history: readonly HistoryItem[]
  /** What came after it: the prompt, and what the client's tools answered. */
  readonly input: readonly TurnInput[]
}

type Message<Role extends ChatMessage['role']> = Extract<ChatMessage, { role: Role }>

// Each becomes two records of the turn.
const MAX_ITEMS = 4096

/** The messages of a request as a turn takes them. Throws for what makes no thread, as OpenAI does. */
export function threadOf(messages: readonly ChatMessage[]): ChatThread {
  const reader = new ThreadReader()
  for (const [index, message] of messages.entries()) reader.add(message, `messages[${index}]`)
  return reader.thread()
}

/** A call that waits for its answer. */
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
        this.#input.push({
          type: 'message',
          origin: 'system',
          content: textOf(message.content),
        })
        return
      case 'user':
        this.#input.push(...this.#userItems(message, `${param}.content`))
        return
      case 'assistant':
        return this.#addAnswer(message, param)
    }
  }

  thread(): ChatThread {
    this.#refuseOpen()
    const history = this.#history
    const input = this.#input
    if (history.length + input.length > MAX_ITEMS) {
      throw new ParameterError('messages', `more than ${MAX_ITEMS} messages and calls`)
    }
    return { history, input }
  }

  #addOutput({ tool_call_id, content, name }: Message<'tool'>, param: string): void {
    const call = this.#open.get(tool_call_id)
    if (call === undefined) {
      const why = 'answers no call of the assistant before it'
      throw new ParameterError(`${param}.tool_call_id`, why)
    }
    if ((name ?? call.name) !== call.name) {
      throw new ParameterError(`${param}.name`, `is not that of the call, ${call.name}`)
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
      throw new ParameterError(`${param}.content`, 'is needed where there are no tool_calls')
    }
    this.#history.push(...this.#input)
    this.#input = []
    if (text !== undefined && text !== '') {
      this.#history.push({ type: 'message', origin: 'agent', content: text })
    }
    for (const [index, call] of calls.entries()) {
      const { name, arguments: args } = call.function
      if (this.#open.has(call.id)) {
        throw new ParameterError(`${param}.tool_calls[${index}].id`, 'was used before')
      }
      this.#open.set(call.id, { name, param })
      this.#history.push({ type: 'function_call', call_id: call.id, name, arguments: args })
    }
  }

  /** A vendor would refuse the thread, or be told of an answer that nobody gave. */
  #refuseOpen(): void {
    const [first] = this.#open
    if (first === undefined) return
    const [id, { param }] = first
    throw new ParameterError(`${param}.tool_calls`, `${id} has no answer in a tool message`)
  }

  /** One message, unless a text follows a picture: pictures come after the text of their message. */
  #userItems({ content }: Message<'user'>, param: string): TurnInput[] {
    if (typeof content === 'string') return [{ type: 'message', origin: 'user', content }]
    const items: { texts: string[]; images: ReturnType<typeof attachmentOf>[] }[] = []
    for (const [index, part] of content.entries()) {
      let last = items.at(-1)
      if (last === undefined || (part.type === 'text' && last.images.length > 0)) {
        last = { texts: [], images: [] }
        items.push(last)
      }
      if (part.type === 'text') last.texts.push(part.text)
      else last.images.push(this.#image(part.image_url.url, `${param}[${index}].image_url.url`))
    }
    return items.map(({ texts, images }) => ({
      type: 'message',
      origin: 'user',
      content: texts.join('\n'),
      ...(images.length > 0 && { attachments: images }),
    }))
  }

  #image(url: string, param: string): ReturnType<typeof attachmentOf> {
    this.#images += 1
    if (this.#images > MAX_IMAGES) {
      throw new ParameterError(param, `is one too many: ${MAX_IMAGES} pictures are taken`)
    }
    return attachmentOf(url, param)
  }
}

type Part = { readonly text: string } | { readonly refusal: string }

/** Parts of a text are lines of it: there is nothing else that all providers could be told. */
function textOf(content: string | readonly Part[]): string {
  if (typeof content === 'string') return content
  return content.map((part) => ('text' in part ? part.text : part.refusal)).join('\n')
}
