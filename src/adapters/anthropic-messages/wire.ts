/** The events of an Anthropic Messages stream, as far as they mean something to us. */
import { isRecord } from '../../protocol/json.ts'
import type { ItemType } from '../../protocol/stream-event.ts'

type Fields = Record<string, unknown>

/** Counts that the vendor gave; each replaces the one before, because they are totals. */
export interface WireUsage {
  input?: number
  cacheRead?: number
  cacheWrite?: number
  output?: number
  thinking?: number
}

export type WireBlock =
  | { type: 'text'; text: string; citations: readonly Fields[] }
  | { type: 'thinking'; thinking: string; signature: string }
  | {
      type: 'call'
      id: string | undefined
      name: string
      /** JSON text; empty when the input follows in deltas, or is none. */
      input: string
      isExecutedByProvider: boolean
      /** What else the block said of itself, its type included. */
      rest: Fields
    }
  | { type: 'result'; callId: string; content: string; isError: boolean; rest: Fields }
  /** A block that we do not look into; `raw` is what the vendor wants back. */
  | { type: 'opaque'; itemType: ItemType; raw: Fields }
  | { type: 'unknown'; name: string }

export type WireDelta =
  | { type: 'text_delta' | 'thinking_delta' | 'signature_delta' | 'input_json_delta'; text: string }
  | { type: 'citations_delta'; citation: Fields }
  | { type: 'compaction_delta'; fields: Fields }
  | { type: 'unknown'; name: string }

export type WireEvent =
  | { type: 'message_start'; id: string | undefined; model: string | undefined; usage: WireUsage }
  | { type: 'content_block_start'; index: number; block: WireBlock }
  | { type: 'content_block_delta'; index: number; delta: WireDelta }
  | { type: 'content_block_stop'; index: number }
  | { type: 'message_delta'; stopReason: string | undefined; usage: WireUsage }
  | { type: 'message_stop' }
  | { type: 'ping' }
  | { type: 'error'; code: string; message: string }
  | { type: 'unknown'; name: string }

export type DecodedEvent = { ok: true; event: WireEvent } | { ok: false; reason: string }

/** Blocks without text of their own, and the kind of item that carries them. */
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

const DECODERS = new Map<string, (fields: Fields) => WireEvent | Fault>([
  ['message_start', decodeMessageStart],
  ['content_block_start', decodeBlockStart],
  ['content_block_delta', decodeBlockDelta],
  ['content_block_stop', decodeBlockStop],
  ['message_delta', decodeMessageDelta],
  ['message_stop', () => ({ type: 'message_stop' })],
  ['ping', () => ({ type: 'ping' })],
  ['error', decodeError],
])

/** Untrusted JSON to an event, or the type and the field that make it none. */
export function decodeEvent(json: unknown): DecodedEvent {
  if (!isRecord(json)) return { ok: true, event: { type: 'unknown', name: 'not an object' } }
  const type = text(json['type'])
  // A gateway that fails half-way may send its error bare.
  const decode = DECODERS.get(type ?? (json['error'] === undefined ? '' : 'error'))
  if (decode === undefined) return { ok: true, event: { type: 'unknown', name: type ?? 'no type' } }
  const event = decode(json)
  return event instanceof Fault
    ? { ok: false, reason: event.in(type ?? 'error') }
    : { ok: true, event }
}

/** The field at fault. */
class Fault {
  readonly #reason: string

  constructor(reason: string) {
    this.#reason = reason
  }

  in(type: string): string {
    return `${type}: ${this.#reason}`
  }
}

function decodeMessageStart({ message }: Fields): WireEvent {
  const { id, model, usage } = isRecord(message) ? message : {}
  return { type: 'message_start', id: text(id), model: text(model), usage: decodeUsage(usage) }
}

function decodeBlockStart({ index, content_block }: Fields): WireEvent | Fault {
  if (!isIndex(index)) return new Fault('index is not a whole number')
  if (!isRecord(content_block)) return new Fault('content_block is not an object')
  const block = decodeBlock(content_block)
  return block instanceof Fault ? block : { type: 'content_block_start', index, block }
}

function decodeBlock(fields: Fields): WireBlock | Fault {
  const type = text(fields['type'])
  if (type === undefined) return new Fault('content_block.type is not a string')
  if (type === 'text') {
    const citations = Array.isArray(fields['citations']) ? fields['citations'].filter(isRecord) : []
    return { type, text: text(fields['text']) ?? '', citations }
  }
  if (type === 'thinking') {
    const { thinking, signature } = fields
    return { type, thinking: text(thinking) ?? '', signature: text(signature) ?? '' }
  }
  if (type === 'tool_use' || type.endsWith('_tool_use')) return decodeCall(type, fields)
  if (type.endsWith('_tool_result')) return decodeResult(fields)
  const itemType = OPAQUE_BLOCKS.get(type)
  return itemType === undefined
    ? { type: 'unknown', name: `content_block ${type}` }
    : { type: 'opaque', itemType, raw: fields }
}

