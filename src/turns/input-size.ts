import { estimateTokensOfLength } from '../processor/token-estimate.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { TurnCaps } from './turn-caps.ts'

/** How much of a provider's input something takes, or may take. */
export interface InputSize {
  /** As JSON in UTF-8. */
  readonly bytes: number
  /** Estimated from the length of the text. */
  readonly tokens: number
}

// What vendors charge for a picture of about a megapixel; its base64 says nothing about its tokens.
const TOKENS_PER_ATTACHMENT = 1000

/** What the own input of a turn leaves for the history of its thread. INPUT_TOO_LARGE if it never fits. */
export function historyRoom(input: readonly OutputItem[], caps: TurnCaps): InputSize {
  const { maxHistoryBytes, maxHistoryTokens } = caps
  const bytes = maxHistoryBytes - Buffer.byteLength(JSON.stringify(input))
  const tokens = maxHistoryTokens - estimateTokens(input)
  if (bytes < 0) throw tooLarge(maxHistoryBytes - bytes, 'bytes', maxHistoryBytes)
  if (tokens < 0) throw tooLarge(maxHistoryTokens - tokens, 'tokens', maxHistoryTokens)
  return { bytes, tokens }
}

function tooLarge(size: number, unit: string, max: number): TurnstreamError {
  return new TurnstreamError('INPUT_TOO_LARGE', `about ${size} ${unit}; the limit is ${max}`)
}

export function estimateTokens(items: readonly OutputItem[]): number {
  let tokens = 0
  for (const item of items) tokens += tokensOf(item)
  return tokens
}

function tokensOf(item: OutputItem): number {
  switch (item.type) {
    case 'message':
      return (
        estimateTokensOfLength(item.content.length) +
        (item.attachments?.length ?? 0) * TOKENS_PER_ATTACHMENT
      )
    case 'reasoning':
      return estimateTokensOfLength(item.content.length)
    case 'function_call':
      return estimateTokensOfLength(item.name.length + item.arguments.length)
    case 'function_call_output':
      return estimateTokensOfLength(item.output.length)
    case 'error':
    case 'cancelled':
      return 0
  }
}
