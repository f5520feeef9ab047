/** How a response ends, in the words of Gemini. */
import { isRecord } from '../../protocol/json.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import type { Usage } from '../../protocol/usage.ts'
import type { FinishReason } from '../finish-reason.ts'
import type { Fields } from './metadata.ts'

/** Why the model stopped, or why it was not let to begin. */
export interface WireFinish {
  word: string
  isBlocked: boolean
}

const FINISH_REASONS = new Map<string, FinishReason>([
  ['STOP', 'stop'],
  ['MAX_TOKENS', 'length'],
  ['SAFETY', 'content_filter'],
  ['RECITATION', 'content_filter'],
  ['BLOCKLIST', 'content_filter'],
  ['PROHIBITED_CONTENT', 'content_filter'],
  ['SPII', 'content_filter'],
  ['IMAGE_SAFETY', 'content_filter'],
  ['IMAGE_PROHIBITED_CONTENT', 'content_filter'],
  ['IMAGE_RECITATION', 'content_filter'],
])

/** The vendor says `STOP` also when it waits for the output of a call. */
export function finishReasonOf({ word, isBlocked }: WireFinish, hasCalls: boolean): FinishReason {
  if (isBlocked) return 'content_filter'
  const reason = FINISH_REASONS.get(word) ?? 'other'
  return reason === 'stop' && hasCalls ? 'tool_calls' : reason
}

/** The vendor's word for the error, which says more than the HTTP status that it calls the code. */
export function errorOf(error: unknown): ErrorObject {
  const { status, code, message } = isRecord(error) ? error : {}
  return {
    code: word(status) ?? word(code) ?? 'error',
    message: word(message) ?? word(error) ?? 'The provider reported an error without a message',
  }
}

function word(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Counts so far; not every event repeats all of them. */
export interface WireCounts {
  prompt?: number
  candidates?: number
  thoughts?: number
  cached?: number
  total?: number
}

const COUNT_FIELDS = {
  prompt: 'promptTokenCount',
  candidates: 'candidatesTokenCount',
  thoughts: 'thoughtsTokenCount',
  cached: 'cachedContentTokenCount',
  total: 'totalTokenCount',
} as const satisfies Record<keyof WireCounts, string>

export function countsOf(usage: unknown): WireCounts {
  const counts: WireCounts = {}
  if (!isRecord(usage)) return counts
  for (const name of Object.keys(COUNT_FIELDS) as (keyof WireCounts)[]) {
    const value = usage[COUNT_FIELDS[name]]
    if (typeof value === 'number' && value >= 0 && value < Infinity) counts[name] = value
  }
  return counts
}

/** The vendor does not count thoughts among what the model wrote. */
export function toUsage({
  prompt = 0,
  candidates = 0,
  thoughts,
  cached,
  total,
}: WireCounts): Usage {
  const completion = candidates + (thoughts ?? 0)
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: total ?? prompt + completion,
    ...(cached !== undefined && { cached_tokens: cached }),
    ...(thoughts !== undefined && { reasoning_tokens: thoughts }),
  }
}

/** What is said of the words of an answer as a whole: where they come from. */
export function sourcesOf(candidate: Fields): Fields {
  const { groundingMetadata, urlContextMetadata, citationMetadata } = candidate
  return {
    ...(isRecord(groundingMetadata) && { groundingMetadata }),
    ...(isRecord(urlContextMetadata) && { urlContextMetadata }),
    ...(isRecord(citationMetadata) && { citationMetadata }),
  }
}
