/** The events of the OpenAI Responses API, and how unknown JSON becomes one of them. */
import { isRecord } from '../../protocol/json.ts'
import {
  decodeEnd,
  decodeError,
  type Fields,
  isWireItem,
  type ResponseEnd,
  type ResponseFailure,
  type WireItem,
} from './ending.ts'

/** A piece of text inside an item; `index` tells pieces of a kind apart. */
export interface PartName {
  kind: 'output_text' | 'refusal' | 'reasoning_text' | 'summary_text'
  index: number
}

/**
 * What an event means. `place` is the place of its item in the output, which is stable, while some
 * servers make up a new item id for every event.
 */
export type ResponsesEvent =
  | { kind: 'begun'; model: string | undefined }
  | ResponseEnd
  | ResponseFailure
  | { kind: 'item_added' | 'item_done'; place: string; item: WireItem }
  | { kind: 'part_grown'; place: string; part: PartName; text: string }
  | { kind: 'part_whole'; place: string; part: PartName; text: string | undefined }
  | { kind: 'annotated'; place: string; annotation: unknown }
  | { kind: 'arguments_grown' | 'input_grown'; place: string; text: string }
  | { kind: 'arguments_whole'; place: string; text: string | undefined; name: string | undefined }
  | { kind: 'input_whole'; place: string; text: string | undefined }
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
  'response.created': { decode: ({ response }) => ({ kind: 'begun', model: modelOf(response) }) },
  'response.queued': ignored,
  'response.in_progress': ignored,
  'response.completed': { decode: decodeEnd },
  'response.incomplete': { decode: decodeEnd },
  'response.failed': { decode: decodeEnd },
  error: { decode: decodeError },

  'response.output_item.added': { needs: 'item', decode: item('item_added') },
  'response.output_item.done': { needs: 'item', decode: item('item_done') },

  'response.content_part.added': { decode: wholePart('content_index') },
  'response.content_part.done': { decode: wholePart('content_index') },
  'response.output_text.delta': { needs: 'delta', decode: grownPart('output_text') },
  'response.output_text.done': { decode: wholeText('output_text', 'text') },
  'response.output_text.annotation.added': { decode: annotation },
  'response.refusal.delta': { needs: 'delta', decode: grownPart('refusal') },
  'response.refusal.done': { decode: wholeText('refusal', 'refusal') },

  'response.reasoning_text.delta': { needs: 'delta', decode: grownPart('reasoning_text') },
  'response.reasoning_text.done': { decode: wholeText('reasoning_text', 'text') },
  'response.reasoning_summary_part.added': { decode: wholePart('summary_index') },
  'response.reasoning_summary_part.done': { decode: wholePart('summary_index') },
  'response.reasoning_summary_text.delta': { needs: 'delta', decode: grownPart('summary_text') },
  'response.reasoning_summary_text.done': { decode: wholeText('summary_text', 'text') },

  'response.function_call_arguments.delta': { needs: 'delta', decode: grown('arguments_grown') },
  'response.function_call_arguments.done': { decode: wholeArguments },
  'response.custom_tool_call_input.delta': { needs: 'delta', decode: grown('input_grown') },
  'response.custom_tool_call_input.done': { decode: wholeInput },

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

  // Sound has no place in a StreamEvent, and nothing here asks for it.
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

function placeOf(event: Fields, item: Fields = {}): string {
  const index = event['output_index']
  if (typeof index === 'number') return `${index}`
  const id = item['id'] ?? event['item_id']
  return typeof id === 'string' ? `id ${id}` : ''
}

function item(kind: 'item_added' | 'item_done'): Decode {
  return (event) => {
    const { item } = event
    return isWireItem(item) ? { kind, place: placeOf(event, item), item } : undefined
  }
}

function grown(kind: 'arguments_grown' | 'input_grown'): Decode {
  return (event) => {
    const { delta } = event
    return typeof delta === 'string' ? { kind, place: placeOf(event), text: delta } : undefined
  }
}

function grownPart(kind: PartName['kind']): Decode {
  return (event) => {
    const { delta } = event
    if (typeof delta !== 'string') return undefined
    const part = { kind, index: indexOf(event, kind) }
    return { kind: 'part_grown', place: placeOf(event), part, text: delta }
  }
}

function wholeText(kind: PartName['kind'], field: string): Decode {
  return (event) => {
    const part = { kind, index: indexOf(event, kind) }
    return { kind: 'part_whole', place: placeOf(event), part, text: string(event[field]) }
  }
}

function wholePart(indexField: 'content_index' | 'summary_index'): Decode {
  return (event) => {
    const part = isRecord(event['part']) ? event['part'] : {}
    const kind = part['type']
    if (!isPartKind(kind)) return { kind: 'ignored' }
    const name = { kind, index: number(event[indexField]) }
    const text = string(part['text']) ?? string(part['refusal'])
    return { kind: 'part_whole', place: placeOf(event), part: name, text }
  }
}

function annotation(event: Fields): ResponsesEvent {
  return { kind: 'annotated', place: placeOf(event), annotation: event['annotation'] }
}

function wholeArguments(event: Fields): ResponsesEvent {
  const text = string(event['arguments'])
  return { kind: 'arguments_whole', place: placeOf(event), text, name: string(event['name']) }
}

function wholeInput(event: Fields): ResponsesEvent {
  return { kind: 'input_whole', place: placeOf(event), text: string(event['input']) }
}

function indexOf(event: Fields, kind: PartName['kind']): number {
  return number(event[kind === 'summary_text' ? 'summary_index' : 'content_index'])
}

function isPartKind(kind: unknown): kind is PartName['kind'] {
  return (
    kind === 'output_text' ||
    kind === 'refusal' ||
    kind === 'reasoning_text' ||
    kind === 'summary_text'
  )
}

function modelOf(response: unknown): string | undefined {
  return isRecord(response) ? string(response['model']) : undefined
}

function string(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function number(value: unknown): number {
  return typeof value === 'number' ? value : 0
}
