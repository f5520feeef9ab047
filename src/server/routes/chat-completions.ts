import type { Context } from 'hono'
import * as z from 'zod'
import type { Clock } from '../../async/clock.ts'
import { onAbort } from '../../async/on-abort.ts'
import { isSliceOver, nextSlice } from '../../async/time-slice.ts'
import { toChatCompletion } from '../../dialects/chat-completions/completion.ts'
import {
  ChatCompletionsEncoder,
  type ChatCompletionsOptions,
} from '../../dialects/chat-completions/encode.ts'
import { START } from '../../log/offsets.ts'
import type { EventRecord, Resync, Tail, TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import type { ErrorObject, StreamEvent } from '../../protocol/stream-event.ts'
import { isStreamEvent } from '../../protocol/stream-event-guard.ts'
import { watchClient } from '../client-close.ts'
import type { GatewayApp, GatewayContext, GatewayEnv } from '../context.ts'
import { requestInvalid } from '../errors.ts'
import { encodeJson, sendJson } from '../json-response.ts'
import {
  type ChatBody,
  chatBodySchema,
  chatChunkSchema,
  chatCompletionSchema,
} from '../openai/chat-schemas.ts'
import { chatSubmission, threadMetadata } from '../openai/chat-submission.ts'
import { parameterError, TurnFailedError } from '../openai/errors.ts'
import { Frame } from '../streams/frames.ts'
import { headerOf, openSse, type SseConnection } from '../streams/sse-connection.ts'
import { followRun } from './runs.ts'
import * as spec from './spec.ts'
import { SUBMIT_REFUSALS, startTurn, submitHeadersSchema, withStreamSlot } from './submit.ts'
import { withRetries } from './threads.ts'

/** How long headers are held for the first output, so that a turn that fails earlier gets an error status. */
const HOLD_MS = 5000

const headersSchema = submitHeadersSchema.extend({
  [HEADERS.cancelOnDisconnect]: spec.optional(
    z.enum(['true', 'false']),
    'With `true` the turn is cancelled when the client disconnects',
  ),
})

const chatRoute = spec.route('post', ROUTES.chatCompletions, {
  summary: 'Create a chat completion (OpenAI compatible)',
  description:
    'Runs one turn in a new thread created from the messages. It continues when the client disconnects, and ' +
    'can be read like any other turn: its id is in a header.',
  tags: ['openai'],
  request: { headers: headersSchema, body: spec.jsonBody(chatBodySchema) },
  responses: {
    200: {
      description: 'The completion, or with `stream` its chunks and then `[DONE]`',
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
  /** Whether to cancel the turn when the client disconnects. */
  readonly isTied: boolean
  /** Whether a repeated request gets this turn. */
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
  const { turnId, threadId } = await startTurn(c, context, chatSubmission(body, headers), {
    acceptsAnyOutput: true,
  })
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
  log.requestCancel(turnId, 'the client disconnected').catch((error: unknown) => onError(error, {}))
}

// A larger frame would only be buffered as a whole.
const MAX_FRAME_CHARS = 32 * 1024

/** OpenAI clients take a stream that stops for a complete one, so an interrupted stream ends with an error. */
const LAST_WORDS = interruption('STREAM_ERROR', 'The stream ended before the turn')
const DELETED = interruption('TURN_DELETED', 'The turn was deleted')

/** Streams a turn as Chat Completions chunks, read from the log `events` as it grows. */
export class ChatAnswer {
  readonly #records: AsyncIterator<EventRecord | Resync, void>
  readonly #encoder: ChatCompletionsEncoder
  /** A pending read. */
  #next: Promise<IteratorResult<EventRecord | Resync, void>> | undefined
  /** Encoded but not sent yet. */
  #text = ''
  #connection: SseConnection | undefined
  #isFlushing = false
  #isBehind = false

  constructor(tail: Tail<EventRecord>, options: ChatCompletionsOptions) {
    this.#records = tail[Symbol.asyncIterator]() as AsyncIterator<EventRecord | Resync, void>
    this.#encoder = new ChatCompletionsEncoder(options)
  }

  /** Whether the completion has ended. */
  get isWhole(): boolean {
    return this.#encoder.done
  }

  /**
   * Waits up to `ms` for the first output. Resolves with the error of a turn that ends without output, while the
   * response can still have an error status.
   */
  async begin(clock: Clock, ms: number): Promise<ErrorObject | undefined> {
    let stopWaiting: (() => void) | undefined
    const late = new Promise<'late'>((resolve) => {
      stopWaiting = clock.after(ms, () => resolve('late'))
    })
    try {
      for (;;) {
        this.#next ??= this.#records.next()
        const result = await Promise.race([this.#next, late])
        if (result === 'late') return undefined
        this.#next = undefined
        if (result.done === true) return undefined
        const event = eventOf(result.value)
        if (!isStreamEvent(event)) continue
        const failure = failureOf(event)
        if (failure !== undefined) return failure
        const text = this.#encode(event)
        this.#text += text
        // The start of a response has a chunk, but no output.
        if (text !== '' && event.type !== 'response_start') return undefined
      }
    } finally {
      stopWaiting?.()
    }
  }

  /** Sends the completion to the end of the turn. */
  async sendTo(connection: SseConnection): Promise<void> {
    this.#connection = connection
    connection.lastWords = LAST_WORDS
    try {
      await this.#follow(connection)
    } catch (error) {
      if (error instanceof TurnstreamError && error.code === 'TURN_DELETED') {
        connection.lastWords = DELETED
      }
      throw error
    }
    if (this.isWhole) connection.lastWords = undefined
  }

  async #follow(connection: SseConnection): Promise<void> {
    this.#flushSoon()
    for (;;) {
      const result = await (this.#next ?? this.#records.next())
      this.#next = undefined
      if (result.done === true) break
      if (isSliceOver()) await nextSlice()
      this.#text += this.#encode(eventOf(result.value))
      if (this.#text.length > MAX_FRAME_CHARS) this.#flush()
      else this.#flushSoon()
      if (this.#isBehind) {
        await connection.drained()
        this.#isBehind = false
      }
    }
    this.#flush()
  }

  /** Ignores malformed records and unknown types. Deltas, nearly all records, need no full check. */
  #encode(event: StreamEvent): string {
    const isDelta = event.type === 'item_delta' && typeof event.payload?.delta_content === 'string'
    return isDelta || isStreamEvent(event) ? this.#encoder.encodeSse(event) : ''
  }

  /** Sends everything encoded in one frame, once all available records have been read. */
  #flushSoon(): void {
    if (this.#isFlushing) return
    this.#isFlushing = true
    process.nextTick(this.#flush)
  }

  readonly #flush = (): void => {
    this.#isFlushing = false
    if (this.#text === '') return
    const frame = new Frame(this.#text)
    this.#text = ''
    if (this.#connection?.send(frame) === false) this.#isBehind = true
  }
}

/** A log whose beginning was removed has no complete answer. */
function eventOf(record: EventRecord | Resync): StreamEvent {
  if ('event' in record) return record.event
  throw new TurnstreamError('TURN_EXPIRED', `the log is ${record.resync}`)
}

/** The error of a failed or cancelled turn. */
function failureOf({ payload }: StreamEvent): ErrorObject | undefined {
  if (payload.type === 'response_error') return payload.error
  if (payload.type !== 'turn_aborted_by_user') return undefined
  return { code: 'ABORTED', message: `The turn was stopped: ${payload.reason ?? 'cancelled'}` }
}

function interruption(code: string, message: string): Frame {
  const error = { message, type: 'server_error', param: null, code }
  return new Frame(`data: ${JSON.stringify({ error })}\n\ndata: [DONE]\n\n`)
}

const modelSchema = z
  .object({
    id: z.string().meta({ description: '`<providerId>/<modelId>`' }),
    object: z.literal('model'),
    created: z
      .number()
      .meta({ description: 'When this server started, in seconds since the epoch' }),
    owned_by: z.string().meta({ description: 'The provider' }),
  })
  .meta({ id: 'Model' })

const modelsSchema = z
  .object({ object: z.literal('list'), data: z.array(modelSchema) })
  .meta({ id: 'Models' })

const listRoute = spec.route('get', ROUTES.models, {
  summary: 'List the models (OpenAI compatible)',
  description:
    'The models that the providers list. Call others as `<providerId>/<modelId>`, also those of ' +
    '`scripted` if there is another provider.',
  tags: ['openai'],
  responses: { 200: spec.json('All models', modelsSchema), ...spec.openaiRefusals() },
})

const readRoute = spec.route('get', ROUTES.model, {
  summary: 'Retrieve a model (OpenAI compatible)',
  tags: ['openai'],
  request: { params: z.object({ model: z.string().min(1).max(300) }) },
  responses: { 200: spec.json('The model', modelSchema), ...spec.openaiRefusals('MODEL_UNKNOWN') },
})

export function addModelRoutes(app: GatewayApp, { providers, clock }: GatewayContext): void {
  const created = Math.floor(clock.now() / 1000)

  function toModel(id: string): z.infer<typeof modelSchema> {
    return { id, object: 'model', created, owned_by: id.slice(0, id.indexOf('/')) }
  }

  app.openapi(listRoute, (c) =>
    c.json({ object: 'list' as const, data: providers.models.map(toModel) }, 200),
  )

  app.openapi(readRoute, (c) => {
    const { model } = c.req.valid('param')
    const { models, allModels } = providers
    const id =
      allModels.find((each) => each === model) ??
      // Named without its provider.
      models.find((each) => each.slice(each.indexOf('/') + 1) === model)
    if (id === undefined) throw new TurnstreamError('MODEL_UNKNOWN', model)
    return c.json(toModel(id), 200)
  })
}
