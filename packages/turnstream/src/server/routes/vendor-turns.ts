import { anyOf, onAbort, type StopSignal } from '@turnstream/core/internal/async/on-abort'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type { DecodedRequest, Submission } from '@turnstream/core/internal/formats/submission'
import { isTerminal } from '@turnstream/core/internal/formats/translation'
import { TurnFailedError } from '@turnstream/core/internal/formats/turn-failed-error'
import type { TurnLog, TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { type ErrorCode, hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { HEADERS, THREAD_HEADERS } from '@turnstream/core/internal/protocol/names'
import type { ErrorObject, StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import type { Context } from 'hono'
import * as z from 'zod'
import { START } from '../../log/offsets.ts'
import { ThreadChain } from '../../turns/thread-chain.ts'
import { estimateTokens } from '../../turns/thread-history.ts'
import { canContinue, findContinued, isRunning, type TurnPlace } from '../../turns/thread-index.ts'
import { inputItems, type Submitted } from '../../turns/turn-request.ts'
import type { SubmitOptions } from '../../turns/turn-runner.ts'
import { watchClient } from '../client-close.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'
import { encodeJson, type JsonResponse, sendJson } from '../json-response.ts'
import { type Rejoined, type RepeatedRequest, RequestClient } from '../reattachment.ts'
import { AnswerSize } from '../streams/answer-size.ts'
import { type AnswerEncoder, AnswerStream } from '../streams/answer-stream.ts'
import { headerOf, openSse, type SseConnection } from '../streams/sse-connection.ts'
import * as spec from './spec.ts'
import {
  SUBMIT_REFUSALS,
  startTurn,
  submissionHead,
  submitHeadersSchema,
  withStreamSlot,
} from './submit.ts'

/* Shared by the routes of vendors' APIs: a request is one turn, answered in the vendor's dialect. */

/** How long headers are held for the first output, so that a turn that fails earlier gets an error status. */
const HOLD_MS = 5000

const threadHeader = spec.optional(
  z.string(),
  'The thread of the turn. Ignored if it is not a valid id, or while the thread is running',
)

export const headersSchema = submitHeadersSchema.extend({
  [THREAD_HEADERS[0]]: threadHeader,
  [THREAD_HEADERS[1]]: threadHeader,
  [THREAD_HEADERS[2]]: threadHeader,
  [HEADERS.cancelOnDisconnect]: spec.optional(
    z.enum(['true', 'false']),
    'With `true` the turn is cancelled when the client disconnects',
  ),
  [HEADERS.reattach]: spec.optional(
    z.enum(['yes', 'no']),
    'With `no` the request gets a new turn, even if the client of the same one disconnected',
  ),
})

type VendorHeaders = z.infer<typeof headersSchema>

/** Errors of every request that starts a turn and waits for its answer. */
export const ANSWER_REFUSALS: readonly ErrorCode[] = [
  ...SUBMIT_REFUSALS.filter((code) => code !== 'THREAD_BUSY'),
  'OPTION_INVALID',
  'STREAMS_LIMITED',
  'TURN_ITEM_LIMIT',
  'TURN_ROUND_LIMIT',
  'TURN_TEXT_LIMIT',
  'TURN_TIME_LIMIT',
  'UPSTREAM_MALFORMED',
  'UPSTREAM_TIMEOUT',
  'UPSTREAM_TRUNCATED',
  'UPSTREAM_UNREACHABLE',
]

const answerHeaders = spec.turnHeaders.extend({
  [HEADERS.reattached]: spec.optional(
    z.string(),
    'The turn, if an earlier client of the same request disconnected from it',
  ),
})

/** The answer of a route that starts a turn: JSON, or a stream if the request asks for one. */
export function answerSpec<Schema extends z.ZodType>(
  description: string,
  schema: Schema,
  streamed: z.ZodType,
) {
  return { ...spec.jsonOrSse(description, schema, streamed), headers: answerHeaders }
}

export function estimateInputTokens({ history = [], input, settings }: Submission): number {
  const tools = JSON.stringify(settings?.tools ?? []).length - 2
  return estimateTokens(inputItems('', history, input)) + Math.ceil(tools / 4)
}

/** A request whose turn was started. */
export interface VendorTurn {
  readonly c: Context<GatewayEnv>
  readonly context: GatewayContext
  readonly turn: TurnRecord
  /** Whether to cancel the turn when the client disconnects. */
  readonly isTied: boolean
  /** Whether a repeated request gets this turn. */
  readonly isNamed: boolean
  /** The ids of items that the client has received before it was cut off. */
  readonly received?: ReadonlySet<string>
  /** Missing if the same request always gets a new turn. */
  readonly requestClient?: RequestClient
}

/** The turn of a request, where it is new. */
interface PreparedTurn extends DecodedRequest {
  /** Deletes the content of the turn this long after its end. */
  readonly contentMs?: number
  /** The turn that the request names as the one before. */
  readonly previous?: TurnPlace | undefined
}

/** Starts the turn of a request, or joins the one of the same request before. Sets its ids as headers. */
async function startVendorTurn(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  request: VendorAnswer,
): Promise<VendorTurn> {
  const { headers } = request
  const isTied = headers[HEADERS.cancelOnDisconnect] === 'true'
  const isNamed = headers[HEADERS.idempotencyKey] !== undefined
  const space = c.get('space')
  const repeated = c.get('repeated')
  const earlier = repeated && (await rejoin(c, context, repeated))
  const turn = earlier?.turn ?? (await startNew(c, context, request))
  const { turnId, threadId } = turn
  c.header(HEADERS.turnId, headerOf(turnId))
  c.header(HEADERS.threadId, headerOf(threadId))
  const started = { c, context, turn, isTied, isNamed }
  const key = earlier?.key ?? repeated?.keys[0]
  // A tied turn is cancelled when its client leaves.
  if (repeated === undefined || key === undefined || isTied) return started
  const { reattachment } = context
  if (earlier === undefined) reattachment.start(space, repeated, turnId)
  return {
    ...started,
    ...(earlier !== undefined && { received: earlier.received }),
    requestClient: new RequestClient(c, () => reattachment.leave(space, key, turnId)),
  }
}

interface VendorAnswer {
  readonly headers: VendorHeaders
  readonly isStreamed: boolean
  /** Called once there is a stream slot. */
  readonly begin?: () => Promise<void>
  /** Called only for a new turn: what the request refers to may be gone when it is repeated. */
  readonly prepare: () => PreparedTurn | Promise<PreparedTurn>
  readonly stream: (started: VendorTurn) => Promise<Response>
  /** Returns what is sent as JSON. */
  readonly complete: (started: VendorTurn) => Promise<object>
}

/** Starts the turn of a request and answers it. If only the answer fails, a repeated request gets the turn. */
export function answerRequest(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  request: VendorAnswer,
): Promise<Response | JsonResponse> {
  return withStreamSlot(c, context, async (slot) => {
    await request.begin?.()
    const started = await startVendorTurn(c, context, request)
    try {
      if (request.isStreamed) return await request.stream(started)
      const answer = await request.complete(started)
      slot.free()
      return sendJson(c, context, encodeJson(answer))
    } catch (error) {
      if (!(error instanceof TurnFailedError)) started.requestClient?.leave()
      throw error
    }
  })
}

/** Sends the provider exactly the messages of the request, whatever its thread. Names what was ignored in a header. */
async function startNew(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  { headers, prepare }: VendorAnswer,
): Promise<TurnRecord> {
  context.limits.checkTurn(c.get('caller'))
  // A large body has just been parsed.
  if (isSliceOver()) await nextSlice()
  const { submission: requested, previous, ignored, contentMs } = await prepare()
  setIgnored(c, ignored)
  const { model, history = [] } = requested
  const submission = {
    ...submissionHead({ model }, headers),
    ...requested,
    history,
    ...(contentMs !== undefined && { contentMs }),
  }
  const submitted = await startInThread(c, context, submission, { headers, previous })
  const { turnId } = submitted
  if (submitted.ignored !== undefined) setIgnored(c, [...ignored, ...submitted.ignored])
  const turn = await c.get('space').log.getTurn(turnId)
  if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
  return turn
}

/** Starts the turn of a request in the thread that the request continues. Never THREAD_BUSY. */
async function startInThread(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  submission: Submission,
  { headers, previous }: Pick<PreparedTurn, 'previous'> & { readonly headers: VendorHeaders },
): Promise<Submitted> {
  const { history = [], input, settings } = submission
  const chain = await ThreadChain.read([...history, ...input], settings?.user)
  const { log } = c.get('space')
  const place = await choosePlace(log, headers, () => previous ?? findContinued(log, chain))
  const { answerKey } = chain
  const requestHash = c.get('repeated')?.keys[0]
  const options = { acceptsAnyOutput: true, answerKey, requestHash }
  try {
    return await startTurn(c, context, submission, { ...options, ...place })
  } catch (error) {
    // Another request was faster.
    if (place === undefined || !hasCode(error, 'THREAD_BUSY')) throw error
    return startTurn(c, context, submission, options)
  }
}

/** Undefined for a new thread, also if the turn would not be the next of its thread. */
async function choosePlace(
  log: TurnLog,
  headers: VendorHeaders,
  findBefore: () => TurnPlace | undefined | Promise<TurnPlace | undefined>,
): Promise<Pick<SubmitOptions, 'threadId' | 'follows'> | undefined> {
  // Agents send these headers with every request, so an invalid one is ignored.
  const ids = THREAD_HEADERS.map((name) => headers[name])
  const named = ids.find((id) => spec.headerId.safeParse(id).success)
  if (named !== undefined && !(await isRunning(log, named))) return { threadId: named }
  const before = await findBefore()
  if (before === undefined || !(await canContinue(log, before))) return undefined
  const { threadId, turnId: follows } = before
  return { threadId, follows }
}

/** The turn of the same request before, whose client was cut off. */
async function rejoin(
  c: Context<GatewayEnv>,
  { reattachment }: GatewayContext,
  repeated: RepeatedRequest,
): Promise<Rejoined | undefined> {
  const found = await reattachment.find(c.get('space'), repeated)
  if (found === undefined) return undefined
  const { turnId } = found.turn
  c.set('turnId', turnId)
  c.set('isReattached', true)
  c.header(HEADERS.reattached, headerOf(turnId))
  return found
}

export const MAX_IGNORED_CHARS = 1000

/** Names the ignored parts of a request in a header. */
function setIgnored(c: Context<GatewayEnv>, ignored: readonly string[]): void {
  if (ignored.length === 0) return
  const names = [...new Set(ignored)].map((name) => name.replaceAll(/[^ -+\--~]/g, '?'))
  c.header(HEADERS.ignored, names.join(', ').slice(0, MAX_IGNORED_CHARS))
}

/** Counts the client of a turn as one of its readers, until `release`. */
function readerOf({ c, context, turn: { turnId }, isTied }: VendorTurn) {
  const { log, tenant } = c.get('space')
  const endReading = context.streams.readers.add(tenant, turnId)
  const client = watchClient(c)
  return {
    /** Aborts when the client disconnects. */
    signal: client.signal,
    tail: (signal: StopSignal) => log.tail(turnId, 'events', START, signal),
    /** The client has left: cancels a tied turn without other readers, unless its answer is complete. */
    leave: (isComplete = false) => {
      if (!endReading() || !isTied || isComplete) return
      const cancelled = log.requestCancel(turnId, 'the client disconnected')
      cancelled.catch((error: unknown) => context.onError(error, {}))
    },
    release: () => {
      client.release()
      endReading()
    },
  }
}

/** Streams a stored turn for a client that resumes it, or joins late. */
export function resumeAnswer(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  turn: TurnRecord,
  encoder: AnswerEncoder,
): Promise<Response> {
  const resumed = { c, context, turn, isTied: false, isNamed: true }
  return withStreamSlot(c, context, () => streamAnswer(resumed, encoder, 0))
}

/** Streams the answer from its beginning. Fails if the turn fails within `holdMs` and before any output. */
export async function streamAnswer(
  started: VendorTurn,
  encoder: AnswerEncoder,
  holdMs = HOLD_MS,
): Promise<Response> {
  const { c, context, isNamed, requestClient } = started
  const reader = readerOf(started)
  const reading = new AbortController()
  const stop = () => reading.abort()
  const answer = new AnswerStream(reader.tail(reading.signal), encoder)
  const leave = () => {
    stop()
    reader.leave(answer.isComplete)
  }
  onAbort(reader.signal, leave)
  if (reader.signal.aborted) leave()
  try {
    const failure = holdMs > 0 ? await answer.begin(context.clock, holdMs) : undefined
    if (failure !== undefined) throw new TurnFailedError(failure, isNamed)
    if (requestClient !== undefined) requestClient.isServed = () => answer.isComplete
    const send = (connection: SseConnection) => {
      onAbort(connection.signal, () => {
        stop()
        if (!answer.isComplete) requestClient?.leave()
      })
      return answer.sendTo(connection).finally(reader.release)
    }
    return openSse(c, context, { kind: encoder.kind, headers: {}, send })
  } catch (error) {
    reader.release()
    stop()
    throw error
  }
}

/** Reads the turn to its end. Returns its error. SERVER_SHUTDOWN if the server closes before. */
export async function followAnswer(
  started: VendorTurn,
  onEvent: (event: StreamEvent) => void,
): Promise<ErrorObject | undefined> {
  const { c, context } = started
  const reader = readerOf(started)
  const reading = anyOf([reader.signal, context.closing])
  const slot = c.get('slot')
  const size = new AnswerSize()
  let isOver = false
  let failure: ErrorObject | undefined
  try {
    for await (const record of reader.tail(reading.signal)) {
      if (isSliceOver()) await nextSlice()
      if (!('event' in record) || !isStreamEvent(record.event)) continue
      if (slot !== undefined && size.add(record)) {
        slot.keep(size.chars)
        await slot.room(size.chars, reading.signal)
      }
      onEvent(record.event)
      if (record.event.type === 'response_error') failure = record.event.payload.error
      isOver ||= isTerminal(record.event.payload)
    }
    if (reader.signal.aborted) reader.leave()
    if (reading.signal.aborted && !isOver) {
      throw new TurnstreamError('SERVER_SHUTDOWN', 'the turn is still running')
    }
    return failure
  } finally {
    reading.release()
    reader.release()
  }
}
