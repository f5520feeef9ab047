/** Decodes the events of an Anthropic Messages stream. */
import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject, ItemType } from '../../protocol/stream-event.ts'
import {
  asFields,
  asList,
  asString,
  type Fields,
  isEmpty,
  Malformed,
  requireFields,
  toJson,
} from '../fields.ts'

export const NAMESPACE = 'anthropic'

/** Token counts from the vendor. They are totals, so each replaces the previous one. */
export type WireUsage = Partial<
  Record<'input' | 'cacheRead' | 'cacheWrite' | 'output' | 'thinking', number>
>

export type WireBlock =
  | { type: 'text'; text: string; citations: readonly Fields[] }
  | { type: 'thinking'; thinking: string; signature: string }
  | {
      type: 'call'
      id: string | undefined
      name: string
      /** JSON text; empty when the input follows in deltas or is missing. */
      input: string
      isExecutedByProvider: boolean
      /** The other fields of the block, including its type. */
      rest: Fields
    }
  | { type: 'result'; callId: string; content: string; isError: boolean; rest: Fields }
  /** An opaque block; `raw` goes back to the vendor. */
  | { type: 'opaque'; itemType: ItemType; raw: Fields }
  | { type: 'unknown'; name: string }

export type WireDelta =
  | { type: 'text_delta' | 'thinking_delta' | 'signature_delta' | 'input_json_delta'; text: string }
  | { type: 'citations_delta'; citation: Fields }
  | { type: 'compaction_delta'; fields: Fields }
  | { type: 'unknown'; name: string }

/** Blocks without text, and the item type that carries each. */
const OPAQUE_BLOCKS = new Map<string, ItemType>([
  ['redacted_thinking', 'reasoning'],
  ['compaction', 'reasoning'],
  ['fallback', 'reasoning'],
  ['mcp_tool_listing', 'reasoning'],
  ['container_upload', 'message'],
])

const TEXT_DELTAS = {
  text_delta: 'text',
  thinking_delta: 'thinking',
  signature_delta: 'signature',
  input_json_delta: 'partial_json',
} as const

export function decodeBlock({ content_block }: Fields): WireBlock {
  const fields = requireFields(content_block, 'content_block')
  const type = stringOf(fields['type'], 'content_block.type')
  if (type === 'text') {
    const citations = asList(fields['citations']).filter(isRecord)
    return { type, text: asString(fields['text']) ?? '', citations }
  }
  if (type === 'thinking') {
    const { thinking, signature } = fields
    return { type, thinking: asString(thinking) ?? '', signature: asString(signature) ?? '' }
  }
  if (type === 'tool_use' || type.endsWith('_tool_use')) return decodeCall(type, fields)
  if (type.endsWith('_tool_result')) return decodeResult(fields)
  const itemType = OPAQUE_BLOCKS.get(type)
  return itemType === undefined
    ? { type: 'unknown', name: `content_block ${type}` }
    : { type: 'opaque', itemType, raw: fields }
}

/** `tool_use` calls are run by the client; `server_tool_use` and similar by the vendor. */
function decodeCall(type: string, fields: Fields): WireBlock {
  const { id, name, input, ...rest } = fields
  const isNone = input === undefined || input === null || (isRecord(input) && isEmpty(input))
  return {
    type: 'call',
    id: asString(id),
    name: stringOf(name, 'content_block.name'),
    input: isNone ? '' : (asString(input) ?? jsonOf(input, 'content_block.input')),
    isExecutedByProvider: type !== 'tool_use',
    rest,
  }
}

function decodeResult(fields: Fields): WireBlock {
  const { tool_use_id, content, ...rest } = fields
  return {
    type: 'result',
    callId: stringOf(tool_use_id, 'content_block.tool_use_id'),
    content: jsonOf(content ?? null, 'content_block.content'),
    // Each tool has its own error type with the same suffix: `web_search_tool_result_error`.
    isError:
      rest['is_error'] === true ||
      asString(asFields(content)['type'])?.endsWith('_tool_result_error') === true,
    rest,
  }
}

export function decodeDelta({ delta }: Fields): WireDelta {
  const fields = requireFields(delta, 'delta')
  const { type } = fields
  switch (type) {
    case 'text_delta':
    case 'thinking_delta':
    case 'signature_delta':
    case 'input_json_delta': {
      const field = TEXT_DELTAS[type]
      return { type, text: stringOf(fields[field], `delta.${field}`) }
    }
    case 'citations_delta':
      return { type, citation: requireFields(fields['citation'], 'delta.citation') }
    case 'compaction_delta': {
      const { type: _, ...rest } = fields
      return { type, fields: rest }
    }
    default:
      return { type: 'unknown', name: `delta ${stringOf(type, 'delta.type')}` }
  }
}

export function decodeError({ error }: Fields): ErrorObject {
  if (typeof error === 'string') return { code: 'error', message: error }
  const { type, message } = requireFields(error, 'error')
  return { code: asString(type) || 'error', message: asString(message) ?? '' }
}

export function decodeUsage(value: unknown): WireUsage {
  const usage = asFields(value)
  return {
    ...count('input', usage['input_tokens']),
    ...count('cacheRead', usage['cache_read_input_tokens']),
    ...count('cacheWrite', usage['cache_creation_input_tokens']),
    ...count('output', usage['output_tokens']),
    ...count('thinking', asFields(usage['output_tokens_details'])['thinking_tokens']),
  }
}

function count(name: keyof WireUsage, value: unknown): WireUsage {
  return isIndex(value) ? { [name]: value } : {}
}

function isIndex(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

export function blockIndex({ index }: Fields): number {
  if (isIndex(index)) return index
  throw new Malformed('index is not an integer')
}

function stringOf(value: unknown, name: string): string {
  if (typeof value === 'string') return value
  throw new Malformed(`${name} is not a string`)
}

function jsonOf(value: unknown, name: string): string {
  const json = toJson(value)
  if (json !== undefined) return json
  throw new Malformed(`${name} is not JSON`)
}
