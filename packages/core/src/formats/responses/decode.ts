/** Decodes the events of the OpenAI Responses API. */

import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject, Usage } from '../../protocol/stream-event.ts'
import {
  asCount,
  asFields,
  asList,
  asString,
  asWord,
  type Fields,
  Malformed,
  openaiCounts,
  toUsage,
} from '../fields.ts'
import type { FinishReason } from '../translation.ts'

export interface WireItem extends Fields {
  type: string
}

const PART_KINDS = ['output_text', 'refusal', 'reasoning_text', 'summary_text'] as const
export type PartKind = (typeof PART_KINDS)[number]

/** Text of an item's part, complete or a fragment; `index` distinguishes parts of a kind. */
export type TextPiece = NonNullable<ReturnType<typeof readText>>

export type ResponseEnd = Extract<ReturnType<typeof decodeEnd>, { kind: 'ended' }>

export type ResponseFailure = ReturnType<typeof decodeError>

/** Text kind and field of each event type. A `part` names its kind itself. */
export const TEXT_EVENTS = new Map<string, [kind: PartKind | undefined, field: string]>([
  ['response.content_part.added', [undefined, 'part']],
  ['response.content_part.done', [undefined, 'part']],
  ['response.output_text.delta', ['output_text', 'delta']],
  ['response.output_text.done', ['output_text', 'text']],
  ['response.refusal.delta', ['refusal', 'delta']],
  ['response.refusal.done', ['refusal', 'refusal']],
  ['response.reasoning_text.delta', ['reasoning_text', 'delta']],
  ['response.reasoning_text.done', ['reasoning_text', 'text']],
  ['response.reasoning_summary_part.added', [undefined, 'part']],
  ['response.reasoning_summary_part.done', [undefined, 'part']],
  ['response.reasoning_summary_text.delta', ['summary_text', 'delta']],
  ['response.reasoning_summary_text.done', ['summary_text', 'text']],
])

/** All other types; the last rows change nothing. Types not listed are unknown. */
const OTHER_EVENTS = {
  '': ['created', 'queued', 'in_progress', 'completed', 'incomplete', 'failed'],
  output_item: ['added', 'done'],
  'output_text.annotation': ['added'],
  function_call_arguments: ['delta', 'done'],
  custom_tool_call_input: ['delta', 'done'],
  // Progress of vendor-run tools: the finished item repeats it.
  web_search_call: ['in_progress', 'searching', 'completed'],
  file_search_call: ['in_progress', 'searching', 'completed'],
  code_interpreter_call: ['in_progress', 'interpreting', 'completed'],
  code_interpreter_call_code: ['delta', 'done'],
  image_generation_call: ['in_progress', 'generating', 'partial_image', 'completed'],
  mcp_call: ['in_progress', 'completed', 'failed'],
  mcp_call_arguments: ['delta', 'done'],
  mcp_list_tools: ['in_progress', 'completed', 'failed'],
  shell_call_command: ['added', 'delta', 'done'],
  shell_call_output_content: ['delta', 'done'],
  // Audio is not supported and never requested.
  audio: ['delta', 'done'],
  'audio.transcript': ['delta', 'done'],
}

export const RESPONSES_EVENT_TYPES: ReadonlySet<string> = new Set([
  'error',
  ...TEXT_EVENTS.keys(),
  ...Object.entries(OTHER_EVENTS).flatMap(([name, stages]) =>
    stages.map((stage) => (name === '' ? `response.${stage}` : `response.${name}.${stage}`)),
  ),
])

/** The text of an event; undefined for other events. */
export function readText(type: string, event: Fields) {
  const row = TEXT_EVENTS.get(type)
  if (row === undefined) return undefined
  const [kind, field] = row
  if (kind === undefined) return readPart(asFields(event['part']), event)
  const index = event[kind === 'summary_text' ? 'summary_index' : 'content_index']
  const isWhole = field !== 'delta'
  const text = isWhole ? (asString(event[field]) ?? '') : readDelta(type, event)
  return { kind, index: typeof index === 'number' ? index : 0, text, isWhole }
}

function readPart({ type, text, refusal }: Fields, event: Fields) {
  const kind = PART_KINDS.find((each) => each === type)
  if (kind === undefined) return undefined
  const index = asCount(event['summary_index']) ?? asCount(event['content_index']) ?? 0
  return { kind, index, text: asString(text) ?? asString(refusal) ?? '', isWhole: true }
}

export function readDelta(type: string, { delta }: Fields): string {
  if (typeof delta === 'string') return delta
  throw new Malformed(`${type} without a usable delta`)
}

/** The item's position in the output, which is stable: some servers change the id with every event. */
export function itemKeyOf(event: Fields, item?: WireItem): string {
  const index = event['output_index']
  if (typeof index === 'number') return `${index}`
  const id = item?.['id'] ?? event['item_id']
  return typeof id === 'string' ? `id ${id}` : ''
}

export function isWireItem(value: unknown): value is WireItem {
  return isRecord(value) && typeof value['type'] === 'string'
}

type Status = 'completed' | 'incomplete' | 'failed' | 'cancelled'

/** Decodes `response.completed`, `.incomplete`, `.failed` and their aliases. */
export function decodeEnd(event: Fields) {
  const response = asFields(event['response'])
  const usage = usageOf(response['usage'])
  const status = statusOf(event['type'], response['status'])
  if (status === 'failed' || status === 'cancelled') {
    return decodeError(response['error'] ? response : event, status, usage)
  }
  const reason = asString(asFields(response['incomplete_details'])['reason'])
  const word = (status === 'incomplete' ? reason : undefined) ?? status
  const output = asList(response['output']).filter(isWireItem)
  return { kind: 'ended' as const, status, word, output, usage }
}

/** The response's status takes precedence over the event name, unless the event reports a failure. */
function statusOf(type: unknown, status: unknown): Status {
  if (type === 'response.failed') return 'failed'
  if (status === 'incomplete' || status === 'failed' || status === 'cancelled') return status
  return type === 'response.incomplete' ? 'incomplete' : 'completed'
}

/** Decodes an error event, flat as documented or nested as sent. `status` replaces a missing code and message. */
export function decodeError(event: Fields, status = 'error', usage?: Usage) {
  const nested = event['error']
  const fields = isRecord(nested)
    ? nested
    : { code: event['code'], message: event['message'] ?? nested }
  const { code, type, message }: Fields = fields
  const error: ErrorObject = {
    code: asWord(code) ?? asWord(type) ?? status,
    message: asWord(message) ?? `The provider ended the response as ${status}`,
  }
  return { kind: 'failed' as const, error, usage }
}

/** Undefined without input and output counts. */
function usageOf(value: unknown): Usage | undefined {
  const counts = openaiCounts(asFields(value), 'input', 'output')
  if (counts.prompt === undefined || counts.completion === undefined) return undefined
  return toUsage(counts)
}

const INCOMPLETE_REASONS = new Map<string, FinishReason>([
  ['max_output_tokens', 'length'],
  ['content_filter', 'content_filter'],
])

/** Derives the finish reason from the content: the vendor also sends `completed` while a call waits. */
export function finishReasonOf(
  end: ResponseEnd,
  hasUnansweredCalls: boolean,
  isRefusal: boolean,
): FinishReason {
  if (end.status === 'incomplete') return INCOMPLETE_REASONS.get(end.word) ?? 'other'
  if (hasUnansweredCalls) return 'tool_calls'
  return isRefusal ? 'refusal' : 'stop'
}
