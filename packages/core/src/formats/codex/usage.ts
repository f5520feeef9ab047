import type { Usage } from '../../protocol/stream-event.ts'
import { asCount, asFields, type Fields, toUsage } from '../fields.ts'

/** Token counts of a turn; undefined if codex sends none. Both grammars have the same fields. */
export function usageOf(value: unknown): Usage | undefined {
  const fields = asFields(value)
  const prompt = count(fields, 'inputTokens', 'input_tokens')
  const completion = count(fields, 'outputTokens', 'output_tokens')
  if (prompt === undefined || completion === undefined) return undefined
  return toUsage({
    prompt,
    completion,
    total: count(fields, 'totalTokens', 'total_tokens'),
    cached: count(fields, 'cachedInputTokens', 'cached_input_tokens'),
    cacheWrite: count(fields, 'cacheWriteInputTokens', 'cache_write_input_tokens'),
    reasoning: count(fields, 'reasoningOutputTokens', 'reasoning_output_tokens'),
  })
}

function count(fields: Fields, name: string, legacyName: string): number | undefined {
  return asCount(fields[name]) ?? asCount(fields[legacyName])
}

const NAMES = [
  'prompt_tokens',
  'completion_tokens',
  'total_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'reasoning_tokens',
] as const

/**
 * A total without the counts that add up to it: the context window when a request exceeded it, which also replaces the
 * counts of the thread, or an estimate after a compaction.
 */
function isEstimate(usage: Usage | undefined): boolean {
  if (usage === undefined) return false
  return usage.prompt_tokens + usage.completion_tokens === 0 && usage.total_tokens > 0
}

/** codex counts per thread and repeats itself, so a sum of `last` counts is too high; the growth of `total` is not. */
export class TurnUsage {
  #threadId: string | undefined
  #total: Usage | undefined
  #before: Usage | undefined
  #responses: Usage | undefined
  #grown: Usage | undefined
  /** Growth of the thread's count before it was reset. */
  #settled: Usage | undefined

  beginTurn(threadId: string | undefined): void {
    if (threadId !== this.#threadId) this.#total = undefined
    this.#threadId = threadId
    this.#before = this.#total
    this.#responses = undefined
    this.#grown = undefined
    this.#settled = undefined
  }

  addEarlierTotal(threadId: string | undefined, total: Usage): void {
    this.#threadId = threadId
    this.#total = total
  }

  /** The counts of the thread so far, and of its last response. */
  addThreadTotal(total: Usage, last: Usage | undefined): void {
    this.#total = total
    if (isEstimate(total) || isEstimate(last)) {
      this.#settled = sum(this.#settled, this.#grown)
      this.#grown = undefined
      this.#before = total
      return
    }
    // The thread began before we listened: earlier counts are not part of this turn.
    if (last !== undefined && last.total_tokens > 0) this.#before ??= combine(total, last, -1)
    this.#grown = this.#before === undefined ? total : combine(total, this.#before, -1)
  }

  addResponse(usage: Usage): void {
    this.#responses = sum(this.#responses, usage)
  }

  /** Each method can miss a response, but none counts one twice. */
  get usage(): Usage | undefined {
    const [grown, responses] = [sum(this.#settled, this.#grown), this.#responses]
    if (grown === undefined || responses === undefined) return grown ?? responses
    return responses.total_tokens >= grown.total_tokens ? responses : grown
  }
}

function sum(a: Usage | undefined, b: Usage | undefined): Usage | undefined {
  return a === undefined || b === undefined ? (a ?? b) : combine(a, b, 1)
}

function combine(a: Usage, b: Usage, sign: 1 | -1): Usage {
  const result: Usage = { ...a }
  for (const name of NAMES) {
    if (a[name] === undefined && b[name] === undefined) continue
    result[name] = Math.max(0, (a[name] ?? 0) + sign * (b[name] ?? 0))
  }
  return result
}
