/** The events of the OpenAI Responses API, and how unknown JSON becomes one of them. */
import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import type { Usage } from '../../protocol/usage.ts'
import { asCount, asFields, asList, asString, asWord, type Fields, toUsage } from '../fields.ts'
import type { FinishReason } from '../translation.ts'

/** An output item as the vendor sent it. */
export interface WireItem extends Fields {
  type: string
}

/** A piece of text inside an item; `index` tells pieces of a kind apart. */
export interface PartName {
  kind: 'output_text' | 'refusal' | 'reasoning_text' | 'summary_text'
  index: number
}

/** The end of a response that did not fail. */
export interface ResponseEnd {
  kind: 'ended'
  status: 'completed' | 'incomplete'
  /** The vendor's own word for the reason. */
  word: string
  output: readonly WireItem[]
  usage: Usage | undefined
}

export interface ResponseFailure {
  kind: 'failed'
  error: ErrorObject
  usage: Usage | undefined
}

/**
 * What an event means. `itemKey` is the position of its item in the output, which is stable, while some
 * servers make up a new item id for every event.
 */
export type ResponsesEvent =
  | { kind: 'begun'; model: string | undefined }
  | ResponseEnd
  | ResponseFailure
  | { kind: 'item_added' | 'item_done'; itemKey: string; item: WireItem }
  | { kind: 'part_grown'; itemKey: string; part: PartName; text: string }
  | { kind: 'part_whole'; itemKey: string; part: PartName; text: string | undefined }
  | { kind: 'annotated'; itemKey: string; annotation: unknown }
  | { kind: 'arguments_grown' | 'input_grown'; itemKey: string; text: string }
  | { kind: 'arguments_whole'; itemKey: string; text: string | undefined; name: string | undefined }
  | { kind: 'input_whole'; itemKey: string; text: string | undefined }
  | { kind: 'ignored' }

export type DecodedEvent =
  | ResponsesEvent
  | { kind: 'unknown'; type: string }
  | { kind: 'malformed'; reason: string }

type Decode = (event: Fields) => ResponsesEvent | undefined

interface Row {
  decode: Decode
  /** The field without which the event says nothing. */
  needs?: string
}

const ignored: Row = { decode: () => ({ kind: 'ignored' }) }

