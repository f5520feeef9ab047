import { AnswerReader } from '@turnstream/core/internal/formats/answer'
import { AnswerItems } from '@turnstream/core/internal/formats/answer-items'
import {
  customToolNames,
  decodeChatRequest,
  isLegacy,
  threadMetadata,
} from '@turnstream/core/internal/formats/chat-completions/request-in'
import {
  type ChatBody,
  chatBodySchema,
  chatChunkSchema,
  chatCompletionSchema,
} from '@turnstream/core/internal/formats/chat-completions/schemas'
import { ChatCompletionsEncoder } from '@turnstream/core/internal/formats/chat-completions/write'
import type { ChatCompletionsOptions } from '@turnstream/core/internal/formats/chat-completions/write-chunks'
import { chatCompletion } from '@turnstream/core/internal/formats/chat-completions/write-completion'
import { TurnFailedError } from '@turnstream/core/internal/formats/turn-failed-error'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import type * as z from 'zod'
import type { GatewayApp, GatewayContext } from '../context.ts'
import { encodeJson, sendJson } from '../json-response.ts'
import type { AnswerEncoder } from '../streams/answer-stream.ts'
import * as spec from './spec.ts'
import { withStreamSlot } from './submit.ts'
import { withRetries } from './threads.ts'
import {
  ANSWER_REFUSALS,
  answerHeaders,
  answerTurn,
  followAnswer,
  refuseInvalid,
  startVendorTurn,
  streamAnswer,
  type VendorTurn,
  vendorHeadersSchema,
} from './vendor-turns.ts'

const chatRoute = spec.route('post', ROUTES.chatCompletions, {
  summary: 'Create a chat completion (OpenAI compatible)',
  description:
    'Runs one turn in the thread that the messages continue. It continues when the client disconnects, and ' +
    'can be read like any other turn: its id is in a header.',
  tags: ['openai'],
  request: { headers: vendorHeadersSchema, body: spec.jsonBody(chatBodySchema) },
  responses: {
    200: {
      ...spec.jsonOrSse(
        'The completion, or with `stream` its chunks and then `[DONE]`',
        chatCompletionSchema,
        chatChunkSchema,
      ),
      headers: answerHeaders,
    },
    ...spec.openaiRefusals(...ANSWER_REFUSALS),
  },
})

interface StartedChat extends VendorTurn {
  readonly options: ChatCompletionsOptions
}

export function addChatCompletionsRoute(app: GatewayApp, context: GatewayContext): void {
  app.openapi(
    chatRoute,
    (c) =>
      withStreamSlot(c, context, async (slot) => {
        const body = c.req.valid('json')
        const headers = c.req.valid('header')
        const started = await startVendorTurn(c, context, headers, () => decodeChatRequest(body))
        return answerTurn(started, async () => {
          const chat = await toChat(started, body)
          if (body.stream === true) return await streamChat(chat)
          const completion = await completeChat(chat)
          slot.free()
          return sendJson<z.infer<typeof chatCompletionSchema>>(c, context, encodeJson(completion))
        })
      }),
    refuseInvalid,
  )
}

async function toChat(started: VendorTurn, body: ChatBody): Promise<StartedChat> {
  const { turnId, threadId, createdAt } = started.turn
  await putMetadata(started.c.get('space').log, threadId, body)
  const options: ChatCompletionsOptions = {
    id: `chatcmpl-${turnId}`,
    model: body.model,
    created: Math.floor(createdAt / 1000),
    includeUsage: body.stream_options?.include_usage === true,
    legacyFunctions: isLegacy(body),
    customTools: customToolNames(body),
  }
  return { ...started, options }
}

/** Only once: a repeated request must not undo later changes. */
async function putMetadata(log: TurnLog, threadId: string, body: ChatBody): Promise<void> {
  const metadata = threadMetadata(body)
  if (metadata === undefined) return
  await withRetries(async () => {
    const thread = await log.getThread(threadId)
    if (thread === undefined || thread.metadata !== undefined) return
    const { title } = thread
    await log.putThread({ threadId, ...(title !== undefined && { title }), metadata }, thread)
  })
}

function streamChat({ options, ...started }: StartedChat): Promise<Response> {
  return streamAnswer(started, chatAnswerEncoder(options), 'chat')
}

async function completeChat({ options, ...started }: StartedChat) {
  const answer = new AnswerItems()
  const reader = new AnswerReader(answer)
  await followAnswer(started, (event) => reader.take(event))
  const completion = chatCompletion(answer, options)
  if ('object' in completion) return completion
  throw new TurnFailedError(completion, started.isNamed)
}

export function chatAnswerEncoder(options: ChatCompletionsOptions): AnswerEncoder {
  const encoder = new ChatCompletionsEncoder(options)
  return {
    get isOver() {
      return encoder.done
    },
    encodeSse: (event) => encoder.encodeSse(event),
    interruptionSse({ code, message }) {
      const error = { message, type: 'server_error', param: null, code }
      return `data: ${JSON.stringify({ error })}\n\ndata: [DONE]\n\n`
    },
  }
}
