import { isRecord } from '../../protocol/json.ts'
import type { Attachment } from '../../protocol/output-item.ts'
import { groupPieces, joinTexts, MAX_ATTACHMENTS, readDataUrl } from '../content-parts.ts'
import { customArguments } from '../custom-tools.ts'
import { asList, nameSet } from '../fields.ts'
import { MISSING, ParameterError } from '../openai-errors.ts'
import { type IgnoredNames, MAX_TEXT_CHARS, typeName } from '../request-in.ts'
import { ToolIndex } from '../request-tools.ts'
import type { HistoryItem } from '../submission.ts'
import type { NamedTool } from './tool-names.ts'

type Item = Record<string, unknown>

/** Ids and names in items, which another server may have created. */
const MAX_NAME_CHARS = 300
const MAX_PARTS = 1000

/** Items that only OpenAI can read. They go back to it as they came. */
export const OPAQUE = nameSet('compaction compaction_summary')

const READ = nameSet(
  'message reasoning function_call function_call_output custom_tool_call custom_tool_call_output',
)

/** Fields of items and parts. Some are only in what a server sent. */
const ITEM = nameSet(
  'type role content id status phase call_id name namespace',
  'arguments input output summary encrypted_content tools',
)
const PARTS = nameSet('input_text output_text text refusal input_image input_file')
const PART = nameSet('type text refusal image_url file_data filename annotations logprobs')

/** Finds an item of an earlier response by its id. */
export type FindItem = (id: string) => HistoryItem | undefined

/** Decodes what a Responses request says, in order. Unknown items are ignored. Throws ParameterError. */
export function decodeResponsesInput(
  input: string | readonly Item[],
  tools: readonly NamedTool[],
  findItem: FindItem,
  ignored: IgnoredNames,
): HistoryItem[] {
  if (typeof input === 'string') return [{ type: 'message', origin: 'user', content: input }]
  const reader = new InputReader(tools, findItem, ignored)
  for (const [index, item] of input.entries()) reader.add(item, `input[${index}]`)
  return reader.end()
}

class InputReader {
  readonly #tools: ToolIndex<NamedTool>
  readonly #findItem: FindItem
  readonly #items: HistoryItem[] = []
  readonly #ignored: IgnoredNames
  /** Images of outputs. The outputs of one step stay together, so they follow them. */
  #images: Attachment[] = []
  #attachments = 0

  constructor(tools: readonly NamedTool[], findItem: FindItem, ignored: IgnoredNames) {
    this.#tools = new ToolIndex(tools)
    this.#findItem = findItem
    this.#ignored = ignored
  }

  end(): HistoryItem[] {
    this.#addImages()
    return this.#items
  }

  add(item: Item, param: string): void {
    const type = item['type'] ?? 'message'
    if (READ.has(type)) this.#ignored.addUnknown(item, ITEM, 'input[]')
    if (type === 'function_call_output' || type === 'custom_tool_call_output') {
      return this.#addOutput(item, param)
    }
    this.#addImages()
    if (type === 'message') this.#addMessage(item, param)
    else if (type === 'function_call' || type === 'custom_tool_call') this.#addCall(item, param)
    else if (type === 'reasoning') this.#addReasoning(item)
    else if (type === 'item_reference') this.#addReference(item, param)
    else if (OPAQUE.has(type)) {
      this.#items.push({ type: 'reasoning', content: '', provider_metadata: { openai: item } })
    } else if (type !== 'additional_tools') this.#ignored.add(`${param} (${typeName(type)})`)
  }

