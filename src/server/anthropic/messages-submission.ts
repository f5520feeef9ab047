import { isRecord } from '../../protocol/json.ts'
import type { Attachment } from '../../protocol/output-item.ts'
import type { HistoryItem, Submission, TurnSettings } from '../../turns/turn-request.ts'
import { joinTexts, MAX_ATTACHMENTS, MAX_TEXT_CHARS, toFile, toImage } from '../content-parts.ts'
import { RequestInvalidError } from '../errors.ts'
import { splitItems } from '../openai/responses-input.ts'
import { omitNullish, type SubmitHeaders, toSubmission } from '../routes/submit.ts'
import type { MessagesBody } from './messages-schemas.ts'

export interface MessagesTurn {
  readonly submission: Submission
  /** What was ignored, for a header. */
  readonly ignored: readonly string[]
}

type Message = MessagesBody['messages'][number]
type Block = Exclude<Message['content'], string>[number]

/** What `POST /v1/messages/count_tokens` has of a request. */
export type Countable = Pick<MessagesBody, 'model' | 'messages' | 'system' | 'tools'> &
  Partial<Omit<MessagesBody, 'model' | 'messages' | 'system' | 'tools'>>

/** Maps a request to a turn in a new thread. Throws RequestInvalidError. */
export function messagesSubmission(body: Countable, headers: SubmitHeaders): MessagesTurn {
  const reader = new MessageReader()
  for (const block of systemBlocks(body.system)) reader.addSystem(block)
  for (const [index, message] of body.messages.entries()) {
    reader.add(message, `messages.${index}`)
  }
  const { items, ignored } = reader.end()
  const { settings, dropped } = toSettings(body)
  return {
    submission: {
      ...toSubmission({ model: body.model }, headers),
      ...splitItems(items),
      settings,
      // A client that brings tools has its own loop: it gets exactly these.
      ...(settings.tools !== undefined && { serverTools: false }),
      parameters: { model: body.model },
    },
    ignored: [...dropped, ...ignored, ...unknownFields(body)],
  }
}

/** Claude Code's first block. It changes with every version, and would spoil the prompt caches of providers. */
const BILLING = /^x-anthropic-billing-header:/i

function systemBlocks(system: MessagesBody['system']): string[] {
  if (system == null) return []
  if (typeof system === 'string') return [system]
  const texts = system.map((block) => block['text']).filter((text) => typeof text === 'string')
  return texts.filter((text) => !BILLING.test(text))
}

class MessageReader {
  readonly #items: HistoryItem[] = []
  readonly #ignored: string[] = []
  #attachments = 0

