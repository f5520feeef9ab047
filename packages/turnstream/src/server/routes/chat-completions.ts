import { AnswerReader } from '@turnstream/core/internal/formats/answer'
import { AnswerItems } from '@turnstream/core/internal/formats/answer-items'
import {
  customToolNames,
  decodeChatRequest,
  isLegacy,
  threadMetadata,
} from '@turnstream/core/internal/formats/chat-completions/request-in'
import * as schemas from '@turnstream/core/internal/formats/chat-completions/schemas'
import { ChatCompletionsEncoder } from '@turnstream/core/internal/formats/chat-completions/write'
import type { ChatCompletionsOptions } from '@turnstream/core/internal/formats/chat-completions/write-chunks'
import { chatCompletion } from '@turnstream/core/internal/formats/chat-completions/write-completion'
import { TurnFailedError } from '@turnstream/core/internal/formats/turn-failed-error'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import type { ErrorObject } from '@turnstream/core/internal/protocol/stream-event'
import type { GatewayApp, GatewayContext } from '../context.ts'
import type { AnswerEncoder } from '../streams/answer-stream.ts'
import * as spec from './spec.ts'
import { withRetries } from './threads.ts'
import * as vendor from './vendor-turns.ts'

const chatRoute = spec.route('post', ROUTES.chatCompletions, {
  summary: 'Create a chat completion (OpenAI compatible)',
  description:
    'Runs one turn in the thread that the messages continue. It continues when the client disconnects, and ' +
    'can be read like any other turn: its id is in a header.',
  tags: ['openai'],
  request: { headers: vendor.headersSchema, body: spec.jsonBody(schemas.chatBodySchema) },
  responses: {
    200: vendor.answerSpec(
      'The completion, or with `stream` its chunks and then `[DONE]`',
      schemas.chatCompletionSchema,
      schemas.chatChunkSchema,
    ),
  },
  refusals: [...vendor.ANSWER_REFUSALS],
})

export function addChatCompletionsRoute(app: GatewayApp, context: GatewayContext): void {
  app.openapi(chatRoute, (c) => {
    const body = c.req.valid('json')
    const headers = c.req.valid('header')
    return vendor.answerRequest(c, context, {
      headers,
      isStreamed: body.stream === true,
      prepare: () => decodeChatRequest(body),
      stream: async (started) =>
        vendor.streamAnswer(started, new ChatAnswer(await toOptions(started, body))),
      complete: async (started) => completeChat(started, await toOptions(started, body)),
    })
  })
}

async function toOptions(
  { c, turn }: vendor.VendorTurn,
  body: schemas.ChatBody,
): Promise<ChatCompletionsOptions> {
  const { turnId, threadId, createdAt } = turn
  await putMetadata(c.get('space').log, threadId, body)
  return {
    id: `chatcmpl-${turnId}`,
    model: body.model,
    created: Math.floor(createdAt / 1000),
    includeUsage: body.stream_options?.include_usage === true,
    legacyFunctions: isLegacy(body),
    customTools: customToolNames(body),
  }
}

/** Only once: a repeated request must not undo later changes. */
async function putMetadata(log: TurnLog, threadId: string, body: schemas.ChatBody): Promise<void> {
  const metadata = threadMetadata(body)
  if (metadata === undefined) return
  await withRetries(async () => {
    const thread = await log.getThread(threadId)
    if (thread === undefined || thread.metadata !== undefined) return
    const { title } = thread
    await log.putThread({ threadId, ...(title !== undefined && { title }), metadata }, thread)
  })
}

async function completeChat(started: vendor.VendorTurn, options: ChatCompletionsOptions) {
  const answer = new AnswerItems()
  const reader = new AnswerReader(answer)
  await vendor.followAnswer(started, (event) => reader.apply(event))
  const completion = chatCompletion(answer, options)
  if ('object' in completion) return completion
  throw new TurnFailedError(completion, started.isNamed)
}

export class ChatAnswer extends ChatCompletionsEncoder implements AnswerEncoder {
  readonly kind = 'chat'

  interruptionSse({ code, message }: ErrorObject): string {
    const error = { message, type: 'server_error', param: null, code }
    return `data: ${JSON.stringify({ error })}\n\ndata: [DONE]\n\n`
  }
}