  #addMessage({ role, content, phase }: Item, param: string): void {
    const pieces = this.#readParts(content, `${param}.content`)
    const type = 'message'
    switch (role) {
      case 'assistant': {
        const content = textOf(pieces)
        const openai = { type, phase }
        const metadata = typeof phase === 'string' && { provider_metadata: { openai } }
        if (content !== '') this.#items.push({ type, origin: 'agent', content, ...metadata })
        return
      }
      case 'system':
      case 'developer':
        this.#items.push({ type, origin: 'system', content: textOf(pieces) })
        return
      case 'user':
        for (const each of groupPieces(pieces.length === 0 ? [''] : pieces)) {
          this.#items.push({ type, origin: 'user', ...each })
        }
        return
      default:
        throw new ParameterError(`${param}.role`, 'must be user, assistant, system or developer')
    }
  }

  #addCall(item: Item, param: string): void {
    const call_id = text(item['call_id'], `${param}.call_id`, MAX_NAME_CHARS)
    const called = text(item['name'], `${param}.name`, MAX_NAME_CHARS)
    const isCustom = item['type'] === 'custom_tool_call'
    const args = isCustom
      ? customArguments(text(item['input'], `${param}.input`))
      : text(item['arguments'], `${param}.arguments`)
    this.#items.push({
      type: 'function_call',
      call_id,
      name: this.#flatName(called, item['namespace']),
      arguments: args,
    })
  }

  #flatName(called: string, namespace: unknown): string {
    const tool = this.#tools.exact({ name: called, namespace })
    if (tool !== undefined) return tool.flatName
    return typeof namespace === 'string' ? `${namespace}__${called}` : called
  }

  #addOutput(item: Item, param: string): void {
    const call_id = text(item['call_id'], `${param}.call_id`, MAX_NAME_CHARS)
    const pieces = this.#readParts(item['output'], `${param}.output`)
    const output = textOf(pieces)
    this.#items.push({ type: 'function_call_output', call_id, output, success: true })
    this.#images.push(...pieces.filter((piece) => typeof piece !== 'string'))
  }

  #addImages(): void {
    if (this.#images.length === 0) return
    const attachments = this.#images
    this.#images = []
    this.#items.push({ type: 'message', origin: 'user', content: '', attachments })
  }

  /** Encrypted reasoning goes back to OpenAI, without our id. Other reasoning is kept for people, unless we have it. */
  #addReasoning(item: Item): void {
    const id = bareReasoningId(item)
    const stored = id === undefined ? undefined : this.#findItem(id)
    if (stored?.type === 'reasoning') {
      this.#items.push(stored)
      return
    }
    const { summary, content, encrypted_content: encrypted } = item
    const parts = [...asList(summary), ...asList(content)].filter(isRecord)
    const texts = parts.map((part) => part['text']).filter((each) => typeof each === 'string')
    const openai = { type: 'reasoning', summary: asList(summary), encrypted_content: encrypted }
    this.#items.push({
      type: 'reasoning',
      content: texts.join('\n\n').slice(0, MAX_TEXT_CHARS),
      ...(typeof encrypted === 'string' && { provider_metadata: { openai } }),
    })
  }

  #addReference({ id }: Item, param: string): void {
    const found = typeof id === 'string' ? this.#findItem(id) : undefined
    if (found === undefined) {
      throw new ParameterError(`${param}.id`, `item ${typeName(id)} was not found`)
    }
    this.#items.push(found)
  }

  #readParts(content: unknown, param: string): Piece[] {
    if (typeof content === 'string') return [text(content, param)]
    if (!Array.isArray(content) || content.length > MAX_PARTS) {
      throw new ParameterError(param, `must be a string or up to ${MAX_PARTS} parts`)
    }
    const pieces = content.flatMap((part, index) => this.#readPart(part, `${param}[${index}]`))
    this.#attachments += pieces.filter((piece) => typeof piece !== 'string').length
    if (this.#attachments > MAX_ATTACHMENTS) {
      throw new ParameterError(param, `exceeds the limit of ${MAX_ATTACHMENTS} images and files`)
    }
    return pieces
  }

  #readPart(part: unknown, param: string): Piece[] {
    if (!isRecord(part)) throw new ParameterError(param, 'must be an object', 'invalid_type')
    const { type, detail } = part
    if (PARTS.has(type)) {
      const isAuto = type === 'input_image' && detail === 'auto'
      this.#ignored.addUnknown(isAuto ? { ...part, detail: null } : part, PART, 'input[].content[]')
    }
    switch (type) {
      case 'input_text':
      case 'output_text':
      case 'text':
        return [text(part['text'], `${param}.text`)]
      case 'refusal':
        return [text(part['refusal'], `${param}.refusal`)]
      case 'input_image':
        return [attachment(readDataUrl('image', part['image_url']), `${param}.image_url`)]
      case 'input_file': {
        const { file_data, filename } = part
        const file = attachment(readDataUrl('file', file_data), `${param}.file_data`)
        return [{ ...file, ...(typeof filename === 'string' && { filename }) }]
      }
      default:
        this.#ignored.add(`${param} (${typeName(type)})`)
        return []
    }
  }
}

type Piece = string | Attachment

function textOf(pieces: readonly Piece[]): string {
  return joinTexts(pieces.filter((piece) => typeof piece === 'string'))
}

function attachment(read: Attachment | string, param: string): Attachment {
  if (typeof read === 'string') throw new ParameterError(param, read)
  return read
}

function text(value: unknown, param: string, maxChars = MAX_TEXT_CHARS): string {
  if (value === undefined) throw new ParameterError(param, 'is missing', MISSING)
  if (typeof value !== 'string') throw new ParameterError(param, 'must be a string', 'invalid_type')
  if (value.length <= maxChars) return value
  throw new ParameterError(param, `is longer than ${maxChars} characters`)
}

/** The id of reasoning that has no encrypted content, without its prefix. */
export function bareReasoningId(item: unknown): string | undefined {
  if (!isRecord(item) || item['type'] !== 'reasoning') return undefined
  const { id, encrypted_content: encrypted } = item
  if (typeof id !== 'string' || (typeof encrypted === 'string' && encrypted !== ''))
    return undefined
  return withoutPrefix(id.slice(0, 300))
}

const ITEM_ID = /^(?:msg|fco?|rs|ctc)_(.+)$/

export function withoutPrefix(id: string): string {
  return ITEM_ID.exec(id)?.[1] ?? id
}
