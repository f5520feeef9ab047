import { AnswerEncoder } from '../answer-encoder.ts'
import { encoderWriter, type TargetFormat } from '../format.ts'
import type { ChatFrame } from './wire.ts'
import { type ChatCompletionsOptions, ChatWriter } from './write-chunks.ts'

/** Encodes one response, event by event, as Chat Completions chunks. */
export class ChatCompletionsEncoder extends AnswerEncoder<ChatFrame> {
  constructor(options: ChatCompletionsOptions) {
    super(new ChatWriter(options))
  }
}

export const writeChatCompletions: TargetFormat = (start, options) => {
  const { response_id, model_id: model, created_at } = start
  const encoder = new ChatCompletionsEncoder({
    id: `chatcmpl-${response_id}`,
    model,
    created: Math.floor(created_at / 1000),
    includeUsage: options.includeUsage,
  })
  return encoderWriter(encoder, options)
}
