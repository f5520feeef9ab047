import type { Context } from 'hono'
import * as z from 'zod'
import { onAbort } from '../../async/on-abort.ts'
import { isSliceOver, nextSlice } from '../../async/time-slice.ts'
import { START } from '../../log/offsets.ts'
import type { TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS } from '../../protocol/names.ts'
import type { StreamEvent } from '../../protocol/stream-event.ts'
import { isStreamEvent } from '../../protocol/stream-event-guard.ts'
import type { Submission } from '../../turns/turn-request.ts'
import { watchClient } from '../client-close.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'
import { TurnFailedError } from '../openai/errors.ts'
import { type AnswerEncoder, AnswerStream } from '../streams/answer-stream.ts'
import type { StreamKind } from '../streams/open-streams.ts'
import { headerOf, openSse, type SseConnection } from '../streams/sse-connection.ts'
import * as spec from './spec.ts'
import { SUBMIT_REFUSALS, startTurn, submitHeadersSchema } from './submit.ts'

/*
 * Shared by the routes of vendors' APIs: a request is one turn, answered in the vendor's dialect.
 */

/** How long headers are held for the first output, so that a turn that fails earlier gets an error status. */
const HOLD_MS = 5000

export const vendorHeadersSchema = submitHeadersSchema.extend({
  [HEADERS.cancelOnDisconnect]: spec.optional(
    z.enum(['true', 'false']),
    'With `true` the turn is cancelled when the client disconnects',
  ),
})

export type VendorHeaders = z.infer<typeof vendorHeadersSchema>

/** Errors of every request that starts a turn and waits for its answer. */
export const ANSWER_REFUSALS: readonly ErrorCode[] = [
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
]

/** A request whose turn was started. */
export interface VendorTurn {
  readonly c: Context<GatewayEnv>
  readonly context: GatewayContext
  readonly turn: TurnRecord
  /** Whether to cancel the turn when the client disconnects. */
  readonly isTied: boolean
  /** Whether a repeated request gets this turn. */
  readonly isNamed: boolean
}

/** Starts the turn of a request, and sets its ids as headers. */
export async function startVendorTurn(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  submission: Submission,
  headers: VendorHeaders,
): Promise<VendorTurn> {
  const { turnId, threadId } = await startTurn(c, context, submission, { acceptsAnyOutput: true })
  const turn = await c.get('space').log.getTurn(turnId)
  if (turn === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
  c.header(HEADERS.turnId, headerOf(turnId))
  c.header(HEADERS.threadId, headerOf(threadId))
  const isTied = headers[HEADERS.cancelOnDisconnect] === 'true'
  const isNamed = headers[HEADERS.idempotencyKey] !== undefined
  return { c, context, turn, isTied, isNamed }
}

const MAX_IGNORED_CHARS = 1000

/** Names the ignored parts of a request in a header. */
export function setIgnored(c: Context<GatewayEnv>, ignored: readonly string[]): void {
  if (ignored.length === 0) return
  const names = ignored.join(', ').replaceAll(/[^ -~]/g, '?')
  c.header(HEADERS.ignored, names.slice(0, MAX_IGNORED_CHARS))
}

/** Streams the answer from its beginning. Fails if the turn fails within `holdMs` and before any output. */
export async function streamAnswer(
  { c, context, turn, isTied, isNamed }: VendorTurn,
  encoder: AnswerEncoder,
  kind: StreamKind,
  holdMs = HOLD_MS,
): Promise<Response> {
  const { log } = c.get('space')
  const { turnId } = turn
  const reading = new AbortController()
  const stop = () => reading.abort()
  const answer = new AnswerStream(log.tail(turnId, 'events', START, reading.signal), encoder)
  const client = watchClient(c)
  const leave = () => {
    stop()
    if (isTied && !answer.isWhole) cancel(log, turnId, context)
  }
  onAbort(client.signal, leave)
  if (client.signal.aborted) leave()
  try {
    const failure = holdMs > 0 ? await answer.begin(context.clock, holdMs) : undefined
    if (failure !== undefined) throw new TurnFailedError(failure, isNamed)
    const send = (connection: SseConnection) => {
      onAbort(connection.signal, stop)
      return answer.sendTo(connection).finally(client.release)
    }
    return openSse(c, context, { kind, headers: {}, send })
  } catch (error) {
    client.release()
    stop()
    throw error
  }
}

/** Reads the turn to its end. SERVER_SHUTDOWN if the server closes before. */
export async function followAnswer(
  { c, context, turn, isTied }: VendorTurn,
  take: (event: StreamEvent) => void,
): Promise<void> {
  const { log } = c.get('space')
  const client = watchClient(c)
  const reading = AbortSignal.any([client.signal, context.closing])
  let isOver = false
  try {
    for await (const record of log.tail(turn.turnId, 'events', START, reading)) {
      if (isSliceOver()) await nextSlice()
      if (!('event' in record) || !isStreamEvent(record.event)) continue
      take(record.event)
      isOver ||= TERMINALS.has(record.event.type)
    }
    if (client.signal.aborted && isTied) cancel(log, turn.turnId, context)
    if (reading.aborted && !isOver) {
      throw new TurnstreamError('SERVER_SHUTDOWN', 'the turn is still running')
    }
  } finally {
    client.release()
  }
}

const TERMINALS: ReadonlySet<string> = new Set([
  'response_done',
  'response_error',
  'turn_aborted_by_user',
])

function cancel(log: TurnLog, turnId: string, { onError }: GatewayContext): void {
  log.requestCancel(turnId, 'the client disconnected').catch((error: unknown) => onError(error, {}))
}
