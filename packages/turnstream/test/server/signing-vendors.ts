/** Vendors that sign what they say. */

import {
  createAnthropicMessagesProvider,
  createGeminiProvider,
  createOpenaiResponsesProvider,
  type HttpProviderOptions,
  type Provider,
} from '../../src/index.ts'

export interface Said {
  thought: string
  text: string
  /** The signature, or the encrypted reasoning. */
  blob: string
}

export interface SigningVendor {
  create: (options: HttpProviderOptions) => Provider
  /** The events of an answer. */
  frames: (said: Said) => unknown[]
  /** The answer as the vendor wants it back: what the request contains of it, except for ids. */
  back: (said: Said) => unknown[]
  /** The model's part of the messages of a request. */
  // oxlint-disable-next-line typescript/no-explicit-any -- what it holds is what the test is about
  sent: (body: any) => unknown[]
  refusal: unknown
}

function summary(thought: string) {
  return [
    { type: 'summary_text', text: thought },
    { type: 'summary_text', text: 'And so on.' },
  ]
}

function openaiItems({ thought, text, blob }: Said): Record<string, unknown>[] {
  return [
    { type: 'reasoning', summary: summary(thought), encrypted_content: blob },
    {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text, annotations: [] }],
    },
  ]
}

function anthropicBlocks({ thought, text, blob }: Said): Record<string, unknown>[] {
  return [
    { type: 'thinking', thinking: thought, signature: blob },
    { type: 'redacted_thinking', data: `${blob} redacted` },
    { type: 'text', text },
  ]
}

function geminiParts({ thought, text, blob }: Said): Record<string, unknown>[] {
  return [
    { text: thought, thought: true },
    { text, thoughtSignature: blob },
  ]
}

export const SIGNING_VENDORS = {
  openai: {
    create: createOpenaiResponsesProvider,
    frames: (said) => [
      { type: 'response.created', response: { model: 'm' } },
      ...openaiItems(said).map((item, output_index) => {
        const id = `${String(item['type'])}_${output_index}`
        return { type: 'response.output_item.done', output_index, item: { id, ...item } }
      }),
      { type: 'response.completed', response: { status: 'completed', output: [] } },
    ],
    back: openaiItems,
    sent: ({ input }) =>
      input
        .filter(({ type, role }: Record<string, unknown>) => type !== 'message' || role !== 'user')
        .map(({ id: _id, status: _status, ...item }: Record<string, unknown>) => item),
    refusal: { error: { code: 'invalid_encrypted_content', message: 'It could not be verified.' } },
  },
  anthropic: {
    create: createAnthropicMessagesProvider,
    frames: (said) => [
      { type: 'message_start', message: { id: 'msg_1', model: 'm' } },
      ...anthropicBlocks(said).flatMap((content_block, index) => [
        { type: 'content_block_start', index, content_block },
        { type: 'content_block_stop', index },
      ]),
      { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
      { type: 'message_stop' },
    ],
    back: anthropicBlocks,
    sent: ({ messages }) =>
      messages.flatMap(({ role, content }: { role: string; content: unknown[] }) =>
        role === 'assistant' ? content : [],
      ),
    refusal: {
      error: { message: 'messages.1.content.0: Invalid `signature` in `thinking` block' },
    },
  },
  gemini: {
    create: createGeminiProvider,
    frames: (said) => [
      {
        responseId: 'g',
        candidates: [{ finishReason: 'STOP', content: { parts: geminiParts(said) } }],
      },
    ],
    back: geminiParts,
    sent: ({ contents }) =>
      contents.flatMap(({ role, parts }: { role: string; parts: unknown[] }) =>
        role === 'model' ? parts : [],
      ),
    refusal: { error: { code: 400, message: 'Corrupted thought signature.' } },
  },
} satisfies Record<string, SigningVendor>

export type SigningName = keyof typeof SIGNING_VENDORS
