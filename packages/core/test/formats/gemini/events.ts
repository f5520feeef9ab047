/** The events of `streamGenerateContent`, as short as a test can say them. */
import {
  type StreamEventPayload,
  type TranslationContext,
  translateGemini,
} from '../../../src/index.ts'
import { translateAll } from '../replay.ts'

export type Fields = Record<string, unknown>

export function event(parts: unknown[], finishReason?: unknown, more: Fields = {}): Fields {
  const content = { parts, role: 'model' }
  const finish = finishReason === undefined ? {} : { finishReason }
  return { candidates: [{ content, index: 0, ...finish }], responseId: 'r1', ...more }
}

export function call(functionCall: Fields, more: Fields = {}): Fields {
  return event([{ functionCall, ...more }])
}

export const stop = event([], 'STOP')

export function text(value: unknown, more: Fields = {}): Fields {
  return event([{ text: value, ...more }])
}

export function usage(counts: Fields, more: Fields = {}): Fields {
  return { usageMetadata: counts, responseId: 'r1', ...more }
}

export function translate(
  events: Iterable<unknown>,
  context: Partial<TranslationContext> = {},
): StreamEventPayload[] {
  return translateAll(translateGemini, events, context)
}
