import type { Context } from 'hono'
import * as z from 'zod'
import { onAbort } from '../../async/on-abort.ts'
import { toChatCompletion } from '../../dialects/chat-completions/completion.ts'
import type { ChatCompletionsOptions } from '../../dialects/chat-completions/encode.ts'
import { START } from '../../log/offsets.ts'
import type { TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import { watchClient } from '../client-close.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from '../context.ts'
import { requestInvalid } from '../errors.ts'
import { encodeJson, sendJson } from '../json-response.ts'
import { ChatAnswer } from '../openai/chat-answer.ts'
import {
  type ChatBody,
  chatBodySchema,
  chatChunkSchema,
  chatCompletionSchema,
} from '../openai/chat-schemas.ts'
import { chatSubmission, threadMetadata } from '../openai/chat-submission.ts'
import { parameterError, TurnFailedError } from '../openai/errors.ts'
import { followRun } from '../run-reader.ts'
import type { SseConnection } from '../streams/sse-connection.ts'
import { headerOf, openSse } from '../streams/sse-response.ts'
import * as spec from './spec.ts'
import { SUBMIT_REFUSALS, startTurn, submitHeadersSchema, withStreamSlot } from './submit.ts'
import { withRetries } from './threads.ts'

/** How long the headers of a stream are held for the first output: a turn that fails before gets a status. */
const HOLD_MS = 5000

const headersSchema = submitHeadersSchema.extend({
  [HEADERS.cancelOnDisconnect]: spec.optional(
    z.enum(['true', 'false']),
    'With `true` the turn is stopped when the client leaves',
  ),
})

const chatRoute = spec.route('post', ROUTES.chatCompletions, {
  summary: 'Answer a chat, as OpenAI does',
  description:
    'One turn in a new thread, which is made of the messages. It goes on when the client leaves, and can ' +
    'be read as any other: its id is in a header.',
  tags: ['openai'],
  request: { headers: headersSchema, body: spec.jsonBody(chatBodySchema) },
  responses: {
    200: {
      description: 'The answer, or with `stream` its chunks and then `[DONE]`',
      headers: spec.turnHeaders,
      content: {
        ...spec.json('', chatCompletionSchema).content,
        ...spec.sse('', chatChunkSchema).content,
      },
    },
    ...spec.openaiRefusals(
      ...SUBMIT_REFUSALS,
      'OPTION_INVALID',
      'STREAMS_LIMITED',
      'TURN_ITEM_LIMIT',
      'TURN_ROUND_LIMIT',
      'TURN_TEXT_LIMIT',
      'TURN_TIME_LIMIT',
      'UNREAD_LIMITED',
      'UPSTREAM_MALFORMED',
      'UPSTREAM_TIMEOUT',
      'UPSTREAM_TRUNCATED',
      'UPSTREAM_UNREACHABLE',
    ),
  },
})

/** A request whose turn was started. */
interface StartedChat {
  readonly c: Context<GatewayEnv>
  readonly context: GatewayContext
  readonly turn: TurnRecord
  readonly options: ChatCompletionsOptions
  /** Whether the turn is cancelled when the client leaves. */
  readonly isTied: boolean
  /** Whether the same request again gets this turn. */
  readonly isNamed: boolean
}

export function addChatCompletionsRoute(app: GatewayApp, context: GatewayContext): void {
  app.openapi(
    chatRoute,
    (c) =>
      withStreamSlot(c, context, async (slot) => {
        const body = c.req.valid('json')
        const chat = await startChat(c, context, body, c.req.valid('header'))
        if (body.stream === true) return await streamChat(chat)
        const completion = await completeChat(chat)
        slot.free()
        return sendJson<z.infer<typeof chatCompletionSchema>>(c, context, encodeJson(completion))
      }),
    (result) => {
      if (result.success) return
      if (result.target === 'json') throw parameterError(result.error)
      throw requestInvalid('headers', result.error)
    },
  )
}

async function startChat(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  body: ChatBody,
  headers: z.infer<typeof headersSchema>,
): Promise<StartedChat> {
  const { log } = c.get('space')
  const { turnId, threadId } = await startTurn(c, context, chatSubmission(body, headers))
  const turn = await log.getTurn(turnId)
  if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
  await putMetadata(log, threadId, body)
  c.header(HEADERS.turnId, headerOf(turnId))
  c.header(HEADERS.threadId, headerOf(threadId))
  const options: ChatCompletionsOptions = {
    id: `chatcmpl-${turnId}`,
    model: body.model,
    created: Math.floor(turn.createdAt / 1000),
    includeUsage: body.stream_options?.include_usage === true,
  }
  const isTied = headers[HEADERS.cancelOnDisconnect] === 'true'
  const isNamed = headers[HEADERS.idempotencyKey] !== undefined
  return { c, context, turn, options, isTied, isNamed }
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

async function streamChat(chat: StartedChat): Promise<Response> {
  const { c, context, turn, options, isTied, isNamed } = chat
  const { log } = c.get('space')
  const { turnId } = turn
  const reading = new AbortController()
  const stop = () => reading.abort()
  const tail = log.tail(turnId, 'events', START, reading.signal)
  const answer = new ChatAnswer(tail, options)
  const client = watchClient(c)
  const leave = () => {
    stop()
    if (isTied && !answer.isWhole) cancel(log, turnId, context)
  }
  onAbort(client.signal, leave)
  if (client.signal.aborted) leave()
  try {
    const failure = await answer.begin(context.clock, HOLD_MS)
    if (failure !== undefined) throw new TurnFailedError(failure, isNamed)
    const send = (connection: SseConnection) => {
      onAbort(connection.signal, stop)
      return answer.sendTo(connection).finally(client.release)
    }
    return openSse(c, context, { kind: 'chat', headers: {}, send })
  } catch (error) {
    client.release()
    stop()
    throw error
  }
}

async function completeChat({ c, context, turn, options, isTied, isNamed }: StartedChat) {
  const { log } = c.get('space')
  const client = watchClient(c)
  const reading = AbortSignal.any([client.signal, context.closing])
  try {
    const response = await followRun(log, turn, reading)
    if (client.signal.aborted && isTied) cancel(log, turn.turnId, context)
    if (reading.aborted && response.status === 'in_progress') {
      throw new TurnstreamError('SERVER_SHUTDOWN', 'the turn is still running')
    }
    const completion = toChatCompletion(response, options)
    if ('error' in completion) {
      // The turn's own error also says when to retry.
      throw new TurnFailedError(response.error ?? completion.error, isNamed)
    }
    return completion
  } finally {
    client.release()
  }
}

function cancel(log: TurnLog, turnId: string, { onError }: GatewayContext): void {
  log.requestCancel(turnId, 'the client left').catch((error: unknown) => onError(error, {}))
}
