/** How a response ends, in the words of Chat Completions and of the servers that imitate it. */
import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import type { Usage } from '../../protocol/usage.ts'
import type { FinishReason } from '../finish-reason.ts'

export type Fields = Record<string, unknown>

/** What a response holds, which says more about its end than the word that the server uses. */
export interface Outcome {
  hasCalls: boolean
  isRefusal: boolean
}

const FINISH_REASONS = new Map<string, FinishReason>([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
])

/** Many servers say `stop` after calls that wait for their outputs. */
export function finishReasonOf(word: string, { hasCalls, isRefusal }: Outcome): FinishReason {
  const reason = FINISH_REASONS.get(word) ?? 'other'
  if (reason !== 'stop') return reason
  if (hasCalls) return 'tool_calls'
  return isRefusal ? 'refusal' : 'stop'
}

/** The vendor's code and message; an error without either is still an error. */
export function errorOf(error: unknown): ErrorObject {
  const { code, type, message } = isRecord(error) ? error : {}
  return {
    code: word(code) ?? word(type) ?? 'error',
    message: word(message) ?? word(error) ?? 'The provider reported an error without a message',
  }
}

function word(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Undefined unless it counts something. */
export function usageOf(usage: unknown): Usage | undefined {
  if (!isRecord(usage)) return undefined
  const prompt = count(usage['prompt_tokens'])
  const completion = count(usage['completion_tokens'])
  if (prompt === undefined && completion === undefined) return undefined
  const input = fieldsOf(usage['prompt_tokens_details'])
  const output = fieldsOf(usage['completion_tokens_details'])
  // DeepSeek has a name of its own for what it read from its cache.
  const cached = count(input['cached_tokens']) ?? count(usage['prompt_cache_hit_tokens'])
  const written = count(input['cache_write_tokens'])
  const reasoning = count(output['reasoning_tokens'])
  return {
    prompt_tokens: prompt ?? 0,
    completion_tokens: completion ?? 0,
    total_tokens: count(usage['total_tokens']) ?? (prompt ?? 0) + (completion ?? 0),
    ...(cached !== undefined && { cached_tokens: cached }),
    ...(written !== undefined && { cache_write_tokens: written }),
    ...(reasoning !== undefined && { reasoning_tokens: reasoning }),
  }
}

function fieldsOf(value: unknown): Fields {
  return isRecord(value) ? value : {}
}

function count(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value < Infinity ? value : undefined
}
