import { joinTexts, MAX_ATTACHMENTS, toContents } from '../content-parts.ts'
import { customArguments } from '../custom-tools.ts'
import { nameSet } from '../fields.ts'
import { ParameterError } from '../openai-errors.ts'
import type { IgnoredNames } from '../request-in.ts'
import type { HistoryItem, TurnInput } from '../submission.ts'
import type { ChatMessage } from './schemas.ts'

interface ChatThread {
  readonly hasNames: boolean
  /** Everything up to the last assistant message; missing if there is none. */
  readonly history?: readonly HistoryItem[]
  /** Everything after it: the prompt and the results of the client's tools. */
  readonly input: readonly TurnInput[]
}

type Message<Role extends ChatMessage['role']> = Extract<ChatMessage, { role: Role }>

// Each becomes two records of the turn.
const MAX_ITEMS = 4096

/** Decodes what a request says, as history and input of a turn. Throws ParameterError for inconsistent messages, as OpenAI does. */
export function decodeMessages(
  messages: readonly ChatMessage[],
  ignored: IgnoredNames,
): ChatThread {
  const reader = new ThreadReader()
  for (const [index, message] of messages.entries()) {
    reader.add(message, index)
    ignoreFields(message, ignored)
  }
  return reader.thread()
}

const CALL = nameSet('id type function custom')
const PROMPT = nameSet('role content name')

/** What servers add to their answers is not named: clients send it back as it came. */
const MESSAGE: Record<ChatMessage['role'], ReadonlySet<unknown>> = {
  system: PROMPT,
  developer: PROMPT,
  user: PROMPT,
  assistant: nameSet(
    'role content name refusal tool_calls function_call audio annotations parsed',
    'reasoning reasoning_content reasoning_details',
  ),
  tool: nameSet('role content name tool_call_id'),
  function: PROMPT,
}

const PART = nameSet('type text refusal image_url file')
const IMAGE = nameSet('url detail')
const FILE = nameSet('file_data filename')

function ignoreFields(message: ChatMessage, ignored: IgnoredNames): void {
  const place = 'messages[]'
  ignored.addUnknown(message, MESSAGE[message.role], place)
  if ('tool_calls' in message && Array.isArray(message.tool_calls)) {
    for (const call of message.tool_calls) ignored.addUnknown(call, CALL, `${place}.tool_calls[]`)
  }
  if (!Array.isArray(message.content)) return
  for (const part of message.content) {
    const at = `${place}.content[]`
    ignored.addUnknown(part, PART, at)
    if (part.type === 'image_url') {
      ignored.addUnknown(part.image_url, IMAGE, `${at}.image_url`)
      const { detail } = part.image_url
      if (detail != null && detail !== 'auto') ignored.add(`${at}.image_url.detail`)
    } else if (part.type === 'file') ignored.addUnknown(part.file, FILE, `${at}.file`)
  }
}

interface OpenCall {
  readonly name: string
  readonly param: string
  /** Whether it is a `function_call`, which has no id. */
  readonly isLegacy: boolean
}

class ThreadReader {
  #history: HistoryItem[] = []
  #input: TurnInput[] = []
  readonly #open = new Map<string, OpenCall>()
  #attachments = 0
  #hasNames = false

  add(message: ChatMessage, index: number): void {
    const param = `messages[${index}]`
    if (message.role === 'tool') return this.#addOutput(message, param)
    if (message.role === 'function') return this.#addResult(message, param)
    this.#refuseOpen()
    if (message.name != null) this.#hasNames = true
    switch (message.role) {
      case 'system':
      case 'developer': {
        const content = textOf(message.content)
        this.#input.push({ type: 'message', origin: 'system', content, ...nameOf(message) })
        return
      }
      case 'user':
        return this.#addPrompt(message, `${param}.content`)
      case 'assistant':
        return this.#addAnswer(message, index)
    }
  }