  end(): { items: HistoryItem[]; ignored: string[] } {
    return { items: this.#items, ignored: this.#ignored }
  }

  addSystem(content: string): void {
    if (content !== '') this.#items.push({ type: 'message', origin: 'system', content })
  }

  add({ role, content }: Message, path: string): void {
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    const places = blocks.map((block, index) => ({ block, path: `${path}.content.${index}` }))
    if (role === 'assistant') for (const each of places) this.#addAnswer(each.block, each.path)
    else if (role === 'system') {
      this.addSystem(joinTexts(places.map(({ block, path: at }) => textOf(block, at))))
    } else this.#addPrompt(places)
  }

  /** Results first: providers accept them only directly after their calls. */
  #addPrompt(places: readonly { block: Block; path: string }[]): void {
    const images: Attachment[] = []
    for (const { block, path } of places) {
      if (block.type === 'tool_result') images.push(...this.#addResult(block, path))
    }
    const texts: string[] = []
    for (const { block, path } of places) {
      if (block.type === 'text') texts.push(textOf(block, path))
      else if (block.type !== 'tool_result') images.push(...this.#read(block, path))
    }
    if (texts.length === 0 && images.length === 0) return
    this.#attachments += images.length
    if (this.#attachments > MAX_ATTACHMENTS) {
      throw invalid('messages', `exceeds the limit of ${MAX_ATTACHMENTS} images and files`)
    }
    const attachments = images.length > 0 ? { attachments: images } : {}
    this.#items.push({ type: 'message', origin: 'user', content: joinTexts(texts), ...attachments })
  }

  #addResult(block: Block, path: string): Attachment[] {
    const { tool_use_id, content, is_error } = block
    const call_id = text(tool_use_id, `${path}.tool_use_id`, 300)
    const parts = Array.isArray(content) ? content.filter(isBlock) : []
    const texts = parts.filter(({ type }) => type === 'text').map((part) => textOf(part, path))
    const output = typeof content === 'string' ? content : joinTexts(texts)
    const success = is_error !== true
    this.#items.push({ type: 'function_call_output', call_id, output, success })
    return parts.filter(({ type }) => type !== 'text').flatMap((part) => this.#read(part, path))
  }

  /** An image or a document. */
  #read(block: Block, path: string): Attachment[] {
    const { type, source, title } = block
    if ((type !== 'image' && type !== 'document') || !isRecord(source)) {
      this.#ignored.push(`${path} (${type.slice(0, 64)})`)
      return []
    }
    const { media_type, data } = source
    if (type === 'document' && source['type'] === 'text' && typeof data === 'string') {
      this.#items.push({ type: 'message', origin: 'user', content: data })
      return []
    }
    if (source['type'] !== 'base64') {
      throw invalid(`${path}.source`, 'cannot be fetched: send it as base64')
    }
    const url = `data:${String(media_type)};base64,${String(data)}`
    const read = type === 'image' ? toImage(url) : toFile(url)
    if (typeof read === 'string') throw invalid(`${path}.source`, read)
    return [
      { ...read, ...(type === 'document' && typeof title === 'string' && { filename: title }) },
    ]
  }

  #addAnswer(block: Block, path: string): void {
    switch (block.type) {
      case 'text': {
        const content = textOf(block, path)
        if (content !== '') this.#items.push({ type: 'message', origin: 'agent', content })
        return
      }
      case 'thinking':
        return this.#addThinking(block, path)
      case 'redacted_thinking':
        this.#items.push({
          type: 'reasoning',
          content: '',
          provider_metadata: { anthropic: { block } },
        })
        return
      case 'tool_use': {
        const { id, name, input } = block
        this.#items.push({
          type: 'function_call',
          call_id: text(id, `${path}.id`, 300),
          name: text(name, `${path}.name`, 300),
          arguments: JSON.stringify(isRecord(input) ? input : {}),
        })
        return
      }
      default:
        this.#ignored.push(`${path} (${block.type.slice(0, 64)})`)
    }
  }

  /** Only Anthropic reads its signature. Thinking of other vendors came without one. */
  #addThinking({ thinking, signature }: Block, path: string): void {
    if (typeof signature !== 'string' || signature === '') return
    this.#items.push({
      type: 'reasoning',
      content: text(thinking, `${path}.thinking`),
      provider_metadata: { anthropic: { signature } },
    })
  }
}

function isBlock(value: unknown): value is Block {
  return isRecord(value) && typeof value['type'] === 'string'
}

function textOf(block: Block, path: string): string {
  return text(block['text'], `${path}.text`)
}

function text(value: unknown, path: string, maxChars = MAX_TEXT_CHARS): string {
  if (typeof value !== 'string') throw invalid(path, 'must be a string')
  if (value.length > maxChars) throw invalid(path, `is longer than ${maxChars} characters`)
  return value
}

function invalid(path: string, message: string): RequestInvalidError {
  return new RequestInvalidError([{ path: path.slice(0, 200), message }])
}

const MAX_SCHEMA_CHARS = 200_000

type Tool = NonNullable<MessagesBody['tools']>[number]

/** A tool of the client. Tools that Anthropic runs have another type. */
function isClients({ type, name }: Tool): boolean {
  return (type == null || type === 'custom') && name !== undefined && name !== ''
}

function toDefinition({ name = '', description, input_schema: schema }: Tool) {
  if (schema !== undefined && JSON.stringify(schema).length > MAX_SCHEMA_CHARS) {
    throw invalid('tools', `the schema of ${name} is too large`)
  }
  return {
    name,
    ...(typeof description === 'string' && { description: description.slice(0, 20_000) }),
    parameters: isRecord(schema) ? schema : { type: 'object', properties: {} },
  }
}

