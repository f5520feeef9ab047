/** Reads single fields of untrusted JSON. */

import { isRecord } from '../protocol/json.ts'
import type { ErrorObject, Usage } from '../protocol/stream-event.ts'

export type Fields = Record<string, unknown>

/** Names in lines, separated by spaces. */
export function nameList(...lines: readonly string[]): readonly string[] {
  return lines.flatMap((line) => line.split(' '))
}

export function nameSet(...lines: readonly string[]): ReadonlySet<unknown> {
  return new Set(nameList(...lines))
}

/** The last event of a stream of OpenAI's APIs; it is not JSON. */
export const DONE = '[DONE]'

export function asFields(value: unknown): Fields {
  return isRecord(value) ? value : {}
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export function asString(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

export function asNonEmpty(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

export function asCount(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value < Infinity ? value : undefined
}

/** A code or message: text, or a number. */
export function asWord(value: unknown): string | undefined {
  return typeof value === 'number' ? String(value) : asNonEmpty(value)
}

export function isEmpty(fields: object): boolean {
  for (const _ in fields) return false
  return true
}

/** JSON text; undefined for nesting deeper than the engine can encode. */
export function toJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined // the caller knows which field it was
  }
}

/** The vendor's error. Its code is the first of these fields that is set. */
export function toError(error: unknown, ...codeFields: readonly string[]): ErrorObject {
  const fields = asFields(error)
  const field = codeFields.find((name) => asWord(fields[name]) !== undefined)
  return {
    code: (field !== undefined && asWord(fields[field])) || 'error',
    message:
      asWord(fields['message']) ??
      asWord(error) ??
      'The provider reported an error without a message',
  }
}

/** The delay before a retry that the vendor named, in whole seconds. */
export function retrySeconds(error: ErrorObject): number | undefined {
  const ms = 'retry_after_ms' in error ? error.retry_after_ms : undefined
  return typeof ms === 'number' ? Math.max(1, Math.ceil(ms / 1000)) : undefined
}

type CountName = 'prompt' | 'completion' | 'total' | 'cached' | 'cacheWrite' | 'reasoning'
export type TokenCounts = { readonly [Name in CountName]?: number | undefined }

/** The counts of an API of OpenAI, by its names of input and output. */
export function openaiCounts(usage: Fields, input: string, output: string): TokenCounts {
  const inputDetails = asFields(usage[`${input}_tokens_details`])
  return {
    prompt: asCount(usage[`${input}_tokens`]),
    completion: asCount(usage[`${output}_tokens`]),
    total: asCount(usage['total_tokens']),
    cached: asCount(inputDetails['cached_tokens']),
    cacheWrite: asCount(inputDetails['cache_write_tokens']),
    reasoning: asCount(asFields(usage[`${output}_tokens_details`])['reasoning_tokens']),
  }
}

export function toUsage(counts: TokenCounts): Usage {
  const { prompt = 0, completion = 0, total, cached, cacheWrite, reasoning } = counts
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: total ?? prompt + completion,
    ...(cached !== undefined && { cached_tokens: cached }),
    ...(cacheWrite !== undefined && { cache_write_tokens: cacheWrite }),
    ...(reasoning !== undefined && { reasoning_tokens: reasoning }),
  }
}

/** Why an event is malformed. Thrown and caught inside a format's `decode.ts`. */
export class Malformed extends Error {}

export function requireFields(value: unknown, name: string): Fields {
  if (isRecord(value)) return value
  throw new Malformed(`${name} is not an object`)
}

export function optionalFields(value: unknown, name: string): Fields | undefined {
  return value === undefined || value === null ? undefined : requireFields(value, name)
}

/** The first choice or candidate of a list. We never request more than one. */
export function firstOf(value: unknown, name: string): Fields | undefined {
  return optionalList(value, name)
    .map((each) => requireFields(each, `an element of ${name}`))
    .find(({ index }) => index === 0 || index === undefined || index === null)
}

/** `null` is an empty list. */
export function optionalList(value: unknown, name: string): readonly unknown[] {
  if (value === undefined || value === null) return []
  if (Array.isArray(value)) return value
  throw new Malformed(`${name} is not an array`)
}
