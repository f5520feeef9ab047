/** Events of the Messages API, and what our translation makes of them. */
import {
  type ReducedResponse,
  type StreamEventPayload,
  type TranslationContext,
  translateAnthropicMessages,
} from '../../../src/index.ts'
import { onlyResponseOf } from '../outcome.ts'
import { translateAll } from '../replay.ts'

export type Fields = Record<string, unknown>

export const messageStart = (usage: unknown = { input_tokens: 10, output_tokens: 1 }) => ({
  type: 'message_start',
  message: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-x',
    content: [],
    usage,
  },
})

export const blockStart = (index: unknown, content_block: unknown) => ({
  type: 'content_block_start',
  index,
  content_block,
})

export const blockDelta = (index: unknown, delta: unknown) => ({
  type: 'content_block_delta',
  index,
  delta,
})

export const blockStop = (index: unknown) => ({ type: 'content_block_stop', index })

export const textDelta = (index: number, text: string) =>
  blockDelta(index, { type: 'text_delta', text })

export const jsonDelta = (index: number, partial_json: string) =>
  blockDelta(index, { type: 'input_json_delta', partial_json })

export const textBlock = (index: number, ...texts: string[]) => [
  blockStart(index, { type: 'text', text: '' }),
  ...texts.map((text) => textDelta(index, text)),
  blockStop(index),
]

export const citedBlock = (index: number, text: string, ...citations: Fields[]) => [
  blockStart(index, { type: 'text', text: '', citations: [] }),
  ...citations.map((citation) => blockDelta(index, { type: 'citations_delta', citation })),
  textDelta(index, text),
  blockStop(index),
]

export const thinkingBlock = (index: number, signature: string, ...texts: string[]) => [
  blockStart(index, { type: 'thinking', thinking: '', signature: '' }),
  ...texts.map((thinking) => blockDelta(index, { type: 'thinking_delta', thinking })),
  blockDelta(index, { type: 'signature_delta', signature }),
  blockStop(index),
]

export const toolUse = (index: number, id: string, name: string, ...fragments: string[]) => [
  blockStart(index, { type: 'tool_use', id, name, input: {} }),
  ...fragments.map((fragment) => jsonDelta(index, fragment)),
  blockStop(index),
]

export const messageDelta = (stop_reason: unknown, usage: unknown = { output_tokens: 5 }) => ({
  type: 'message_delta',
  delta: { stop_reason, stop_sequence: null },
  usage,
})

export const messageStop = { type: 'message_stop' }

export const ending = (reason: unknown = 'end_turn') => [messageDelta(reason), messageStop]

export function translate(
  events: Iterable<unknown>,
  extra: Partial<TranslationContext> = {},
): StreamEventPayload[] {
  return translateAll(translateAnthropicMessages, events, extra)
}

export function responseOf(events: Iterable<unknown>): ReducedResponse {
  return onlyResponseOf(translate(events))
}

/** An item without its id, and what is kept of the vendor without the id of its message. */
export function plain(item: ReducedResponse['output_items'][number]): Fields {
  const { id: _, provider_metadata: metadata = {}, ...rest } = item
  const { message_id: __, ...anthropic } = (metadata['anthropic'] ?? {}) as Fields
  return {
    ...rest,
    ...('executed_by' in metadata && { executed_by: metadata['executed_by'] }),
    ...(Object.keys(anthropic).length > 0 && { anthropic }),
  }
}

export const itemsOf = (events: Iterable<unknown>): Fields[] =>
  responseOf(events).output_items.map(plain)
