import { createRoute } from '@hono/zod-openapi'
import type { Context } from 'hono'
import * as z from 'zod'
import { toChatCompletion } from '../../dialects/chat-completions/completion.ts'
import type { ChatCompletionsOptions } from '../../dialects/chat-completions/encode.ts'
import { START } from '../../log/offsets.ts'
import { onAbort } from '../../log/on-abort.ts'
import type { TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from '../context.ts'
import { admitTurn } from '../limits/admit-turn.ts'
import { ChatAnswer } from '../openai/chat-answer.ts'
import { chatSubmission, keptMetadata } from '../openai/chat-submission.ts'
import { watchClient } from '../openai/client-watch.ts'
import { parameterError } from '../openai/parameter-error.ts'
import { TurnFailedError } from '../openai/turn-failure.ts'
import { followedRun } from '../reduced-run.ts'
import { requestInvalid } from '../request-error.ts'
import {
  type ChatBody,
  chatBodySchema,
  chatChunkSchema,
  chatCompletionSchema,
} from '../schemas/chat-completions.ts'
import { openapiPath } from '../schemas/parts.ts'
import { openaiRefusals } from '../schemas/refusals.ts'
import type { SseConnection } from '../streams/sse-connection.ts'
import { headerOf, openSse } from '../streams/sse-response.ts'
import type { SubmitHeaders } from '../submission.ts'
import { sendJson, toWrittenJson } from '../written-json.ts'
import { SUBMIT_REFUSALS, submitHeadersSchema } from './submit.ts'

/** So long the head of a stream waits for the first word: a turn that fails before it is told by a status. */
const HOLD_MS = 5000

const LEFT = 'the client left'

const chatRoute = createRoute({
  method: 'post',
  path: openapiPath(ROUTES.chatCompletions),
  summary: 'Answer a chat, as OpenAI does',
  description:
    'One turn in a new thread, which is made of the messages. It goes on when the client leaves, and can ' +
    'be read as any other: its id is in a header.',
  tags: ['openai'],
  request: {
    headers: submitHeadersSchema.extend({
      [HEADERS.cancelOnDisconnect]: z
        .enum(['true', 'false'])
        .exactOptional()
        .meta({ description: 'With `true` the turn is stopped when the client leaves' }),
    }),
    body: { required: true, content: { 'application/json': { schema: chatBodySchema } } },
  },
  responses: {
    200: {
      description: 'The answer, or with `stream` its chunks and then `[DONE]`',
      headers: z.object({ [HEADERS.turnId]: z.string(), [HEADERS.threadId]: z.string() }),
      content: {
        'application/json': { schema: chatCompletionSchema },
        'text/event-stream': { schema: chatChunkSchema },
      },
    },
    ...openaiRefusals(
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

type ChatHeaders = SubmitHeaders & { readonly [HEADERS.cancelOnDisconnect]?: 'true' | 'false' }

/** A request that has its turn. */
interface Asked {
  readonly c: Context<GatewayEnv>
  readonly context: GatewayContext
  readonly turn: TurnRecord
  readonly options: ChatCompletionsOptions
  /** Whether the turn is to end when the client leaves. */
  readonly isTied: boolean
  /** Whether the same request again is answered by this turn. */
  readonly isNamed: boolean
}

export function addChatCompletionsRoute(app: GatewayApp, context: GatewayContext): void {
  app.openapi(
    chatRoute,
    async (c) => {
      const body = c.req.valid('json')
      const headers = c.req.valid('header')
      // Whoever could not read the turn shall not begin it.
      const slot = context.limits.takeStream(c.get('caller'))
      c.set('slot', slot)
      try {
        const asked = await submitted(c, context, body, headers)
        if (body.stream === true) return await streamed(asked)
        const completion = await whole(asked)
        slot.free()
        return sendJson(c, context, toWrittenJson(completion))
      } catch (error) {
        slot.free()
        throw error
      }
    },
    (result) => {
      if (result.success) return
      if (result.target === 'json') throw parameterError(result.error)
      throw requestInvalid('headers', result.error)
    },
  )
}

async function submitted(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  body: ChatBody,
  headers: ChatHeaders,
): Promise<Asked> {
  const { tenant, newTurns, log } = c.get('space')
  const submission = chatSubmission(body, headers)
  const admit = admitTurn(c, context, submission)
  const { turnId, threadId } = await context.turns.submit(submission, { tenant, admit })
  newTurns.announce(threadId)
  const turn = await log.getTurn(turnId)
  if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
  await keepMetadata(log, threadId, body)
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

/** Once: what somebody has changed since stays changed when the request is made again. */
async function keepMetadata(log: TurnLog, threadId: string, body: ChatBody): Promise<void> {
  const metadata = keptMetadata(body)
  if (metadata === undefined) return
  const thread = await log.getThread(threadId)
  if (thread?.metadata === undefined) await log.putThread({ ...thread, threadId, metadata })
}

async function streamed({ c, context, turn, options, isTied, isNamed }: Asked): Promise<Response> {
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
    const run = (connection: SseConnection) => {
      onAbort(connection.signal, stop)
      return answer.sendTo(connection).finally(client.release)
    }
    return openSse(c, context, { kind: 'chat', headers: {}, run })
  } catch (error) {
    client.release()
    stop()
    throw error
  }
}

async function whole({ c, context, turn, options, isTied, isNamed }: Asked) {
  const { log } = c.get('space')
  const client = watchClient(c)
  const reading = AbortSignal.any([client.signal, context.closing])
  try {
    const response = await followedRun(log, turn, reading)
    if (client.signal.aborted && isTied) cancel(log, turn.turnId, context)
    if (reading.aborted && response.status === 'in_progress') {
      throw new TurnstreamError('SERVER_SHUTDOWN', 'the turn is still running')
    }
    const completion = toChatCompletion(response, options)
    if ('error' in completion) {
      // The error of the turn also says when to try again.
      throw new TurnFailedError(response.error ?? completion.error, isNamed)
    }
    return completion
  } finally {
    client.release()
  }
}

function cancel(log: TurnLog, turnId: string, { onError }: GatewayContext): void {
  log.requestCancel(turnId, LEFT).catch((error: unknown) => onError(error, {}))
}
