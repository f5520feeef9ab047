import { messagesError } from '@turnstream/core/internal/formats/messages/errors'
import { decodeMessagesRequest } from '@turnstream/core/internal/formats/messages/request-in'
import * as schemas from '@turnstream/core/internal/formats/messages/schemas'
import { MessagesEncoder } from '@turnstream/core/internal/formats/messages/write'
import { TurnFailedError } from '@turnstream/core/internal/formats/turn-failed-error'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import type { ErrorObject } from '@turnstream/core/internal/protocol/stream-event'
import { encodeSse } from '@turnstream/core/internal/sse/encode'
import type { Context } from 'hono'
import * as z from 'zod'
import type { GatewayApp, GatewayContext, GatewayEnv } from '../context.ts'
import { encodeJson, sendRead } from '../json-response.ts'
import { readableTurn, readStored } from '../openai/stored-responses.ts'
import type { AnswerEncoder } from '../streams/answer-stream.ts'
import * as spec from './spec.ts'
import * as vendor from './vendor-turns.ts'

const createRoute = spec.route('post', ROUTES.messages, {
  summary: 'Create a message (Anthropic compatible)',
  description:
    'Runs one turn in the thread that the messages continue, also when the client disconnects.',
  tags: ['anthropic'],
  request: { headers: vendor.headersSchema, body: spec.jsonBody(schemas.messagesBodySchema) },
  responses: {
    200: vendor.answerSpec(
      'The message, or with `stream` its events',
      schemas.messageSchema,
      schemas.messagesEventSchema,
    ),
  },
  refusals: [...vendor.ANSWER_REFUSALS, 'TURN_UNKNOWN'],
})

const countRoute = spec.route('post', ROUTES.messagesCountTokens, {
  summary: 'Estimate the input tokens of a message (Anthropic compatible)',
  tags: ['anthropic'],
  request: { body: spec.jsonBody(schemas.countTokensBodySchema) },
  responses: { 200: spec.json('The estimate', schemas.tokenCountSchema) },
  refusals: ['TURN_UNKNOWN'],
})

const readRoute = spec.route('get', ROUTES.message, {
  summary: 'Retrieve or join a message',
  description: 'Works for every turn, also while it runs. Its id is `msg_<turnId>`.',
  tags: ['anthropic'],
  request: {
    params: z.object({ messageId: spec.id }),
    query: z.object({ stream: z.enum(['true', 'false']).exactOptional() }),
  },
  responses: {
    200: spec.jsonOrSse(
      'The message so far, with `error` if the turn failed or was cancelled; or with `stream` the same as events, ' +
        'and then live',
      schemas.messageSchema,
      schemas.messagesEventSchema,
    ),
  },
  refusals: [...spec.TURN_REFUSALS, 'STREAMS_LIMITED'],
})

export function addMessagesRoutes(app: GatewayApp, context: GatewayContext): void {
  app.openapi(createRoute, (c) => {
    const body = c.req.valid('json')
    const headers = c.req.valid('header')
    setRequestId(c)
    const encoderOf = ({ turn: { turnId } }: vendor.VendorTurn) =>
      new MessagesAnswer({ turnId, model: body.model })
    return vendor.answerRequest(c, context, {
      headers,
      isStreamed: body.stream === true,
      prepare: () => decodeMessagesRequest(body),
      stream: (started) => vendor.streamAnswer(started, encoderOf(started)),
      complete: async (started) => {
        const encoder = encoderOf(started)
        const error = await vendor.followAnswer(started, (event) => encoder.encode(event))
        const { failure, message } = encoder
        if (failure === undefined) return message
        throw new TurnFailedError(error ?? failure, started.isNamed)
      },
    })
  })

  app.openapi(countRoute, (c) => {
    const { submission } = decodeMessagesRequest(c.req.valid('json'))
    setRequestId(c)
    return c.json({ input_tokens: vendor.estimateInputTokens(submission) }, 200)
  })

  app.openapi(readRoute, async (c) => {
    const turn = await readableTurn(c, 'msg_', c.req.valid('param').messageId)
    setRequestId(c)
    const { turnId } = turn
    const encoder = new MessagesAnswer({ turnId, model: '' })
    if (c.req.valid('query').stream === 'true') {
      return vendor.resumeAnswer(c, context, turn, joinEncoder(encoder))
    }
    return sendRead(c, context, async (log) => {
      await readStored(log, turnId, (event) => encoder.encode(event))
      const { message, error } = encoder
      return encodeJson({ ...message, ...(error && { error: error.error }) })
    })
  })
}

function setRequestId(c: Context<GatewayEnv>): void {
  c.header('request-id', c.get('requestId'))
}

const PING = encodeSse({ event: 'ping', data: '{"type":"ping"}' })

class MessagesAnswer extends MessagesEncoder implements AnswerEncoder {
  readonly kind = 'messages'

  interruptionSse(error: ErrorObject): string {
    return encodeSse({ event: 'error', data: JSON.stringify(messagesError(error)) })
  }

  /** Clients expect the message first. */
  heartbeatSse(): string {
    return this.isStarted ? PING : ''
  }
}

/** For a client that joins late: the answer so far in one piece, then the rest as it comes. */
function joinEncoder(encoder: MessagesAnswer): AnswerEncoder {
  let hasJoined = false
  return {
    kind: encoder.kind,
    repeats: 1,
    interruptionSse: (error) => encoder.interruptionSse(error),
    get isOver() {
      return hasJoined && encoder.isOver
    },
    encodeSse(event) {
      const text = encoder.encodeSse(event)
      return hasJoined ? text : ''
    },
    heartbeatSse: () => (hasJoined ? encoder.heartbeatSse() : ''),
    storedSse() {
      hasJoined = true
      return encoder.joinSse()
    },
  }
}