// Everything known, and each type once: what is not here is new to us.
const ROWS: Record<string, Row> = {
  'response.created': {
    decode: ({ response }) => ({ kind: 'begun', model: asString(asFields(response)['model']) }),
  },
  'response.queued': ignored,
  'response.in_progress': ignored,
  'response.completed': { decode: decodeEnd },
  'response.incomplete': { decode: decodeEnd },
  'response.failed': { decode: decodeEnd },
  error: { decode: (event) => decodeError(event) },

  'response.output_item.added': { needs: 'item', decode: item('item_added') },
  'response.output_item.done': { needs: 'item', decode: item('item_done') },

  'response.content_part.added': { decode: wholePart('content_index') },
  'response.content_part.done': { decode: wholePart('content_index') },
  'response.output_text.delta': { needs: 'delta', decode: grownPart('output_text') },
  'response.output_text.done': { decode: wholeText('output_text', 'text') },
  'response.output_text.annotation.added': {
    decode: (event) => {
      const { annotation } = event
      return { kind: 'annotated', itemKey: itemKeyOf(event), annotation }
    },
  },
  'response.refusal.delta': { needs: 'delta', decode: grownPart('refusal') },
  'response.refusal.done': { decode: wholeText('refusal', 'refusal') },

  'response.reasoning_text.delta': { needs: 'delta', decode: grownPart('reasoning_text') },
  'response.reasoning_text.done': { decode: wholeText('reasoning_text', 'text') },
  'response.reasoning_summary_part.added': { decode: wholePart('summary_index') },
  'response.reasoning_summary_part.done': { decode: wholePart('summary_index') },
  'response.reasoning_summary_text.delta': { needs: 'delta', decode: grownPart('summary_text') },
  'response.reasoning_summary_text.done': { decode: wholeText('summary_text', 'text') },

  'response.function_call_arguments.delta': { needs: 'delta', decode: grown('arguments_grown') },
  'response.function_call_arguments.done': {
    decode(event) {
      const { arguments: args, name } = event
      const itemKey = itemKeyOf(event)
      return { kind: 'arguments_whole', itemKey, text: asString(args), name: asString(name) }
    },
  },
  'response.custom_tool_call_input.delta': { needs: 'delta', decode: grown('input_grown') },
  'response.custom_tool_call_input.done': {
    decode: (event) => {
      return { kind: 'input_whole', itemKey: itemKeyOf(event), text: asString(event['input']) }
    },
  },

  // Progress of tools that the vendor runs: the finished item says all of it again.
  'response.web_search_call.in_progress': ignored,
  'response.web_search_call.searching': ignored,
  'response.web_search_call.completed': ignored,
  'response.file_search_call.in_progress': ignored,
  'response.file_search_call.searching': ignored,
  'response.file_search_call.completed': ignored,
  'response.code_interpreter_call.in_progress': ignored,
  'response.code_interpreter_call.interpreting': ignored,
  'response.code_interpreter_call.completed': ignored,
  'response.code_interpreter_call_code.delta': ignored,
  'response.code_interpreter_call_code.done': ignored,
  'response.image_generation_call.in_progress': ignored,
  'response.image_generation_call.generating': ignored,
  'response.image_generation_call.partial_image': ignored,
  'response.image_generation_call.completed': ignored,
  'response.mcp_call.in_progress': ignored,
  'response.mcp_call.completed': ignored,
  'response.mcp_call.failed': ignored,
  'response.mcp_call_arguments.delta': ignored,
  'response.mcp_call_arguments.done': ignored,
  'response.mcp_list_tools.in_progress': ignored,
  'response.mcp_list_tools.completed': ignored,
  'response.mcp_list_tools.failed': ignored,
  'response.shell_call_command.added': ignored,
  'response.shell_call_command.delta': ignored,
  'response.shell_call_command.done': ignored,
  'response.shell_call_output_content.delta': ignored,
  'response.shell_call_output_content.done': ignored,

  // Sound has no place in a StreamEvent, and nothing here requests it.
  'response.audio.delta': ignored,
  'response.audio.done': ignored,
  'response.audio.transcript.delta': ignored,
  'response.audio.transcript.done': ignored,
}

/** Every type that the decoder knows, whether it means something to us or not. */
export const RESPONSES_EVENT_TYPES: readonly string[] = Object.keys(ROWS)

const rowsByType = new Map(Object.entries(ROWS))

/** Some servers end their stream as Chat Completions does. */
const DONE = '[DONE]'

export function decodeResponsesEvent(event: unknown): DecodedEvent {
  if (event === DONE) return { kind: 'ignored' }
  if (!isRecord(event)) return { kind: 'malformed', reason: 'the event is not an object' }
  const { type } = event
  // Gateways that break put an error in place of an event.
  if (typeof type !== 'string' && isRecord(event['error'])) return decodeError(event)
  if (typeof type !== 'string') return { kind: 'malformed', reason: 'type is not a string' }
  const row = rowsByType.get(type)
  if (row === undefined) return { kind: 'unknown', type }
  return row.decode(event) ?? { kind: 'malformed', reason: `${type} without a usable ${row.needs}` }
}

function itemKeyOf(event: Fields, item: Fields = event): string {
  const index = event['output_index']
  if (typeof index === 'number') return `${index}`
  const id = item === event ? event['item_id'] : (item['id'] ?? event['item_id'])
  return typeof id === 'string' ? `id ${id}` : ''
}

function item(kind: 'item_added' | 'item_done'): Decode {
  return (event) => {
    const { item } = event
    return isWireItem(item) ? { kind, itemKey: itemKeyOf(event, item), item } : undefined
  }
}

function grown(kind: 'arguments_grown' | 'input_grown'): Decode {
  return (event) => {
    const { delta } = event
    return typeof delta === 'string' ? { kind, itemKey: itemKeyOf(event), text: delta } : undefined
  }
}

function grownPart(kind: PartName['kind']): Decode {
  return (event) => {
    const { delta } = event
    if (typeof delta !== 'string') return undefined
    return { kind: 'part_grown', itemKey: itemKeyOf(event), part: partOf(event, kind), text: delta }
  }
}

function wholeText(kind: PartName['kind'], field: string): Decode {
  return (event) => {
    const text = asString(event[field])
    return { kind: 'part_whole', itemKey: itemKeyOf(event), part: partOf(event, kind), text }
  }
}