  thread(): ChatThread {
    this.#refuseOpen()
    const history = this.#history
    const input = this.#input
    if (history.length + input.length > MAX_ITEMS) {
      throw new ParameterError('messages', `has more than ${MAX_ITEMS} messages and calls`)
    }
    const hasNames = this.#hasNames
    return { hasNames, input, ...(history.length > 0 && { history }) }
  }

  #addOutput({ tool_call_id, content, name }: Message<'tool'>, param: string): void {
    const call = this.#open.get(tool_call_id)
    if (call === undefined) {
      throw new ParameterError(`${param}.tool_call_id`, 'does not match a preceding tool call')
    }
    if ((name ?? call.name) !== call.name) {
      throw new ParameterError(`${param}.name`, `differs from the name of the call, ${call.name}`)
    }
    this.#answer(tool_call_id, textOf(content))
  }

  /** The result of the `function_call` before it. */
  #addResult({ name, content }: Message<'function'>, param: string): void {
    const call = [...this.#open].find(([, each]) => each.isLegacy && each.name === name)
    if (call === undefined) {
      throw new ParameterError(`${param}.name`, 'does not match a preceding function_call')
    }
    this.#answer(call[0], content ?? '')
  }

  #answer(call_id: string, output: string): void {
    this.#open.delete(call_id)
    this.#input.push({ type: 'function_call_output', call_id, output, success: true })
  }

  #addAnswer(message: Message<'assistant'>, index: number): void {
    const { content, refusal, tool_calls, function_call } = message
    const param = `messages[${index}]`
    const calls = [
      ...(tool_calls ?? []).map((call) => ({ ...calledOf(call), id: call.id, isLegacy: false })),
      ...(function_call ? [{ ...function_call, id: `call_${index}`, isLegacy: true }] : []),
    ]
    const spoken = typeof content === 'string' || content == null ? content : textOf(content)
    const text = spoken ?? refusal ?? undefined
    if (text === undefined && calls.length === 0) {
      throw new ParameterError(`${param}.content`, 'is required without tool_calls')
    }
    this.#history.push(...this.#input)
    this.#input = []
    if (text !== undefined && text !== '') {
      this.#history.push({ type: 'message', origin: 'agent', content: text, ...nameOf(message) })
    }
    for (const [at, { id, name, arguments: args, isLegacy }] of calls.entries()) {
      if (this.#open.has(id)) {
        throw new ParameterError(`${param}.tool_calls[${at}].id`, 'is used more than once')
      }
      this.#open.set(id, { name, param, isLegacy })
      this.#history.push({ type: 'function_call', call_id: id, name, arguments: args })
    }
  }

  /** Vendors refuse a call without a result. */
  #refuseOpen(): void {
    const [first] = this.#open
    if (first === undefined) return
    const [id, { name, param, isLegacy }] = first
    throw isLegacy
      ? new ParameterError(`${param}.function_call`, `${name} has no result in a function message`)
      : new ParameterError(`${param}.tool_calls`, `${id} has no result in a tool message`)
  }

  #addPrompt(message: Message<'user'>, param: string): void {
    for (const each of toContents(message.content)) {
      this.#attachments += each.attachments?.length ?? 0
      this.#input.push({ type: 'message', origin: 'user', ...each, ...nameOf(message) })
    }
    if (this.#attachments > MAX_ATTACHMENTS) {
      throw new ParameterError(param, `exceeds the limit of ${MAX_ATTACHMENTS} images and files`)
    }
  }
}

type EarlierCall = NonNullable<Message<'assistant'>['tool_calls']>[number]

function calledOf(call: EarlierCall): { name: string; arguments: string } {
  if (call.type === 'function') return call.function
  return { name: call.custom.name, arguments: customArguments(call.custom.input) }
}

function nameOf({ name }: { readonly name?: string | null | undefined }): { name?: string } {
  return name == null ? {} : { name }
}

type Part = { readonly text: string } | { readonly refusal: string }

function textOf(content: string | readonly Part[]): string {
  if (typeof content === 'string') return content
  return joinTexts(content.map((part) => ('text' in part ? part.text : part.refusal)))
}
