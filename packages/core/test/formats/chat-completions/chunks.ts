/** The chunks of a Chat Completions stream, as short as a test can say them. */
import {
  type StreamEventPayload,
  type TranslationContext,
  translateOpenaiChat,
} from '../../../src/index.ts'
import { translateAll } from '../replay.ts'

export type Fields = Record<string, unknown>

export const DONE = '[DONE]'

export function chunk(delta: unknown, finish_reason: unknown = null, more: Fields = {}): Fields {
  return {
    id: 'c1',
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason }],
    ...more,
  }
}

export const role = chunk({ role: 'assistant', content: '' })
export const stop = chunk({}, 'stop')

export function text(content: unknown): Fields {
  return chunk({ content })
}

export function calls(...tool_calls: unknown[]): Fields {
  return chunk({ tool_calls })
}

/** A piece of a function call; what is undefined is left out. */
export function piece(index?: number, id?: string, name?: string, args?: unknown): Fields {
  return {
    ...(index !== undefined && { index }),
    ...(id !== undefined && { id }),
    function: {
      ...(name !== undefined && { name }),
      ...(args !== undefined && { arguments: args }),
    },
  }
}

export function usage(prompt_tokens: number, completion_tokens: number, more: Fields = {}): Fields {
  const total_tokens = prompt_tokens + completion_tokens
  return { choices: [], usage: { prompt_tokens, completion_tokens, total_tokens, ...more } }
}

export function translate(
  chunks: Iterable<unknown>,
  context: Partial<TranslationContext> = {},
): StreamEventPayload[] {
  return translateAll(translateOpenaiChat, chunks, context)
}