/** `tool_use` is a call to answer; `server_tool_use` and its like are run by the vendor. */
function decodeCall(type: string, fields: Fields): WireBlock | Fault {
  const { id, name, input, ...rest } = fields
  if (typeof name !== 'string') return new Fault('content_block.name is not a string')
  const json = isEmpty(input) ? '' : (text(input) ?? toJson(input))
  if (json === undefined) return new Fault('content_block.input is not JSON')
  const isExecutedByProvider = type !== 'tool_use'
  return { type: 'call', id: text(id), name, input: json, isExecutedByProvider, rest }
}

function decodeResult(fields: Fields): WireBlock | Fault {
  const { tool_use_id, content, ...rest } = fields
  if (typeof tool_use_id !== 'string') return new Fault('content_block.tool_use_id is not a string')
  const json = toJson(content ?? null)
  if (json === undefined) return new Fault('content_block.content is not JSON')
  const isError = rest['is_error'] === true || isErrorContent(content)
  return { type: 'result', callId: tool_use_id, content: json, isError, rest }
}

/** Each tool has its own type of error, and all of them end alike: `web_search_tool_result_error`. */
function isErrorContent(content: unknown): boolean {
  return isRecord(content) && text(content['type'])?.endsWith('_tool_result_error') === true
}

function decodeBlockDelta({ index, delta }: Fields): WireEvent | Fault {
  if (!isIndex(index)) return new Fault('index is not a whole number')
  if (!isRecord(delta)) return new Fault('delta is not an object')
  const decoded = decodeDelta(delta)
  return decoded instanceof Fault ? decoded : { type: 'content_block_delta', index, delta: decoded }
}

function decodeDelta(fields: Fields): WireDelta | Fault {
  const type = text(fields['type'])
  switch (type) {
    case 'text_delta':
    case 'thinking_delta':
    case 'signature_delta':
    case 'input_json_delta': {
      const value = fields[TEXT_DELTAS[type]]
      if (typeof value === 'string') return { type, text: value }
      return new Fault(`delta.${TEXT_DELTAS[type]} is not a string`)
    }
    case 'citations_delta': {
      const { citation } = fields
      return isRecord(citation) ? { type, citation } : new Fault('delta.citation is not an object')
    }
    case 'compaction_delta': {
      const { type: _, ...rest } = fields
      return { type, fields: rest }
    }
    case undefined:
      return new Fault('delta.type is not a string')
    default:
      return { type: 'unknown', name: `delta ${type}` }
  }
}

function decodeBlockStop({ index }: Fields): WireEvent | Fault {
  return isIndex(index)
    ? { type: 'content_block_stop', index }
    : new Fault('index is not a whole number')
}

function decodeMessageDelta({ delta, usage }: Fields): WireEvent {
  const stopReason = isRecord(delta) ? text(delta['stop_reason']) : undefined
  return { type: 'message_delta', stopReason, usage: decodeUsage(usage) }
}

function decodeError({ error }: Fields): WireEvent | Fault {
  if (typeof error === 'string') return { type: 'error', code: 'error', message: error }
  if (!isRecord(error)) return new Fault('error is not an object')
  const code = text(error['type']) || 'error'
  return { type: 'error', code, message: text(error['message']) ?? '' }
}

function decodeUsage(usage: unknown): WireUsage {
  if (!isRecord(usage)) return {}
  const details = usage['output_tokens_details']
  return {
    ...count('input', usage['input_tokens']),
    ...count('cacheRead', usage['cache_read_input_tokens']),
    ...count('cacheWrite', usage['cache_creation_input_tokens']),
    ...count('output', usage['output_tokens']),
    ...count('thinking', isRecord(details) ? details['thinking_tokens'] : undefined),
  }
}

/** A count that is none is left out. */
function count(name: keyof WireUsage, value: unknown): WireUsage {
  return isIndex(value) ? { [name]: value } : {}
}

function isIndex(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function isEmpty(input: unknown): boolean {
  if (input === undefined || input === null || input === '') return true
  return isRecord(input) && Object.keys(input).length === 0
}

/** Undefined for what no JSON can say; it did not come from the wire then. */
function toJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined // the caller says which field it was
  }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
