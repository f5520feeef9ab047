import { isRecord } from '../../protocol/json.ts'
import type { Attachment } from '../../protocol/output-item.ts'
import { groupPieces, joinTexts, MAX_ATTACHMENTS, readDataUrl } from '../content-parts.ts'
import { nameSet } from '../fields.ts'
import { RequestInvalidError } from '../request-errors.ts'
import { type IgnoredNames, MAX_TEXT_CHARS, typeName } from '../request-in.ts'
import type { HistoryItem } from '../submission.ts'
import type { MessagesBody } from './schemas.ts'

type Message = MessagesBody['messages'][number]
type Block = Exclude<Message['content'], string>[number]

/** Decodes what a request says, in order. Throws RequestInvalidError. */
export function decodeMessages(
  { system, messages }: Pick<MessagesBody, 'system' | 'messages'>,
  ignored: IgnoredNames,
): HistoryItem[] {
  const reader = new MessageReader(ignored)
  for (const block of systemBlocks(system, ignored)) reader.addSystem(block)
  for (const [index, message] of messages.entries()) reader.add(message, `messages.${index}`)
  return reader.items
}

/** Claude Code's first block. It changes with every version, and would spoil the prompt caches of providers. */
const BILLING = /^x-anthropic-billing-header:/i

const TEXT = nameSet('type text citations cache_control')

function systemBlocks(system: MessagesBody['system'], ignored: IgnoredNames): string[] {
  if (system == null) return []
  if (typeof system === 'string') return [system]
  for (const block of system) ignored.addUnknown(block, TEXT, 'system[]')
  const texts = system.map((block) => block['text']).filter((text) => typeof text === 'string')
  return texts.filter((text) => !BILLING.test(text))
}

const MESSAGE = nameSet('role content')

const BLOCKS = new Map([
  ['text', TEXT],
  ['image', nameSet('type source cache_control')],
  ['document', nameSet('type source title cache_control')],
  ['search_result', nameSet('type source title content cache_control')],
  ['thinking', nameSet('type thinking signature')],
  ['tool_use', nameSet('type id name input cache_control')],
  ['tool_result', nameSet('type tool_use_id content is_error cache_control')],
])

class MessageReader {
  readonly items: HistoryItem[] = []
  readonly #ignored: IgnoredNames
  #attachments = 0

  constructor(ignored: IgnoredNames) {
    this.#ignored = ignored
  }

  addSystem(content: string): void {
    if (content !== '') this.items.push({ type: 'message', origin: 'system', content })
  }

  add(message: Message, path: string): void {
    const { role, content } = message
    this.#ignored.addUnknown(message, MESSAGE, 'messages[]')
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    for (const block of blocks) {
      const known = BLOCKS.get(block.type)
      if (known !== undefined) this.#ignored.addUnknown(block, known, 'messages[].content[]')
    }
    const places = blocks.map((block, index) => ({ block, path: `${path}.content.${index}` }))
    if (role === 'assistant') for (const each of places) this.#addAnswer(each.block, each.path)
    else if (role === 'system') {
      this.addSystem(joinTexts(places.map(({ block, path: at }) => textOf(block, at))))
    } else this.#addPrompt(places)
  }

  /** Results first: providers accept them only directly after their calls. */
  #addPrompt(places: readonly { block: Block; path: string }[]): void {
    let pieces: (string | Attachment)[] = []
    for (const { block, path } of places) {
      if (block.type === 'tool_result') pieces.push(...this.#addResult(block, path))
    }
    for (const { block, path } of places) {
      if (block.type === 'tool_result') continue
      const document = plainText(block)
      if (document !== undefined) {
        this.#addPieces(pieces)
        this.#addPieces([document])
        pieces = []
      } else if (block.type === 'text') pieces.push(textOf(block, path))
      else pieces.push(...this.#read(block, path))
    }
    this.#addPieces(pieces)
  }

  #addPieces(pieces: readonly (string | Attachment)[]): void {
    this.#attachments += pieces.filter((piece) => typeof piece !== 'string').length
    if (this.#attachments > MAX_ATTACHMENTS) {
      throw invalid('messages', `exceeds the limit of ${MAX_ATTACHMENTS} images and files`)
    }
    for (const content of groupPieces(pieces)) {
      this.items.push({ type: 'message', origin: 'user', ...content })
    }
  }