function wholePart(indexField: 'content_index' | 'summary_index'): Decode {
  return (event) => {
    const { type: kind, text, refusal } = asFields(event['part'])
    if (!isPartKind(kind)) return { kind: 'ignored' }
    const part = { kind, index: asCount(event[indexField]) ?? 0 }
    const whole = asString(text) ?? asString(refusal)
    return { kind: 'part_whole', itemKey: itemKeyOf(event), part, text: whole }
  }
}

function partOf(event: Fields, kind: PartName['kind']): PartName {
  const index = event[kind === 'summary_text' ? 'summary_index' : 'content_index']
  return { kind, index: asCount(index) ?? 0 }
}

const PART_KINDS: ReadonlySet<unknown> = new Set<PartName['kind']>([
  'output_text',
  'refusal',
  'reasoning_text',
  'summary_text',
])

function isPartKind(kind: unknown): kind is PartName['kind'] {
  return PART_KINDS.has(kind)
}

export function isWireItem(value: unknown): value is WireItem {
  return isRecord(value) && typeof value['type'] === 'string'
}

type Status = 'completed' | 'incomplete' | 'failed' | 'cancelled'

/** Reads `response.completed`, `.incomplete`, `.failed` and their other names. */
export function decodeEnd(event: Fields): ResponseEnd | ResponseFailure {
  const response = asFields(event['response'])
  const usage = usageOf(response['usage'])
  const status = statusOf(event['type'], response['status'])
  if (status === 'failed' || status === 'cancelled') {
    return { ...decodeError(response['error'] ? response : event, status), usage }
  }
  const reason = asString(asFields(response['incomplete_details'])['reason'])
  const word = (status === 'incomplete' ? reason : undefined) ?? status
  const output = asList(response['output']).filter(isWireItem)
  return { kind: 'ended', status, word, output, usage }
}

/** The response itself knows better than the name of the event, unless the event says it failed. */
function statusOf(type: unknown, status: unknown): Status {
  if (type === 'response.failed') return 'failed'
  if (status === 'incomplete' || status === 'failed' || status === 'cancelled') return status
  return type === 'response.incomplete' ? 'incomplete' : 'completed'
}

/**
 * Reads an event that is an error, flat as documented or nested as it comes over the wire. Where it has neither code
 * nor message, `status` stands for both.
 */
export function decodeError(event: Fields, status = 'error'): ResponseFailure {
  const nested = event['error']
  const fields = isRecord(nested)
    ? nested
    : { code: event['code'], message: event['message'] ?? nested }
  const { code, type, message }: Fields = fields
  const error = {
    code: asWord(code) ?? asWord(type) ?? status,
    message: asWord(message) ?? `The provider ended the response as ${status}`,
  }
  return { kind: 'failed', error, usage: undefined }
}

/** Undefined unless the two counts are there that everything else is about. */
function usageOf(value: unknown): Usage | undefined {
  const usage = asFields(value)
  const prompt = asCount(usage['input_tokens'])
  const completion = asCount(usage['output_tokens'])
  if (prompt === undefined || completion === undefined) return undefined
  const input = asFields(usage['input_tokens_details'])
  return toUsage({
    prompt,
    completion,
    total: asCount(usage['total_tokens']),
    cached: asCount(input['cached_tokens']),
    cacheWrite: asCount(input['cache_write_tokens']),
    reasoning: asCount(asFields(usage['output_tokens_details'])['reasoning_tokens']),
  })
}

/** What a response holds, which says more about its end than the status. */
export interface Outcome {
  hasUnansweredCalls: boolean
  isRefusal: boolean
}

const INCOMPLETE_REASONS = new Map<string, FinishReason>([
  ['max_output_tokens', 'length'],
  ['content_filter', 'content_filter'],
])

/** The vendor says `completed` also when it waits for the output of a call. */
export function finishReasonOf(end: ResponseEnd, outcome: Outcome): FinishReason {
  if (end.status === 'incomplete') return INCOMPLETE_REASONS.get(end.word) ?? 'other'
  if (outcome.hasUnansweredCalls) return 'tool_calls'
  return outcome.isRefusal ? 'refusal' : 'stop'
}
