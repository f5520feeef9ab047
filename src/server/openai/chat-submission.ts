import type { HistoryItem, Submission, TurnInput, TurnSettings } from '../../turns/turn-request.ts'
import { joinTexts, MAX_ATTACHMENTS, toContents } from '../content-parts.ts'
import { omitNullish, type SubmitHeaders, toSubmission } from '../routes/submit.ts'
import type { ChatBody, ChatMessage } from './chat-schemas.ts'
import { ParameterError } from './errors.ts'

/** Maps a request to a turn in a new thread, with the earlier messages as history. */
export function chatSubmission(body: ChatBody, headers: SubmitHeaders): Submission {
  const thread = parseMessages(body.messages)
  return {
    ...toSubmission({ model: body.model }, headers),
    settings: toSettings(body),
    // A client that brings tools has its own loop: it gets exactly these.
    ...(body.tools?.length && { serverTools: false }),
    ...thread,
  }
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
  #attachments = 0

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

  #addPrompt({ content }: Message<'user'>, param: string): void {
    for (const each of toContents(content)) {
      this.#attachments += each.attachments?.length ?? 0
      this.#input.push({ type: 'message', origin: 'user', ...each })
    }
    if (this.#attachments > MAX_ATTACHMENTS) {
      throw new ParameterError(param, `exceeds the limit of ${MAX_ATTACHMENTS} images and files`)
    }
  }
}

type Part = { readonly text: string } | { readonly refusal: string }

function textOf(content: string | readonly Part[]): string {
  if (typeof content === 'string') return content
  return joinTexts(content.map((part) => ('text' in part ? part.text : part.refusal)))
}