  #addResult(block: Block, path: string): Attachment[] {
    const { tool_use_id, content, is_error } = block
    const call_id = text(tool_use_id, `${path}.tool_use_id`, 300)
    const parts = Array.isArray(content) ? content.filter(isBlock) : []
    const texts: string[] = []
    const images: Attachment[] = []
    for (const part of parts) {
      const words = part.type === 'text' ? textOf(part, path) : (plainText(part) ?? toolText(part))
      if (words === undefined) images.push(...this.#read(part, path))
      else texts.push(words)
    }
    const output = typeof content === 'string' ? content : joinTexts(texts)
    const success = is_error !== true
    this.items.push({ type: 'function_call_output', call_id, output, success })
    return images
  }

  #read(block: Block, path: string): Attachment[] {
    const { type, source, title } = block
    if ((type !== 'image' && type !== 'document') || !isRecord(source)) {
      this.#ignored.add(`${path} (${typeName(type)})`)
      return []
    }
    const { media_type, data } = source
    if (source['type'] !== 'base64') {
      throw invalid(`${path}.source`, 'cannot be fetched: send it as base64')
    }
    const url = `data:${String(media_type)};base64,${String(data)}`
    const read = readDataUrl(type === 'image' ? type : 'file', url)
    if (typeof read === 'string') throw invalid(`${path}.source`, read)
    return [
      { ...read, ...(type === 'document' && typeof title === 'string' && { filename: title }) },
    ]
  }

  #addAnswer(block: Block, path: string): void {
    switch (block.type) {
      case 'text': {
        const content = textOf(block, path)
        if (content !== '') this.items.push({ type: 'message', origin: 'agent', content })
        return
      }
      case 'thinking':
        return this.#addThinking(block, path)
      case 'redacted_thinking':
        return this.#addReasoning('', { block })
      case 'tool_use': {
        const { id, name, input } = block
        this.items.push({
          type: 'function_call',
          call_id: text(id, `${path}.id`, 300),
          name: text(name, `${path}.name`, 300),
          arguments: JSON.stringify(isRecord(input) ? input : {}),
        })
        return
      }
      default:
        this.#ignored.add(`${path} (${typeName(block.type)})`)
    }
  }

  /** Only Anthropic reads its signature. Thinking of other vendors came without one. */
  #addThinking({ thinking, signature }: Block, path: string): void {
    if (typeof signature !== 'string' || signature === '') return
    this.#addReasoning(text(thinking, `${path}.thinking`), { signature })
  }

  #addReasoning(content: string, anthropic: Record<string, unknown>): void {
    this.items.push({ type: 'reasoning', content, provider_metadata: { anthropic } })
  }
}

function plainText({ type, source, title, content }: Block): string | undefined {
  if (type === 'search_result')
    return joinTexts([title, source].filter(isText).concat(textsOf(content)))
  if (type !== 'document' || !isRecord(source)) return undefined
  if (source['type'] === 'text' && isText(source['data'])) return source['data']
  return source['type'] === 'content' ? joinTexts(textsOf(source['content'])) : undefined
}

/** What a search for tools has found. The request has all of them. */
function toolText({ type, tool_name: name }: Block): string | undefined {
  return type === 'tool_reference' && isText(name) ? `The tool ${name} is available.` : undefined
}

function textsOf(content: unknown): string[] {
  if (isText(content)) return [content]
  return (Array.isArray(content) ? content : [])
    .filter(isBlock)
    .map(({ text: each }) => each)
    .filter(isText)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isBlock(value: unknown): value is Block {
  return isRecord(value) && typeof value['type'] === 'string'
}

function textOf(block: Block, path: string): string {
  return text(block['text'], `${path}.text`)
}

export function text(value: unknown, path: string, maxChars = MAX_TEXT_CHARS): string {
  if (typeof value !== 'string') throw invalid(path, 'must be a string')
  if (value.length > maxChars) throw invalid(path, `is longer than ${maxChars} characters`)
  return value
}

function invalid(path: string, message: string): RequestInvalidError {
  return new RequestInvalidError([{ path: path.slice(0, 200), message }])
}
