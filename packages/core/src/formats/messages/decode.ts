/** Decodes the events of an Anthropic Messages stream. */
import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject, ItemType } from '../../protocol/stream-event.ts'
import {
  asCount,
  asFields,
  asList,
  asString,
  type Fields,
  isEmpty,
  Malformed,
  requireFields,
  toJson,
} from '../fields.ts'
import { omitNullish } from '../request-in.ts'

export const NAMESPACE = 'anthropic'

/** Token counts from the vendor. They are totals, so each replaces the previous one. */
export type WireUsage = ReturnType<typeof decodeUsage>

export type WireBlock = ReturnType<typeof decodeBlock>

export type WireDelta = ReturnType<typeof decodeDelta>

/** Blocks without text, which go back to the vendor, and the item type that carries each. */
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

export function decodeBlock({ content_block }: Fields) {
  const fields = requireFields(content_block, 'content_block')
  const type = stringOf(fields['type'], 'content_block.type')
  if (type === 'text') {
    const citations = asList(fields['citations']).filter(isRecord)
    return { type: 'text' as const, text: asString(fields['text']) ?? '', citations }
  }
  if (type === 'thinking') {
    const thinking = asString(fields['thinking']) ?? ''
    const signature = asString(fields['signature']) ?? ''
    return { type: 'thinking' as const, thinking, signature }
  }
  if (type === 'tool_use' || type.endsWith('_tool_use')) return decodeCall(type, fields)
  if (type.endsWith('_tool_result')) return decodeResult(fields)
  const itemType = OPAQUE_BLOCKS.get(type)
  return itemType === undefined
    ? { type: 'unknown' as const, name: `content_block ${type}` }
    : { type: 'opaque' as const, itemType, raw: fields }
}

/** `tool_use` calls are run by the client; `server_tool_use` and similar by the vendor. */
function decodeCall(type: string, fields: Fields) {
  const { id, name, input, ...rest } = fields
  const isNone = input === undefined || input === null || (isRecord(input) && isEmpty(input))
  return {
    type: 'call' as const,
    id: asString(id),
    name: stringOf(name, 'content_block.name'),
    /** JSON text; empty when the input follows in deltas or is missing. */
    input: isNone ? '' : (asString(input) ?? jsonOf(input, 'content_block.input')),
    isExecutedByProvider: type !== 'tool_use',
    /** The other fields of the block, including its type. */
    rest,
  }
}

function decodeResult(fields: Fields) {
  const { tool_use_id, content, ...rest } = fields
  return {
    type: 'result' as const,
    callId: stringOf(tool_use_id, 'content_block.tool_use_id'),
    content: jsonOf(content ?? null, 'content_block.content'),
    // Each tool has its own error type with the same suffix: `web_search_tool_result_error`.
    isError:
      rest['is_error'] === true ||
      asString(asFields(content)['type'])?.endsWith('_tool_result_error') === true,
    rest,
  }
}

export function decodeDelta({ delta }: Fields) {
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
      return { type: 'unknown' as const, name: `delta ${stringOf(type, 'delta.type')}` }
  }
}

export function decodeError({ error }: Fields): ErrorObject {
  if (typeof error === 'string') return { code: 'error', message: error }
  const { type, message } = requireFields(error, 'error')
  return { code: asString(type) || 'error', message: asString(message) ?? '' }
}

export function decodeUsage(value: unknown) {
  const usage = asFields(value)
  return omitNullish({
    input: asIndex(usage['input_tokens']),
    cacheRead: asIndex(usage['cache_read_input_tokens']),
    cacheWrite: asIndex(usage['cache_creation_input_tokens']),
    output: asIndex(usage['output_tokens']),
    thinking: asIndex(asFields(usage['output_tokens_details'])['thinking_tokens']),
  })
}

function asIndex(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? asCount(value) : undefined
}

export function blockIndex({ index }: Fields): number {
  const found = asIndex(index)
  if (found !== undefined) return found
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
