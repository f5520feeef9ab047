/** How a response ends, in the words of the Responses API and of the servers that imitate it. */
import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import type { Usage } from '../../protocol/usage.ts'
import type { FinishReason } from '../finish-reason.ts'

export type Fields = Record<string, unknown>

/** An output item as the vendor sent it. */
export interface WireItem extends Fields {
  type: string
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

/** What a response came to, by what the response holds; a `response_done` it is only when complete. */
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

/** Reads `response.completed`, `.incomplete`, `.failed` and their other names. */
export function decodeEnd(event: Fields): ResponseEnd | ResponseFailure {
  const response = isRecord(event['response']) ? event['response'] : {}
  const usage = usageOf(response['usage'])
  const status = statusOf(event['type'], response['status'])
  switch (status) {
    case 'failed':
    case 'cancelled':
      return { ...decodeError(response['error'] ? response : event, status), usage }
    case 'incomplete': {
      const word = incompleteReason(response['incomplete_details']) ?? status
      return { kind: 'ended', status, word, output: itemsOf(response['output']), usage }
    }
    case 'completed':
      return { kind: 'ended', status, word: status, output: itemsOf(response['output']), usage }
  }
}

/** Reads an event that is an error, flat as documented or nested as it comes over the wire. */
export function decodeError(event: Fields, status = 'error'): ResponseFailure {
  const { error, code, message } = event
  const fields = isRecord(error) ? error : { code, message: message ?? error }
  return { kind: 'failed', error: errorOf(fields, status), usage: undefined }
}

export function isWireItem(value: unknown): value is WireItem {
  return isRecord(value) && typeof value['type'] === 'string'
}

function itemsOf(output: unknown): readonly WireItem[] {
  return Array.isArray(output) ? output.filter(isWireItem) : []
}

type Status = 'completed' | 'incomplete' | 'failed' | 'cancelled'

/** The response itself knows better than the name of the event, unless the event says it failed. */
function statusOf(type: unknown, status: unknown): Status {
  if (type === 'response.failed') return 'failed'
  if (status === 'incomplete' || status === 'failed' || status === 'cancelled') return status
  return type === 'response.incomplete' ? 'incomplete' : 'completed'
}

function incompleteReason(details: unknown): string | undefined {
  const reason = isRecord(details) ? details['reason'] : undefined
  return typeof reason === 'string' ? reason : undefined
}

/** The vendor's code and message; where it gives none, `status` is the only word it said. */
function errorOf({ code, type, message }: Fields, status: string): ErrorObject {
  return {
    code: word(code) ?? word(type) ?? status,
    message: word(message) ?? `The provider ended the response as ${status}`,
  }
}

function word(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Undefined unless the two counts are there that everything else is about. */
function usageOf(usage: unknown): Usage | undefined {
  if (!isRecord(usage)) return undefined
  const prompt = count(usage['input_tokens'])
  const completion = count(usage['output_tokens'])
  if (prompt === undefined || completion === undefined) return undefined
  const input = isRecord(usage['input_tokens_details']) ? usage['input_tokens_details'] : {}
  const output = isRecord(usage['output_tokens_details']) ? usage['output_tokens_details'] : {}
  const cached = count(input['cached_tokens'])
  const written = count(input['cache_write_tokens'])
  const reasoning = count(output['reasoning_tokens'])
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: count(usage['total_tokens']) ?? prompt + completion,
    ...(cached !== undefined && { cached_tokens: cached }),
    ...(written !== undefined && { cache_write_tokens: written }),
    ...(reasoning !== undefined && { reasoning_tokens: reasoning }),
  }
}

function count(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value < Infinity ? value : undefined
}