function toSettings(body: Countable): { settings: TurnSettings; dropped: string[] } {
  const all = body.tools ?? []
  const tools = all.filter(isClients).map(toDefinition)
  const dropped = all.flatMap((tool, index) =>
    isClients(tool) ? [] : [`tools[${index}] (${String(tool.type).slice(0, 64)})`],
  )
  const { tool_choice: choice, temperature } = body
  const reasoningEffort = toEffort(body)
  const isThinking = reasoningEffort !== undefined && reasoningEffort !== 'none'
  // The API itself requires 1 with thinking.
  if (isThinking && temperature != null && temperature !== 1) dropped.push('temperature')
  const settings = omitNullish({
    tools: tools.length > 0 ? tools : undefined,
    toolChoice: tools.length > 0 ? toToolChoice(choice) : undefined,
    parallelToolCalls:
      tools.length > 0 && choice?.['disable_parallel_tool_use'] === true ? false : undefined,
    responseFormat: toResponseFormat(body.output_config?.['format']),
    reasoningEffort,
    maxOutputTokens: body.max_tokens,
    temperature: isThinking ? undefined : temperature,
    topP: isThinking ? undefined : body.top_p,
    stop: body.stop_sequences?.length ? body.stop_sequences : undefined,
  })
  return { settings, dropped }
}

function toResponseFormat(format: unknown): TurnSettings['responseFormat'] | undefined {
  if (!isRecord(format) || format['type'] !== 'json_schema') return undefined
  const { type, schema } = format
  if (!isRecord(schema) || JSON.stringify(schema).length > MAX_SCHEMA_CHARS) {
    const message = `must be an object of up to ${MAX_SCHEMA_CHARS} characters`
    throw invalid('output_config.format.schema', message)
  }
  return { type, name: 'output', schema }
}

function toToolChoice(choice: MessagesBody['tool_choice']): TurnSettings['toolChoice'] | undefined {
  switch (choice?.type) {
    case 'any':
      return 'required'
    case 'none':
    case 'auto':
      return choice.type
    case 'tool':
      return choice.name === undefined ? undefined : { name: choice.name }
    default:
      return undefined
  }
}

type Effort = NonNullable<TurnSettings['reasoningEffort']>

const EFFORTS: Record<string, Effort> = {
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

/** Budgets in tokens up to which an effort is meant. Every provider takes an effort, and few a budget. */
const BUDGETS: readonly (readonly [tokens: number, effort: Effort])[] = [
  [1024, 'minimal'],
  [4096, 'low'],
  [12_000, 'medium'],
  [Infinity, 'high'],
]

/** Tokens that an effort may take from the answer. */
const NEEDED: Record<Effort, number> = {
  none: 0,
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16_384,
}

/** Undefined unless the request wants thinking. An effort that leaves no room for the answer is lowered. */
function toEffort({
  thinking,
  output_config,
  max_tokens = Infinity,
}: Countable): Effort | undefined {
  if (thinking?.type !== 'enabled' && thinking?.type !== 'adaptive') return undefined
  const budget = thinking['budget_tokens']
  const byBudget =
    typeof budget === 'number' ? BUDGETS.find(([tokens]) => budget <= tokens)?.[1] : undefined
  const wanted = EFFORTS[output_config?.effort ?? ''] ?? byBudget ?? 'medium'
  const efforts: readonly Effort[] = ['high', 'medium', 'low', 'minimal']
  return efforts.slice(efforts.indexOf(wanted)).find((effort) => NEEDED[effort] < max_tokens)
}

const HONOURED: ReadonlySet<string> = new Set([
  'max_tokens',
  'messages',
  'metadata',
  'model',
  'output_config',
  'stop_sequences',
  'stream',
  'system',
  'temperature',
  'thinking',
  'tool_choice',
  'tools',
  'top_p',
])

function unknownFields(body: Countable): string[] {
  return Object.entries(body)
    .filter(([name, value]) => !HONOURED.has(name) && value !== null && value !== undefined)
    .map(([name]) => name)
}
